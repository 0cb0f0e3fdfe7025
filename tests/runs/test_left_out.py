"""How new classes are read, by their examples left out one at a time."""

import numpy as np
import pytest
from scipy.optimize import minimize

from bayestriplet.runs.adapting import BIAS, CONTRAST, SHARPNESS, Adapted
from bayestriplet.runs.left_out import left_out
from bayestriplet.runs.statistics import Prior, Statistics


@pytest.mark.parametrize(("number", "memory"), [(2, 30.0), (7, 30.0), (31, 30.0), (40, 9.0)])
def test_the_density_of_an_example_left_out_is_that_of_the_class_without_it(number, memory):
    rng, dim = np.random.default_rng(number), 5
    root = rng.normal(size=(dim, dim))
    prior = Prior(rng.normal(size=dim), root @ root.T + np.eye(dim), 3.0, 0.4)
    x = 2 * rng.normal(size=(number, dim)) + 1
    density, entropy = left_out(Statistics.of(x, np.zeros(number, int), 1), 0, x, prior, memory)
    for i in range(number):
        rest = Statistics.of(np.delete(x, i, 0), np.zeros(number - 1, int), 1).students(prior, memory)
        assert density[i] == pytest.approx(rest.log_density(x[i : i + 1], np.arange(1))[0, 0])
        assert entropy[i] == pytest.approx(rest.entropy[0])


def test_sharpness_and_odds_have_the_least_loss_beside_what_is_expected():
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 3
    scores = rng.normal(size=(60, 3)) + 2 * np.eye(3)[labels]
    odds = rng.normal(size=200) - 1, rng.normal(size=60) + 2
    prior, contrast, bias = np.log(3 / 7), 1.3, 0.2
    found = Adapted.fit(scores, labels, odds, prior, contrast, bias)

    def of_odds(at):
        total = sum((at - [1, 0]) ** 2 / np.square([CONTRAST, BIAS])) / 2
        for values, sign in zip(odds, (1, -1), strict=True):
            chance = 1 / (1 + np.exp(sign * (contrast * at[0] * values + bias + at[1] + prior)))
            total -= 60 * np.log(chance).mean()
        return total

    def of_ratios(at):
        shares = np.exp(at[0] * scores)
        right = shares[np.arange(60), labels] / shares.sum(1)
        return (np.log(at[0]) / SHARPNESS) ** 2 / 2 - np.log(right).sum()

    best = minimize(of_odds, [1.0, 0.0])
    assert (found.contrast, found.bias) == pytest.approx(tuple(best.x), abs=1e-4)
    best = minimize(of_ratios, [1.0], bounds=[(0.1, 10)])
    assert found.sharpness == pytest.approx(best.x[0], rel=0.03)  # the ladder's steps are 5% wide


def test_examples_that_cannot_be_told_apart_from_old_items_do_not_break_the_fit():
    zeros, few = np.zeros((2, 1)), np.zeros(2, np.int64)
    found = Adapted.fit(zeros, few, (np.full(50, 1e4), np.full(2, -1e4)), -5.0, 1.0, 0.0)
    assert np.isfinite([found.sharpness, found.contrast, found.bias]).all()
    assert found.contrast >= 0
    assert found.sharpness == pytest.approx(1.0)  # one class, of which nothing can be said
