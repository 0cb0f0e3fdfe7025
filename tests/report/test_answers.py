"""What an answer says, in a line."""

from dataclasses import replace

import pytest

from bayestriplet.report.answers import describe
from bayestriplet.retrieval.answers import Answer, Neighbour, Vote

NEIGHBOUR = Neighbour(1, "scans/a.png", "cat", 0.0, "")
ANSWER = Answer("a.png", (NEIGHBOUR,), Vote("cat", 1.0), {"cat": 0.9, "dog": 0.1}, 99.7)


@pytest.mark.parametrize("against", ["trained on", "trained on or taught"])
def test_a_novel_item_of_the_index_is_unlike_classes_and_never_unlike_what_is_indexed(against):
    said = describe(replace(ANSWER, against=against))
    assert said.endswith(f"; novelty 99.7, unlike the classes {against}")
    assert "index" not in said
    assert "unlike" not in describe(replace(ANSWER, novelty=99.0))


def test_what_novelty_rests_on_is_said_beside_it():
    said = describe(replace(ANSWER, novelty=12.0, evidence="by only 60 validation images"))
    assert said.endswith("; novelty 12.0 (by only 60 validation images)")
