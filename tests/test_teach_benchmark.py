"""What the documents claim of taught classes is what was measured."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

import teach
from teach_tables import KINDS, WAYS, accuracy_table

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "teach.json"


def mean_of(encoders, shots, way, name):
    return np.mean([one["shots"][shots][way][name] for one in encoders])


def mean_auroc(encoders, way):
    return np.mean([one["novelty"]["auroc"][way] for one in encoders])


def test_the_posterior_is_best_with_every_encoder_and_every_number_of_examples():
    found = json.loads(RESULTS.read_text())["sets"]
    for encoders in found.values():
        assert len(encoders) == 5
        for one in encoders:
            for ways in one["shots"].values():
                best, *others = ways["posterior"], ways["nearest mean"], ways["nearest item"]
                assert all(best[name] > other[name] for other in others for name in ("new", "harmonic"))
                assert all(best["log_loss"] < other["log_loss"] for other in others)


def test_novelty_is_above_the_plain_score_with_every_encoder_and_above_the_nearest_item_with_all_but_one():
    behind = []
    for encoders in json.loads(RESULTS.read_text())["sets"].values():
        for one in encoders:
            found = one["novelty"]["auroc"]
            assert found["posterior"] > found["plain score"]
            behind += [found["nearest item"] - found["posterior"]] * (
                found["posterior"] < found["nearest item"]
            )
        assert mean_auroc(encoders, "posterior") > mean_auroc(encoders, "nearest item")
    assert np.round(behind, 3).tolist() == [0.001]


def test_every_encoder_that_is_better_than_raw_pixels_flags_every_odd_picture_and_few_ordinary_ones():
    found = json.loads(RESULTS.read_text())["sets"]
    for name in ("mnist", "omniglot"):
        for one in found[name]:
            recalls = one["recall@1"]
            assert next(iter(recalls.values())) > recalls["raw pixels"]
            assert set(one["novelty"]["flagged"]) == set(KINDS)
            assert min(one["novelty"]["flagged"].values()) == 1.0
            assert 0.005 < one["novelty"]["ordinary above 99"] < 0.02


def test_what_is_said_to_hold_and_not_to_hold_is_what_was_measured():
    found = json.loads(RESULTS.read_text())["sets"]
    text = " ".join((ROOT / "docs" / "results.md").read_text().split())
    digits, birds = (mean_of(found[name], "20", "posterior", "ece") for name in ("mnist", "cub"))
    for name in ("mnist", "cub"):
        assert max(one["shots"]["20"]["posterior"]["ece"] for one in found[name]) <= 0.05
    assert f"at 20 examples is {digits:.3f} for digits and {birds:.3f} for birds" in text
    old = [mean_of(found[name], "20", "posterior", "old") for name in ("mnist", "cub")]
    assert f"With 20 examples {old[0]:.0f}% of the old digits and {old[1]:.0f}% of the old birds" in text
    novelty = [one["novelty"]["auroc"]["posterior"] for one in found["mnist"]]
    low, high = min(novelty), max(novelty)
    assert low >= 0.98
    assert f"is {np.mean(novelty):.4f}, and between {low:.3f} and {high:.3f} by encoder" in text
    assert max(one["speed"]["teach_10000_s"] for many in found.values() for one in many) < 1


def test_the_measured_encoders_are_not_those_that_constants_were_chosen_on():
    assert json.loads(RESULTS.read_text())["seeds"] == list(teach.SEEDS) == [20, 21, 22, 23, 24]


def test_measures_are_those_of_a_worked_example():
    scores = np.log([[0.9, 0.05, 0.05], [0.2, 0.7, 0.1], [0.1, 0.1, 0.8], [0.6, 0.1, 0.3]])
    found = teach.figures(scores, np.array([0, 0, 2, 2]), 2, 2)
    assert (found["old"], found["new"], found["harmonic"]) == pytest.approx((50, 50, 50))
    assert found["log_loss"] == pytest.approx(-np.log([0.9, 0.2, 0.8, 0.3]).mean())
    assert found["ece"] == pytest.approx(0.2)  # one item is predicted as new, with 80%, and is
    assert teach.tempered(-scores, np.array([0, 0, 2, 2]), 2, 2)["log_loss"] <= found["log_loss"] + 1e-3


def test_a_table_has_a_row_for_every_way_and_number_of_examples():
    row = dict.fromkeys(("new", "old", "harmonic", "log_loss", "ece"), 1.0)
    encoder = {"shots": {"1": dict.fromkeys(WAYS, row), "5": dict.fromkeys(WAYS, row)}}
    assert len(accuracy_table({"mnist": [encoder]}).splitlines()) == 2 + 6
