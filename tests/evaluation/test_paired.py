import math

import numpy as np
import pytest
from scipy import stats

from bayestriplet.evaluation.paired import Row, difference, half_width, rank


def row(method, *values):
    return Row(method, {f"recall@{k}": values for k in (1, 4, 8, 16)}, 12.0, {"lr": 0.001})


def test_the_interval_is_students():
    values = np.array([90.0, 92.0, 91.0, 95.0])
    low, high = stats.t.interval(0.95, 3, values.mean(), stats.sem(values))
    assert half_width(values) == pytest.approx((high - low) / 2)
    assert math.isnan(half_width(values[:1]))


def test_the_difference_to_the_best_is_paired_by_seed():
    best, other = row("but", 95.0, 97.0, 99.0), row("ba", 94.0, 96.1, 97.9)
    gap = difference(other, best)
    low, high = stats.ttest_rel(other.values["recall@1"], best.values["recall@1"]).confidence_interval(0.95)
    assert gap.value == pytest.approx(-1.0)
    assert gap.half_width == pytest.approx((high - low) / 2)
    assert gap.is_clear
    assert not difference(row("ba", 90.0, 99.0, 99.0), best).is_clear


def test_ranks_follow_the_mean_over_seeds():
    rows = [row("a", 1.0, 9.0), row("b", 6.0, 6.0), row("c", 2.0, 2.0)]
    assert [r.method for r in rank(rows)] == ["b", "a", "c"]
