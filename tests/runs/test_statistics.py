"""Statistics of classes in NumPy, against slow loops and scipy."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import psi
from scipy.stats import multivariate_t

from bayestriplet.runs.background import FREEDOM, Background
from bayestriplet.runs.lessons import Lessons, contrast_of, new_scale
from bayestriplet.runs.statistics import Prior, Statistics
from bayestriplet.runs.students import digamma
from bayestriplet.runs.teaching import GROWTH, NewClasses


def made(number, seed, classes=3, dim=4):
    rng = np.random.default_rng(seed)
    return rng.normal(3.0, 2.0, (number, dim)), rng.integers(0, classes, number)


def same(one, other, rtol=1e-9):
    for name in ("count", "mean", "scatter"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=rtol, atol=1e-9)


@pytest.mark.parametrize(("first", "second"), [(0, 7), (5, 1), (40, 60)])
def test_merged_statistics_are_those_of_all_items_and_a_downdate_gives_back_what_was_there(first, second):
    x, labels = made(first + second, 0)
    parts = [Statistics.of(x[rows], labels[rows], 3) for rows in (slice(0, first), slice(first, None))]
    whole = parts[0].plus(parts[1])
    same(whole, Statistics.of(x, labels, 3))
    same(whole.minus(parts[1]), parts[0])
    slow = sum(np.outer(one - whole.mean[1], one - whole.mean[1]) for one in x[labels == 1])
    np.testing.assert_allclose(whole.scatter[1], slow, atol=1e-9)


def test_a_thousand_examples_one_by_one_and_all_taken_out_leave_nothing_but_rounding():
    x, labels = made(1000, 1, classes=1)
    base = Statistics.of(x[:20], labels[:20], 1)
    grown = base
    for one in x[20:]:
        grown = grown.plus(Statistics.of(one[None], np.zeros(1, int), 1))
    same(grown, Statistics.of(x, labels, 1))
    for one in x[20:]:
        grown = grown.minus(Statistics.of(one[None], np.zeros(1, int), 1))
    same(grown, base, 1e-7)


def test_items_that_were_never_there_cannot_be_taken_out():
    x, labels = made(30, 0)
    there = Statistics.of(x, labels, 3)
    with pytest.raises(ValueError, match="not among those"):
        there.minus(Statistics.of(np.concatenate([x, x]), np.concatenate([labels, labels]), 3))
    with pytest.raises(ValueError, match="not among those"):
        there.minus(Statistics.of(x + 100 * np.arange(30)[:, None], labels, 3))


def test_predictive_distributions_are_those_of_scipy_for_every_number_of_items():
    dim, prior = 4, Prior(np.arange(4.0), np.diag([1.0, 2.0, 3.0, 4.0]) + 0.3, 5.0)
    for count, memory in ((0, 9.0), (1, 9.0), (6, 9.0), (50, 9.0)):
        x, _ = made(count, 2, classes=1)
        statistics = Statistics.of(x, np.zeros(count, int), 1)
        found = statistics.students(prior, memory)
        keep = min(1.0, memory / max(count, 1))
        n, mean = count * keep, x.mean(0) if count else np.zeros(dim)
        kappa, nu = 0.01 + n, dim + 1 + 5.0 + n
        scale = 5.0 * prior.covariance + keep * statistics.scatter[0]
        scale = scale + 0.01 * n / kappa * np.outer(mean - prior.mean, mean - prior.mean)
        freedom = nu - dim + 1
        oracle = multivariate_t(
            (0.01 * prior.mean + n * mean) / kappa, scale * (kappa + 1) / (kappa * freedom), df=freedom
        )
        asked = made(20, 3)[0]
        np.testing.assert_allclose(
            found.log_density(asked, np.arange(1))[:, 0], oracle.logpdf(asked), rtol=1e-9
        )
        assert found.entropy[0] == pytest.approx(oracle.entropy(), rel=1e-9)


def test_digamma_is_that_of_scipy():
    values = [0.05, 0.5, 1.0, 3.3, 9.99, 64.0, 1e5]
    np.testing.assert_allclose([digamma(x) for x in values], psi(values), rtol=1e-12)


def test_a_new_class_enters_by_a_share_of_its_entropy_and_the_temperature_that_examples_warrant():
    new = NewClasses(4.0, 0.0, 0.6, 0.5)
    count, entropy, old = np.array([1.0, 10.0, 1e9]), np.array([-3.0, 2.0, 7.0]), -5.0
    heat, level = new_scale(new, count, entropy, old)
    density = -entropy  # an item as ordinary as the class expects
    for i, n in enumerate(count):
        # Its score is what such an item of a trained class has, but for the part that is not made up for.
        assert density[i] / heat[i] + level[i] == pytest.approx(-0.6 * old - 0.4 * entropy[i])
        assert contrast_of(replace(new, contrast=3.0), count)[i] == pytest.approx(1 + 2 * n / (n + GROWTH))
    assert heat == pytest.approx([1 - 0.5 / 11, 0.75, 0.5])


def test_the_odds_of_new_classes_are_raised_to_their_contrast_and_the_class_prior_is_not():
    rng = np.random.default_rng(0)
    density, prior = np.exp(rng.normal(size=(30, 5))), np.array([0.1, 0.3, 0.2, 0.15, 0.25])
    contrast, bias = np.array([np.nan, 1.7, 1.7]), np.array([0.0, 0.4, 0.4])  # class 1 was trained, too
    columns, none = np.array([1, 3, 4]), np.zeros(0)
    found = Lessons(columns, None, none, none, none, contrast, bias).weigh(
        np.log(density * prior), np.log(prior)
    )
    old, new = prior[:3].sum(), prior[3:].sum()
    for i in range(30):
        of_old = sum(density[i, k] * prior[k] for k in range(3)) / old
        of_new = sum(density[i, k] * prior[k] for k in (3, 4)) / new
        odds = new / old * (of_new / of_old) ** 1.7 * np.exp(0.4)
        chance = np.exp(found[i]) / np.exp(found[i]).sum()
        assert chance[3:].sum() / chance[:3].sum() == pytest.approx(odds)
        np.testing.assert_allclose(chance[:3] / chance[0], density[i, :3] * prior[:3] / (density[i, 0] * 0.1))
        assert chance[3] / chance[4] == pytest.approx(density[i, 3] * 0.15 / (density[i, 4] * 0.25))


def test_the_background_is_a_t_over_all_items_and_its_tail_counts_beyond_the_held_out_items():
    x, labels = made(500, 5)
    background = Background.of(Statistics.of(x, labels, 3), 0.0, 1.0)
    covariance = np.cov(x.T, bias=True)
    oracle = multivariate_t(x.mean(0), covariance * (FREEDOM - 2) / FREEDOM, df=FREEDOM)
    np.testing.assert_allclose(background.surprise(x, 2.0), -oracle.logpdf(x) / 2, rtol=1e-6)
    background = background.with_tail(background.surprise(x, 2.0))
    far = np.array([[1e6] * 4, [1e9] * 4])
    surprise = background.surprise(far, 2.0)
    scores = background.score(surprise, surprise)  # classes with the background's own tail
    assert scores[1] > scores[0] > background.score(np.zeros(1), background.surprise(x[:1], 2.0))[0]
