"""What a run keeps of how its pictures look."""

import numpy as np
import pytest

import bayestriplet as bt
from bayestriplet.evaluation.calibration import auroc
from bayestriplet.evaluation.evaluator import Evaluator
from bayestriplet.runs.predictive import open_predictive
from bayestriplet.runs.teaching import MOST, open_teaching, spread_rows

SMALL = "tests.training.networks:small"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "digits"
    options = {"backbone": SMALL, "dim": 8, "size": 8, "lr": 0.003}
    return bt.train("digits", out=path, without="0", max_steps=60, validate_every=30, **options)


def test_kept_validation_items_have_measures_and_a_hundredth_of_them_lies_above_99(run):
    kept = open_teaching(run.folder, run.encoder.fingerprint, {})
    predictive = open_predictive(run.folder, run.encoder.fingerprint)
    assert len(kept.looks) == len(kept.validation) == len(kept.pictured) <= MOST
    novelty = predictive.novelty(kept.validation, kept.looks.astype(np.float64))
    assert (novelty > 99).mean() == pytest.approx(0.01, abs=1 / len(novelty))
    np.testing.assert_allclose(novelty.mean(), 50)
    size = run.folder.teaching.stat().st_size
    assert size - kept.validation.nbytes - kept.looks.nbytes < 100_000


def test_the_measured_auroc_of_novelty_is_that_of_pictures(run):
    measured = Evaluator(run.path, backbone=SMALL)
    data, novel = measured.open(measured.config.data)
    scores = []
    for found in (novel, data):
        pixels = found.read(found.indices("test"))
        predictive = open_predictive(run.folder, run.encoder.fingerprint)
        scores.append(predictive.novelty_scores(run.encode(pixels), predictive.look(pixels)))
    assert run.evaluate(backbone=SMALL).novelty["posterior"] == pytest.approx(auroc(*scores), abs=1e-4)


def test_a_run_on_vectors_keeps_nothing_of_looks(tmp_path):
    rng = np.random.default_rng(0)
    labels = np.arange(300) % 3
    np.savez(tmp_path / "v.npz", vectors=rng.normal(size=(300, 6)).astype(np.float32) + labels[:, None],
             labels=labels)  # fmt: skip
    found = bt.train(f"vectors:{tmp_path / 'v.npz'}", out=tmp_path / "run", dim=4, max_steps=20)
    assert open_predictive(found.folder, found.encoder.fingerprint).appearance is None
    assert np.isfinite(found.novelty(found.encode(rng.normal(size=(5, 6)).astype(np.float32)))).all()


def test_rows_are_spread_evenly_and_no_more_than_asked_for():
    assert spread_rows(5, 10).tolist() == [0, 1, 2, 3, 4]
    assert spread_rows(101, 3).tolist() == [0, 50, 100]
    assert spread_rows(0).tolist() == []
