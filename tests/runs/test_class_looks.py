"""How the pictures of each class look, against scipy's densities."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_t
from sklearn.datasets import load_digits

from bayestriplet.runs.appearance import Appearance
from bayestriplet.runs.class_looks import FREEDOM, KAPPA, MOST_FULL, RIDGE, WEIGHT, ClassLooks
from bayestriplet.runs.statistics import Statistics

DIGITS = load_digits()
SCANS = np.repeat(np.repeat((DIGITS.images * 15.9).astype(np.uint8), 2, 1), 2, 2)[..., None]  # 16 x 16


def made(classes, number, dim=3):
    rng = np.random.default_rng(0)
    labels = 2 * (np.arange(classes * number) % classes) + 1  # classes without pictures are between them
    return rng.normal(size=(len(labels), dim)) + labels[:, None] / 4, labels


def test_few_classes_have_a_covariance_each_held_to_that_of_all():
    x, labels = made(3, 40)
    found = ClassLooks.of(x, labels)
    assert found.columns.tolist() == [1, 3, 5]
    parts = [x[labels == k] for k in found.columns]
    scatters = [(len(part) - 1) * np.cov(part.T) for part in parts]
    within = sum(scatters) / (len(x) - 3) + RIDGE * np.eye(3)
    asked = made(3, 2)[0]
    for k, (part, scatter) in enumerate(zip(parts, scatters, strict=True)):
        n, shift = len(part), part.mean(0) - x.mean(0)
        kappa, freedom = KAPPA + n, WEIGHT + 2 + n
        scale = WEIGHT * within + scatter + KAPPA * n / kappa * np.outer(shift, shift)
        mean = x.mean(0) + n / kappa * shift
        oracle = multivariate_t(mean, scale * (kappa + 1) / (kappa * freedom), df=freedom)
        np.testing.assert_allclose(found.log_density(asked)[:, k], oracle.logpdf(asked), rtol=1e-5)


def test_many_classes_have_the_covariance_of_all():
    classes = MOST_FULL + 1
    x, labels = made(classes, 4)
    x[:, 0] = np.clip(x[:, 0], -5, 5)
    found = ClassLooks.of(x, labels)
    x, parts = np.clip(x, -6, 6), [np.clip(x[labels == k], -6, 6) for k in found.columns]
    within = sum((len(part) - 1) * np.cov(part.T) for part in parts) / (len(x) - classes) + RIDGE * np.eye(3)
    asked = made(classes, 1)[0][:5]
    for k in (0, 20, classes - 1):
        mean = x.mean(0) + 4 / (KAPPA + 4) * (parts[k].mean(0) - x.mean(0))
        scale = within * (FREEDOM - 2) / FREEDOM * (1 + 1 / (KAPPA + 4))
        oracle = multivariate_t(mean, scale, df=FREEDOM)
        np.testing.assert_allclose(
            found.log_density(asked)[:, k], oracle.logpdf(np.clip(asked, -6, 6)), rtol=1e-5
        )


def test_a_picture_that_is_taken_for_another_digit_is_unlike_it():
    appearance = Appearance.of(SCANS[:1000])
    looks = appearance.describe(SCANS)
    appearance = replace(appearance, of_classes=ClassLooks.of(looks[:1000], DIGITS.target[:1000]))
    rest = slice(1000, None)
    own = np.eye(11)[DIGITS.target[rest]]  # the last class has no pictures
    right = appearance.misfit(looks[rest], own)
    wrong = appearance.misfit(looks[rest], np.eye(11)[(DIGITS.target[rest] + 1) % 10])
    assert (right < wrong).mean() > 0.95
    mixed = appearance.misfit(looks[rest], 0.25 * own + 0.75 * np.eye(11)[10])
    unknown = appearance.misfit(looks[rest], np.eye(11)[np.full(len(right), 10)])
    np.testing.assert_allclose(mixed, 0.25 * right + 0.75 * unknown)
    np.testing.assert_allclose(unknown, appearance.surprise(looks[rest]))


def test_a_taught_class_looks_as_its_examples_do_and_a_trained_one_may_look_either_way():
    appearance = Appearance.of(SCANS[:1000])
    looks = appearance.describe(SCANS[:1000])
    appearance = replace(appearance, of_classes=ClassLooks.of(looks, DIGITS.target[:1000]))
    white = appearance.describe(np.full((2, 16, 16, 1), 255, np.uint8))
    taught = Statistics.of(np.repeat(white, 2, 0), np.array([0, 1, 0, 1]), 2)
    widened = appearance.widened(taught, np.array([3, 10]))
    shares = np.eye(11)
    for k in (3, 10):
        of_k = np.repeat(shares[k : k + 1], 2, 0)
        assert widened.misfit(white, of_k)[0] < appearance.misfit(white, of_k)[0]
        assert (widened.misfit(looks[:2], of_k) <= appearance.misfit(looks[:2], of_k)).all() == (k == 3)
    np.testing.assert_allclose(
        widened.misfit(white, shares[[4, 4]]), appearance.misfit(white, shares[[4, 4]])
    )


def test_what_a_file_keeps_gives_the_same_and_a_file_without_has_no_misfit():
    appearance = Appearance.of(SCANS[:300])
    looks = appearance.describe(SCANS[:300])
    assert Appearance.read(appearance.tensors()).misfit(looks, np.eye(10)[DIGITS.target[:300]]) is None
    appearance = replace(appearance, of_classes=ClassLooks.of(looks, DIGITS.target[:300]))
    back, shares = Appearance.read(appearance.tensors()), np.eye(10)[DIGITS.target[:300]]
    np.testing.assert_array_equal(back.misfit(looks, shares), appearance.misfit(looks, shares))
    with pytest.raises(ValueError, match="looks of classes do not belong together"):
        Appearance.read(appearance.tensors() | {"class_looks_scatter": np.ones((10, 2, 2))})
