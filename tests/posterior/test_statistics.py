import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bayestriplet import ClassStatistics, merge


def items(sizes, dim, offset=0.0, seed=0):
    """Random items with the given number a class, shuffled: embeddings and labels."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    values = rng.normal(size=(len(labels), dim)) @ rng.normal(size=(dim, dim)) + offset
    return torch.from_numpy(values), torch.from_numpy(labels)


def slow_statistics(values, labels, num_classes):
    """Count, mean and scatter by NumPy, one class at a time."""
    values, labels = values.numpy(), labels.numpy()
    dim = values.shape[1]
    count, mean, scatter = (
        np.zeros(num_classes),
        np.zeros((num_classes, dim)),
        np.zeros((num_classes, dim, dim)),
    )
    for k in range(num_classes):
        own = values[labels == k]
        if len(own):
            count[k], mean[k] = len(own), own.mean(0)
            scatter[k] = (own - mean[k]).T @ (own - mean[k])
    return count, mean, scatter


def assert_same(statistics, expected, rtol=1e-9, atol=1e-9):
    for got, want in zip((statistics.count, statistics.mean, statistics.scatter), expected, strict=True):
        np.testing.assert_allclose(got.numpy(), want, rtol=rtol, atol=atol)


@pytest.mark.parametrize("dim", [1, 2, 5, 128])
@pytest.mark.parametrize("sizes", [(4, 4, 4), (1, 7, 0, 3), (0, 1, 0)])
def test_statistics_of_items_are_those_of_a_loop_over_classes(dim, sizes):
    values, labels = items(sizes, dim)
    got = ClassStatistics.from_items(values, labels, len(sizes))
    assert_same(got, slow_statistics(values, labels, len(sizes)))


def test_data_far_from_the_origin_keep_their_scatter():
    values, labels = items((6, 5, 1), 5, offset=1e4)
    got = ClassStatistics.from_items(values, labels, 3)
    assert_same(
        got, slow_statistics(values - 1e4, labels, 3)[:1] + slow_statistics(values, labels, 3)[1:], 1e-9, 1e-7
    )


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 6), min_size=2, max_size=5).filter(any),
    cut=st.floats(0, 1),
    dim=st.integers(1, 6),
    seed=st.integers(0, 99),
)
def test_merging_two_parts_equals_computing_the_whole(sizes, cut, dim, seed):
    values, labels = items(sizes, dim, offset=3.0, seed=seed)
    at = round(cut * len(values))
    parts = [
        ClassStatistics.from_items(v, y, len(sizes))
        if len(v)
        else ClassStatistics.zeros(len(sizes), dim, values)
        for v, y in ((values[:at], labels[:at]), (values[at:], labels[at:]))
    ]
    whole = slow_statistics(values, labels, len(sizes))
    assert_same(merge(*parts), whole)
    assert_same(merge(*reversed(parts)), whole)


def test_merge_leaves_its_arguments_alone():
    values, labels = items((3, 4), 2)
    a, b = (ClassStatistics.from_items(values, labels, 2) for _ in range(2))
    merge(a, b)
    assert_same(a, slow_statistics(values, labels, 2))
    assert_same(b, slow_statistics(values, labels, 2))


def test_a_class_seen_by_neither_side_keeps_count_and_mean_zero():
    values, labels = items((3, 0), 2)
    a = ClassStatistics.from_items(values, labels, 2)
    merged = merge(a, a)
    assert merged.count[1] == 0
    assert not merged.mean[1].any()
    assert not merged.scatter[1].any()


def test_forgetting_follows_a_slow_reference_batch_by_batch():
    memory, num_classes, dim = 7.0, 3, 4
    fast = ClassStatistics.zeros(num_classes, dim, torch.zeros(0, dtype=torch.float64))
    slow = [(0.0, np.zeros(dim), np.zeros((dim, dim))) for _ in range(num_classes)]
    for step, sizes in enumerate([(3, 3, 0), (5, 1, 0), (0, 9, 2), (2, 2, 2), (20, 0, 1)]):
        values, labels = items(sizes, dim, offset=step, seed=step)
        fast.add_items_(values, labels, memory)
        for k in range(num_classes):
            own = values[labels == k].numpy()
            if len(own):
                n, m, scatter = slow[k]
                extra = own.mean(0)
                scatter = scatter + (own - extra).T @ (own - extra)
                scatter = scatter + n * len(own) / (n + len(own)) * np.outer(m - extra, m - extra)
                m, n = (n * m + len(own) * extra) / (n + len(own)), n + len(own)
                keep = min(1.0, memory / n)
                slow[k] = (keep * n, m, keep * scatter)
    assert_same(fast, [np.stack([row[i] for row in slow]) for i in range(3)])
    assert fast.count.max() == memory
    assert math.isclose(fast.count[2], 5.0)


def test_scatter_is_symmetric():
    values, labels = items((9, 2, 5), 6)
    scatter = ClassStatistics.from_items(values, labels, 3).scatter
    torch.testing.assert_close(scatter, scatter.mT, rtol=1e-12, atol=1e-12)


def test_forgetting_caps_the_count_and_scales_the_scatter_alike():
    values, labels = torch.randn(12, 3, dtype=torch.float64), torch.tensor([0] * 9 + [1] * 2 + [2])
    whole = ClassStatistics.from_items(values, labels, 4)
    kept = whole.forget(3.0)
    assert kept.count.tolist() == [3, 2, 1, 0]
    torch.testing.assert_close(kept.scatter[0] / 3, whole.scatter[0] / 9)
    torch.testing.assert_close(kept.scatter[1:], whole.scatter[1:])
    assert torch.equal(kept.mean, whole.mean)
