import json

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from scipy.special import logsumexp
from scipy.stats import multivariate_t, percentileofscore

from bayestriplet import ClassPosterior, NIWPrior
from bayestriplet.errors import InputError, StateError
from bayestriplet.evaluation.embeddings import Embedded
from bayestriplet.evaluation.predictive_of import fit_predictive
from bayestriplet.runs import predictive
from bayestriplet.runs.folder import RunFolder
from bayestriplet.runs.predictive import Predictive, open_predictive

SIZES = (50, 12, 0, 1)  # items per class: one class is absent, one has a single item
NAMES = ("a", "b\nc", "$", "ü")


def make_items(sizes, dim, seed):
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    centers = np.random.default_rng(5).normal(size=(len(sizes), dim))
    spread = 0.7 * np.random.default_rng(6).normal(size=(dim, dim)) / dim**0.5
    return Embedded((centers[labels] + rng.normal(size=(len(labels), dim)) @ spread).astype("f"), labels)


def make_file(folder, dim=3, held_out=(40, 40, 5, 3)):
    """The file of what a posterior of made items predicts, and the items."""
    train, kept = make_items(SIZES, dim, 0), make_items(held_out, dim, 1)
    posterior = ClassPosterior(len(SIZES), dim, dtype=torch.float64)
    posterior.update(torch.from_numpy(train.vectors), torch.from_numpy(train.labels))
    path = folder / "predictive.safetensors"
    fit_predictive(posterior, NAMES, "of an encoder", train, kept).save(path)
    return train, kept, path


def reading_of(path):
    with safe_open(path, "np") as file:
        return json.loads(file.metadata()["reading"])


def slow_prior(train, reading):
    """Grand mean, kappa, scale and nu of the prior, item by item."""
    x = train.vectors.astype(np.float64)
    pooled = np.zeros((x.shape[1], x.shape[1]))
    for item, label in zip(x, train.labels, strict=True):
        shift = item - x[train.labels == label].mean(0)
        pooled += np.outer(shift, shift) / len(x)
    pooled += reading["floor"] * np.trace(pooled) / len(pooled) * np.eye(len(pooled))
    return x.mean(0), 0.01, reading["weight"] * pooled, len(pooled) + 1 + reading["weight"]


@pytest.mark.parametrize("dim", [1, 3, 40])
def test_probabilities_are_those_of_a_torch_posterior_with_the_stored_prior_memory_and_temperature(
    dim, tmp_path
):
    train, _, path = make_file(tmp_path, dim)
    reading = reading_of(path)
    prior = NIWPrior(*(torch.as_tensor(value, dtype=torch.float64) for value in slow_prior(train, reading)))
    posterior = ClassPosterior(4, dim, prior=prior, memory=reading["memory"], dtype=torch.float64)
    posterior.update(torch.from_numpy(train.vectors), torch.from_numpy(train.labels))
    x = np.random.default_rng(2).normal(size=(50, dim)).astype(np.float32)
    expected = posterior.class_probabilities(torch.from_numpy(x), temperature=reading["temperature"])
    found = Predictive.load(path)
    got = found.probabilities(x)
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-300)
    np.testing.assert_allclose(got.sum(1), 1)
    np.testing.assert_allclose(np.exp(found.log_probabilities(x)), got)
    assert (got[:, 2] == 0).all()
    assert found.classes == NAMES


def test_scores_are_those_of_scipys_t_distributions(tmp_path):
    train, kept, path = make_file(tmp_path)
    found, reading = Predictive.load(path), reading_of(path)
    center, kappa, scale, nu = slow_prior(train, reading)
    x = np.random.default_rng(2).normal(size=(20, 3))
    columns = []
    for k, size in enumerate(SIZES):
        if not size:
            continue
        own = train.vectors[train.labels == k].astype(np.float64)
        n = min(size, reading["memory"])
        scatter = n * np.cov(own.T, bias=True) if size > 1 else np.zeros((3, 3))
        shift = own.mean(0) - center
        whole = scale + scatter + kappa * n / (kappa + n) * np.outer(shift, shift)
        freedom = nu + n - 3 + 1
        shape = whole * (kappa + n + 1) / ((kappa + n) * freedom)
        density = multivariate_t((kappa * center + n * own.mean(0)) / (kappa + n), shape, freedom)
        columns.append(density.logpdf(x) / reading["temperature"] + np.log(size / sum(SIZES)))
    expected = -logsumexp(columns, axis=0)
    np.testing.assert_allclose(found.novelty_scores(x), expected, rtol=1e-6)
    reference = found.novelty_scores(kept.vectors[kept.labels != 2])
    np.testing.assert_allclose(found.held_out, np.sort(reference), rtol=1e-9)
    percent = [percentileofscore(found.held_out, value, "mean") for value in expected]
    np.testing.assert_allclose(found.novelty(x), percent)


def test_a_vector_far_from_every_class_is_more_novel_than_all_and_has_finite_probabilities(tmp_path):
    _, _, path = make_file(tmp_path)
    found = Predictive.load(path)
    far = np.full((2, 3), 1e8)
    assert (found.novelty(far) == 100).all()
    np.testing.assert_allclose(found.probabilities(far).sum(1), 1)
    for one, same in zip(found.predict(far), (found.probabilities(far), found.novelty(far)), strict=True):
        np.testing.assert_array_equal(one, same)
    assert found.novelty(np.empty((0, 3))).shape == (0,)
    assert found.probabilities(np.empty((0, 3))).shape == (0, 4)


def test_without_held_out_items_the_training_items_stand_in_and_there_is_no_percentage(tmp_path):
    _, _, path = make_file(tmp_path, held_out=(0, 0, 9, 0))
    found = Predictive.load(path)
    assert found.temperature > 0
    assert len(found.held_out) == 0
    assert np.isnan(found.novelty(np.zeros((2, 3)))).all()


def test_blocks_change_nothing(tmp_path, monkeypatch):
    _, _, path = make_file(tmp_path)
    found = Predictive.load(path)
    x = np.random.default_rng(0).normal(size=(23, 3))
    whole = found.probabilities(x)
    monkeypatch.setattr(predictive, "BLOCK", 4)
    np.testing.assert_array_equal(found.probabilities(x), whole)


def test_a_predictive_survives_its_file_and_equal_ones_are_equal_files(tmp_path):
    _, _, path = make_file(tmp_path)
    found = Predictive.load(path)
    assert found.encoder == "of an encoder"
    for _ in range(5):
        found.save(tmp_path / "again.safetensors")
        assert (tmp_path / "again.safetensors").read_bytes() == path.read_bytes()


def test_a_predictive_of_another_encoder_is_refused(tmp_path):
    assert open_predictive(RunFolder(tmp_path), "of an encoder") is None
    make_file(tmp_path)
    assert open_predictive(RunFolder(tmp_path), "of an encoder").classes == NAMES
    with pytest.raises(StateError, match=r"is of another network than the encoder: `bayestriplet export"):
        open_predictive(RunFolder(tmp_path), "of another")


METADATA = {"format": "1", "classes": '["a", "b", "c", "d"]', "encoder": "x"}


@pytest.mark.parametrize(
    ("change", "metadata", "message"),
    [
        ({}, {"format": "7"}, "has format '7'; this version reads 1"),
        ({}, {"classes": '["a"]'}, r"is not a whole predictive: mean must have shape \(1, 3\)"),
        ({"mean": None}, {}, "is not a whole predictive: .*mean"),
        ({"more": np.zeros(1)}, {}, "is not a whole predictive: .*more"),
        ({"whitening": np.full((4, 3, 3), np.nan)}, {}, "whitening must be finite"),
        ({"temperature": np.array(0.0)}, {}, "temperature and freedom must be above 0"),
        ({"log_prior": np.full(4, -np.inf)}, {}, "a class must have items"),
    ],
)
def test_a_file_that_is_not_whole_is_one_line(change, metadata, message, tmp_path):
    _, _, path = make_file(tmp_path)
    tensors = {name: value for name, value in (load_file(path) | change).items() if value is not None}
    save_file(tensors, path, METADATA | metadata)
    with pytest.raises(InputError, match=message) as caught:
        Predictive.load(path)
    assert "\n" not in str(caught.value)


def test_a_missing_or_broken_file_is_one_line(tmp_path):
    with pytest.raises(InputError, match="is missing: train again"):
        Predictive.load(tmp_path / "none")
    (tmp_path / "junk").write_bytes(b"junk")
    with pytest.raises(InputError, match="junk cannot be read as a predictive"):
        Predictive.load(tmp_path / "junk")


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        (np.zeros((2, 4)), r"vectors must have shape \(N, 3\); got \(2, 4\)"),
        (np.zeros(3), r"got \(3,\)"),
        ([[np.nan, 0, 0]], "vectors must be finite numbers"),
        ([["a", "b", "c"]], "vectors must be finite numbers"),
    ],
)
def test_vectors_are_checked(vectors, message, tmp_path):
    _, _, path = make_file(tmp_path)
    with pytest.raises(InputError, match=message):
        Predictive.load(path).probabilities(vectors)
