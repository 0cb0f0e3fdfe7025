"""What is said beside novelty of what it rests on."""

from dataclasses import replace

import numpy as np
import pytest

from bayestriplet.retrieval.live import novelty_words
from bayestriplet.runs.predictive import Predictive
from bayestriplet.runs.statistics import Statistics
from bayestriplet.runs.teaching import Evidence

ITEMS = np.random.default_rng(0).normal(size=(9, 2))
STUDENTS = Statistics.of(ITEMS, np.zeros(9, np.int64), 1).read(30.0, 3.0, 0.1)
PREDICTIVE = Predictive(("a",), "e", STUDENTS, np.zeros(1), 1.0, np.empty(0))


@pytest.mark.parametrize(
    ("number", "auroc", "words"),
    [
        (60, None, "by only 60 validation images, not measured on held-out classes"),
        (1, 0.93, "by only 1 validation image"),
        (5000, None, "not measured on held-out classes"),
        (5000, 0.554, "AUROC of only 0.55 on held-out classes"),
        (60, 0.4, "by only 60 validation images, AUROC of only 0.40 on held-out classes"),
        (5000, 0.93, ""),
        (0, None, ""),
    ],
)
def test_few_validation_images_and_an_auroc_that_is_low_or_was_not_measured_are_said(number, auroc, words):
    found = replace(PREDICTIVE, held_out=np.zeros(number), evidence=Evidence(number, auroc))
    assert novelty_words(found, "image") == ("trained on", words)
    assert novelty_words(None, "image") == ("trained on", "")
