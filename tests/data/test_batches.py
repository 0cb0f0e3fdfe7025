from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayestriplet.data.batches import (
    KINDS,
    BalancedBatches,
    OnePerClassBatches,
    RandomBatches,
    SequentialBatches,
)
from bayestriplet.errors import DataError


def labels_of(sizes):
    return np.random.default_rng(0).permutation(np.repeat(np.arange(len(sizes)), sizes))


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 30), min_size=2, max_size=12),
    batch_size=st.integers(2, 40),
    seed=st.integers(0, 5),
)
def test_every_item_comes_up_in_every_epoch(sizes, batch_size, seed):
    labels = labels_of(sizes)
    batches = BalancedBatches(labels, batch_size, seed=seed)
    batches.steps = 2 * batches.batches_per_epoch
    stream = list(batches)
    for epoch in (stream[: len(stream) // 2], stream[len(stream) // 2 :]):
        assert {row for batch in epoch for row in batch} == set(range(len(labels)))


@settings(max_examples=40, deadline=None)
@given(sizes=st.lists(st.integers(1, 30), min_size=2, max_size=12), batch_size=st.integers(2, 40))
def test_every_batch_has_the_same_number_of_items_of_each_of_its_classes(sizes, batch_size):
    labels = labels_of(sizes)
    batches = BalancedBatches(labels, batch_size)
    for batch in batches:
        counts = Counter(labels[batch])
        assert set(counts.values()) == {batches.items}
        assert len(counts) == batches.classes


def test_the_papers_batches_hold_five_items_of_each_class():
    batches = BalancedBatches(labels_of([60] * 10), 50)
    assert (batches.items, batches.classes, batches.batch_size, batches.batches_per_epoch) == (5, 10, 50, 12)
    assert BalancedBatches(labels_of([60] * 9), 50).batch_size == 54  # rounded up


def test_with_many_classes_a_batch_holds_some_of_them():
    batches = BalancedBatches(labels_of([10] * 100), 32)
    assert (batches.items, batches.classes) == (4, 8)
    assert BalancedBatches(labels_of([10] * 100), 50).batch_size == 52  # rounded up
    small = BalancedBatches(labels_of([10] * 10), 10)
    assert (small.items, small.classes) == (2, 5)


def test_the_order_depends_on_the_seed_and_can_begin_anywhere():
    labels = labels_of([7, 20, 9])
    whole = list(BalancedBatches(labels, 9, 25, seed=3))
    assert len(whole) == 25
    assert list(BalancedBatches(labels, 9, 25, seed=3, start=11)) == whole[11:]
    assert list(BalancedBatches(labels, 9, 25, seed=4)) != whole


def test_epochs_have_different_orders():
    batches = BalancedBatches(labels_of([20, 20]), 10)
    batches.steps = 2 * batches.batches_per_epoch
    stream = list(batches)
    assert stream[: len(stream) // 2] != stream[len(stream) // 2 :]


def test_ranks_share_every_batch_between_them():
    labels = labels_of([20, 30, 10])
    whole = list(BalancedBatches(labels, 15))
    ranks = [list(BalancedBatches(labels, 15, rank=rank, world=2)) for rank in range(2)]
    for together, *parts in zip(whole, *ranks, strict=True):
        assert sorted(together) == sorted(parts[0] + parts[1])
        assert abs(len(parts[0]) - len(parts[1])) <= 1


def test_one_class_cannot_be_trained_on():
    with pytest.raises(DataError, match="at least 2 classes; got 1"):
        BalancedBatches(np.zeros(9, int), 4)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_depends_on_the_seed_and_can_begin_anywhere(kind):
    labels = labels_of([7, 20, 9, 15])
    whole = list(KINDS[kind](labels, 8, 25, seed=3))
    assert len(whole) == 25
    assert list(KINDS[kind](labels, 8, 25, seed=3, start=11)) == whole[11:]
    assert list(KINDS[kind](labels, 8, 25, seed=4)) != whole
    ranks = [list(KINDS[kind](labels, 8, 25, seed=3, rank=rank, world=2)) for rank in range(2)]
    assert [sorted(a + b) for a, b in zip(*ranks, strict=True)] == [sorted(batch) for batch in whole]


def test_one_item_a_class_leaves_no_pair_in_a_batch():
    labels = labels_of([4, 9, 6])
    batches = OnePerClassBatches(labels, 50)
    assert all(sorted(labels[batch]) == [0, 1, 2] for batch in batches)
    assert len(batches) == 9


def test_random_batches_visit_every_item_once_but_for_the_last_batch():
    labels = labels_of([30, 2, 11])
    stream = [row for batch in RandomBatches(labels, 8) for row in batch]
    assert sorted(set(stream)) == list(range(43))
    assert len(stream) == 48
    assert len(set(stream[:40])) == 40


def test_classes_that_arrive_in_sequence_come_two_at_a_time_and_never_return():
    labels = labels_of([20, 20, 20, 20, 20])
    stream = [sorted(set(labels[batch])) for batch in SequentialBatches(labels, 10, 40)]
    seen = [stream[0]]
    for pair in stream:
        if pair != seen[-1]:
            seen.append(pair)
    assert seen == [[0, 1, 2], [3, 4]]
    assert stream.count([3, 4]) == 20


@pytest.mark.parametrize("items", [2, 3, 5])
def test_every_rank_gets_at_least_two_items_of_a_class(items):
    labels = labels_of([20] * 6)
    for rank in range(2):
        classes = set()
        for batch in BalancedBatches(labels, 6 * items, rank=rank, world=2):
            counts = Counter(labels[batch])
            assert min(counts.values()) >= 2
            classes |= set(counts)
        assert classes == set(range(6))
