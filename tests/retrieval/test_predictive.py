import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from scipy.special import logsumexp
from scipy.stats import multivariate_t, percentileofscore

from bayestriplet.errors import InputError
from bayestriplet.evaluation.predictive_file import HeldOut, write_predictive
from bayestriplet.posterior.posterior import ClassPosterior
from bayestriplet.retrieval import predictive
from bayestriplet.retrieval.predictive import Predictive

SIZES = (30, 12, 0, 1)  # items a class: one class is absent, one has a single item
NAMES = ("a", "b\nc", "$", "ü")


def make_items(sizes, dim, seed):
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    centers = np.random.default_rng(5).normal(size=(len(sizes), dim))
    return (centers[labels] + 0.7 * rng.normal(size=(len(labels), dim))).astype(np.float32), labels


def make_file(folder, dim=3, held_out=(40, 40, 5, 3)):
    """A posterior of made items, and the file of what it predicts."""
    vectors, labels = make_items(SIZES, dim, 0)
    posterior = ClassPosterior(len(SIZES), dim, dtype=torch.float64)
    posterior.update(torch.from_numpy(vectors), torch.from_numpy(labels))
    (folder / "model").write_bytes(b"weights")
    kept = HeldOut(*make_items(held_out, dim, 1))
    write_predictive(folder / "predictive.safetensors", folder / "model", posterior, NAMES, kept)
    return posterior, kept, folder / "predictive.safetensors"


@pytest.mark.parametrize("dim", [1, 3, 40])
def test_probabilities_are_those_of_the_torch_posterior_at_the_stored_temperature(dim, tmp_path):
    posterior, _, path = make_file(tmp_path, dim)
    found = Predictive.load(path)
    x = np.random.default_rng(2).normal(size=(50, dim)).astype(np.float32)
    expected = posterior.class_probabilities(torch.from_numpy(x), temperature=found.temperature)
    got = found.probabilities(x)
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-300)
    np.testing.assert_allclose(got.sum(1), 1)
    assert (got[:, 2] == 0).all()
    assert found.classes == NAMES


def test_scores_are_those_of_scipys_t_distributions(tmp_path):
    posterior, kept, path = make_file(tmp_path)
    found = Predictive.load(path)
    x = np.random.default_rng(2).normal(size=(20, 3))
    columns = []
    for k, size in enumerate(SIZES):
        if size:
            kappa = size + 0.01  # of the empirical prior, which gives n + 3 degrees of freedom
            shape = posterior.covariance[k].numpy() * (size + 1) * (kappa + 1) / (kappa * (size + 3))
            density = multivariate_t(posterior.mean[k].numpy(), shape, size + 3)
            columns.append(density.logpdf(x) / found.temperature + np.log(size / sum(SIZES)))
    expected = -logsumexp(columns, axis=0)
    np.testing.assert_allclose(found.novelty_scores(x), expected, rtol=1e-9)
    seen = kept.labels != 2
    reference = found.novelty_scores(kept.vectors[seen])
    np.testing.assert_allclose(found.held_out, np.sort(reference), rtol=1e-9)
    percent = [percentileofscore(found.held_out, value, "mean") for value in expected]
    np.testing.assert_allclose(found.novelty(x), percent)


def test_a_vector_far_from_every_class_is_more_novel_than_all_and_has_finite_probabilities(tmp_path):
    _, _, path = make_file(tmp_path)
    found = Predictive.load(path)
    far = np.full((2, 3), 1e8)
    assert (found.novelty(far) == 100).all()
    np.testing.assert_allclose(found.probabilities(far).sum(1), 1)
    assert found.novelty(np.empty((0, 3))).shape == (0,)
    assert found.probabilities(np.empty((0, 3))).shape == (0, 4)


def test_the_temperature_has_the_least_log_loss_on_the_held_out_items_of_classes_seen(tmp_path):
    posterior, kept, path = make_file(tmp_path, dim=40)
    seen = kept.labels != 2

    def loss(temperature):
        found = posterior.class_probabilities(torch.from_numpy(kept.vectors[seen]), temperature=temperature)
        with np.errstate(divide="ignore"):
            return -np.log(found.numpy()[np.arange(seen.sum()), kept.labels[seen]]).mean()

    best = Predictive.load(path).temperature
    assert loss(best) <= min(loss(t) for t in np.geomspace(1e-2, 1e3, 400)) + 1e-6


def test_without_held_out_items_the_temperature_is_one_and_there_is_no_percentage(tmp_path):
    posterior, _, path = make_file(tmp_path, held_out=(0, 0, 0, 0))
    found = Predictive.load(path)
    x = np.zeros((2, 3), dtype=np.float32)
    np.testing.assert_allclose(
        found.probabilities(x), posterior.class_probabilities(torch.from_numpy(x)), rtol=1e-9
    )
    assert np.isnan(found.novelty(x)).all()


def test_blocks_change_nothing(tmp_path, monkeypatch):
    _, _, path = make_file(tmp_path)
    found = Predictive.load(path)
    x = np.random.default_rng(0).normal(size=(23, 3))
    whole = found.probabilities(x)
    monkeypatch.setattr(predictive, "BLOCK_CELLS", 60)
    np.testing.assert_array_equal(found.probabilities(x), whole)


def test_the_encoder_is_known_by_the_digest_of_its_file(tmp_path):
    _, _, path = make_file(tmp_path)
    assert Predictive.load(path).encoder == "9a129038d9a00aed0cf6a7ea059ca50a813449061ab87848cf1a13eafdf33b2c"


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
