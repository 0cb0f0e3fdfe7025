import math

import numpy as np
import pytest
from scipy.special import log_softmax as scipy_log_softmax
from scipy.stats import binomtest
from sklearn.metrics import log_loss, roc_auc_score

from bayestriplet.evaluation.calibration import (
    auroc,
    fit_temperature,
    log_losses,
    log_softmax,
    reliability,
    selective_accuracy,
    wilson_interval,
)


def made_scores(number, classes, heat, seed=0):
    """Scores that are ``heat`` times too sharp, and labels drawn by the right ones."""
    rng = np.random.default_rng(seed)
    right = 2 * rng.normal(size=(number, classes))
    chance = np.exp(right) / np.exp(right).sum(1, keepdims=True)
    return heat * right, (chance.cumsum(1) > rng.random((number, 1))).argmax(1)


@pytest.mark.parametrize("heat", [0.05, 1.0, 40.0])
def test_the_temperature_that_made_the_labels_is_found_again(heat):
    scores, labels = made_scores(20_000, 4, heat)
    temperature, loss = fit_temperature(scores, labels, np.full(4, math.log(1 / 4)))
    assert temperature == pytest.approx(heat, rel=0.05)
    probabilities = np.exp(scipy_log_softmax(scores / temperature, axis=1))
    assert loss == pytest.approx(log_loss(labels, probabilities), abs=1e-3)


def test_no_temperature_of_a_fine_grid_has_a_lower_loss():
    scores, labels = made_scores(60, 3, 7.0, seed=1)
    log_prior = np.log([0.7, 0.2, 0.1])
    temperature, loss = fit_temperature(scores, labels, log_prior)

    def smoothed(t):
        found = scipy_log_softmax(scores / t + log_prior, axis=1)
        target = np.full((60, 3), 1 / 62) * np.exp(log_prior) + np.eye(3)[labels] * 61 / 62
        return -(target * found).sum(1).mean()

    assert loss == pytest.approx(smoothed(temperature))
    assert loss <= min(smoothed(t) for t in np.geomspace(1e-2, 1e4, 2000)) + 1e-7


def test_the_temperature_stays_above_zero_where_all_items_are_right_and_finite_where_all_are_wrong():
    scores = np.array([[10.0, 0.0], [0.0, 10.0], [9.0, 1.0]])
    log_prior = np.log([0.5, 0.5])
    right, _ = fit_temperature(scores, np.array([0, 1, 0]), log_prior)
    assert 1 < right < 20
    wrong, _ = fit_temperature(scores, np.array([1, 0, 1]), log_prior)
    assert right < wrong <= 1e6


def test_a_class_of_no_prior_keeps_probability_zero_and_the_loss_finite():
    scores = np.array([[3.0, 1.0, -math.inf], [1.0, 2.0, -math.inf]])
    log_prior = np.array([math.log(0.5), math.log(0.5), -math.inf])
    temperature, loss = fit_temperature(scores, np.array([0, 1]), log_prior)
    assert math.isfinite(loss)
    assert (np.exp(log_softmax(scores / temperature + log_prior))[:, 2] == 0).all()


def test_log_softmax_and_log_losses_are_scipys_and_sklearns():
    scores, labels = made_scores(50, 5, 100.0)
    np.testing.assert_allclose(log_softmax(scores), scipy_log_softmax(scores, axis=1), atol=1e-12)
    scores, labels = made_scores(50, 5, 1.0)
    found = log_softmax(scores)
    assert log_losses(found, labels).mean() == pytest.approx(log_loss(labels, np.exp(found)))


def slow_error(probabilities, labels, bins):
    total = 0.0
    for b in range(bins):
        inside = [
            i
            for i, row in enumerate(probabilities)
            if b / bins <= max(row) and (max(row) < (b + 1) / bins or b == bins - 1)
        ]
        if inside:
            right = sum(probabilities[i].argmax() == labels[i] for i in inside)
            total += abs(right - sum(probabilities[i].max() for i in inside)) / len(labels)
    return total


@pytest.mark.parametrize(("number", "classes", "bins"), [(1, 2, 15), (400, 10, 15), (300, 3, 4)])
def test_the_calibration_error_is_that_of_a_slow_loop(number, classes, bins):
    scores, labels = made_scores(number, classes, 3.0)
    probabilities = np.exp(log_softmax(scores))
    found = reliability(probabilities, labels, bins)
    assert found.number.sum() == number
    assert found.error == pytest.approx(slow_error(probabilities, labels, bins))


def test_certain_and_right_is_no_error_and_certain_and_wrong_is_all():
    certain = np.eye(3)[[0, 1, 2, 0]]
    assert reliability(certain, np.array([0, 1, 2, 0])).error == 0
    assert reliability(certain, np.array([1, 2, 0, 1])).error == 1


def test_auroc_is_sklearns_with_ties():
    rng = np.random.default_rng(0)
    novel, known = rng.integers(2, 9, 50).astype(float), rng.integers(0, 7, 80).astype(float)
    expected = roc_auc_score(np.repeat([1, 0], [50, 80]), np.concatenate([novel, known]))
    assert auroc(novel, known) == pytest.approx(expected)
    assert auroc(np.array([1.0]), np.array([0.0])) == 1


def test_the_interval_of_a_share_is_wilsons_as_scipy_has_it():
    right, number = np.array([0.0, 3, 17, 40]), np.array([4, 9, 20, 40])
    low, high = wilson_interval(right, number)
    for place in range(4):
        expected = binomtest(int(right[place]), int(number[place])).proportion_ci(method="wilson")
        assert (low[place], high[place]) == pytest.approx((expected.low, expected.high), abs=1e-6)


def test_accuracy_among_the_most_confident_is_that_of_a_slow_loop():
    confidence = np.array([0.5, 0.9, 0.7, 0.9])
    right = np.array([False, True, True, False])
    share, accuracy = selective_accuracy(confidence, right)
    np.testing.assert_allclose(share, [0.25, 0.5, 0.75, 1])
    np.testing.assert_allclose(accuracy, [1, 1 / 2, 2 / 3, 2 / 4])
