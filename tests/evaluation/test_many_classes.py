"""With many classes, no table of all items by all classes is held: it would grow with their square."""

import tracemalloc

import numpy as np
import pytest
import torch

from bayestriplet import ClassPosterior
from bayestriplet.evaluation import calibration, predictive_fit, probabilities
from bayestriplet.evaluation.calibration import Judged
from bayestriplet.evaluation.embeddings import Embedded
from bayestriplet.evaluation.predictive_of import fit_predictive
from bayestriplet.evaluation.probabilities import RunVectors, compare_ways
from bayestriplet.retrieval.live import describe_vectors
from bayestriplet.runs import predictive, students

CLASSES, EACH, DIM = 300, 12, 6
TABLE = 8 * CLASSES * CLASSES * EACH  # bytes


def items(seed):
    rng = np.random.default_rng(seed)
    labels = np.arange(CLASSES * EACH) % CLASSES
    centers = np.random.default_rng(9).normal(size=(CLASSES, DIM))
    return Embedded((centers[labels] + 0.3 * rng.normal(size=(len(labels), DIM))).astype(np.float32), labels)


@pytest.fixture
def small_blocks(monkeypatch):
    for module in (calibration, predictive_fit, probabilities, predictive):
        monkeypatch.setattr(module, "CELLS", 30_000)
    monkeypatch.setattr("bayestriplet.retrieval.live.CELLS", 30_000)
    monkeypatch.setattr(students, "BLOCK_CELLS", 30_000)
    monkeypatch.setattr(predictive_fit, "FEWEST", 100)
    monkeypatch.setattr(predictive_fit, "WORK", 1)
    monkeypatch.setattr(probabilities, "NEIGHBOURS", (1, 5))  # lists of 200 do not grow with the classes


def fitted(train, held_out):
    posterior = ClassPosterior(CLASSES, DIM, dtype=torch.float64, structure="lowrank")
    posterior.update(torch.from_numpy(train.vectors), torch.from_numpy(train.labels))
    return fit_predictive(posterior, tuple(map(str, range(CLASSES))), "e", train, held_out)


def peak_of(work):
    tracemalloc.start()
    try:
        found = work()
        return found, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_what_a_run_says_of_many_items_is_fitted_measured_and_told_in_blocks(small_blocks):
    train, val, test = (items(seed) for seed in range(3))
    found, peak = peak_of(lambda: fitted(train, val))
    assert peak < TABLE / 2
    assert len(found.held_out) == len(val.labels)

    def measured():
        ways = compare_ways(RunVectors(train, val, test), CLASSES, found.log_probabilities)
        return {name: Judged.by(way, test.vectors, test.labels, CLASSES) for name, way in ways.items()}

    judged, peak = peak_of(measured)
    assert peak < TABLE / 2
    assert all(one.right.mean() > 0.5 for one in judged.values())
    said, peak = peak_of(lambda: describe_vectors(found, test.vectors))
    assert peak < TABLE / 2
    assert all(len(shares) == 10 for shares, _ in said)


def test_what_is_said_in_blocks_is_what_is_said_at_once(small_blocks, monkeypatch):
    train, val, test = (items(seed) for seed in range(3))
    blocks = fitted(train, val)
    scores, said = blocks.novelty_scores(test.vectors), describe_vectors(blocks, test.vectors)
    monkeypatch.undo()
    np.testing.assert_allclose(scores, blocks.novelty_scores(test.vectors), rtol=1e-9)
    for (shares, novelty), (expected, at_once) in zip(
        said, describe_vectors(blocks, test.vectors), strict=True
    ):
        assert list(shares) == list(expected)
        np.testing.assert_allclose(list(shares.values()), list(expected.values()), rtol=1e-7)
        assert novelty == pytest.approx(at_once)
