import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayestriplet.data.splits import (
    SHARES,
    choose_per_class,
    complete_splits,
    split_by_class,
    split_by_group,
    split_stratified,
)
from bayestriplet.errors import DataError

LABELS = st.lists(st.integers(0, 4), max_size=120).map(lambda values: np.array(values, dtype=np.int64))


@given(LABELS, st.integers(0, 1000))
def test_a_class_of_three_or_more_is_in_every_split_and_a_smaller_one_in_train(labels, seed):
    splits = split_stratified(labels, SHARES, seed)
    for label in np.unique(labels):
        found = set(splits[labels == label])
        assert found == (set(SHARES) if (labels == label).sum() >= 3 else {"train"})


@given(st.lists(st.integers(20, 300), min_size=1, max_size=8), st.integers(0, 1000))
def test_every_class_and_the_total_follow_the_shares(sizes, seed):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    splits = split_stratified(labels, SHARES, seed)
    for name, share in SHARES.items():
        assert abs((splits == name).sum() - share * len(labels)) < 1 + 1e-6
        for label, size in enumerate(sizes):
            assert abs((splits[labels == label] == name).sum() - share * size) <= 2


def test_the_seed_decides():
    labels = np.repeat(np.arange(5), 40)
    first, again, other = (split_stratified(labels, SHARES, seed) for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()


def test_a_class_is_spread_over_its_whole_length():
    where = np.flatnonzero(split_stratified(np.zeros(1000, dtype=np.int64), SHARES, 0) == "test")
    assert abs(where.mean() - 500) < 3 * 289 / np.sqrt(150)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 15)), min_size=3, max_size=150),
    st.integers(0, 1000),
)
def test_no_group_is_in_two_splits_and_no_split_is_empty(items, seed):
    labels = np.array([label for label, _ in items], dtype=np.int64)
    groups = np.array([f"patient {group}" for _, group in items])
    if len(set(groups)) < 3:
        with pytest.raises(DataError, match="at least 3 groups"):
            split_by_group(labels, groups, SHARES, seed)
        return
    splits = split_by_group(labels, groups, SHARES, seed)
    assert len(set(zip(groups, splits, strict=True))) == len(set(groups))
    assert set(splits) == set(SHARES)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), min_size=3, max_size=150),
    st.integers(0, 1000),
)
def test_an_item_without_a_group_is_one_of_its_own(items, seed):
    labels = np.array([label for label, _ in items], dtype=np.int64)
    groups = np.array([f"patient {group}" if group else "" for _, group in items])
    unique = np.array([group or f"item {i}" for i, group in enumerate(groups)])
    if len(set(unique)) < 3:
        with pytest.raises(DataError, match="at least 3 groups"):
            split_by_group(labels, groups, SHARES, seed)
        return
    splits = split_by_group(labels, groups, SHARES, seed)
    assert len(set(zip(unique, splits, strict=True))) == len(set(unique))
    assert set(splits) == set(SHARES)


def test_items_without_a_group_follow_the_shares():
    labels = np.tile([0, 1], 500)
    groups = np.where(np.arange(1000) < 100, "patient", "")
    splits = split_by_group(labels, groups, SHARES, 0)
    for name, share in SHARES.items():
        assert abs((splits == name).mean() - share) < 0.01


def test_group_splits_are_stratified_as_far_as_groups_allow():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(100).astype(str), 10)
    labels = np.repeat(rng.integers(0, 3, 100), 10)  # every patient of one class
    splits = split_by_group(labels, groups, SHARES, 0)
    for label in range(3):
        for name, share in SHARES.items():
            assert abs((splits[labels == label] == name).mean() - share) < 0.05


def test_group_splits_are_seeded():
    groups = np.repeat(np.arange(30).astype(str), 4)
    labels = np.tile(np.arange(4), 30)
    first, again, other = (split_by_group(labels, groups, SHARES, seed) for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()


@pytest.mark.parametrize(
    ("present", "train"), [(("train",), 70), (("train", "test"), 85), (("train", "val"), 85)]
)
def test_a_missing_split_is_taken_from_train(present, train):
    labels = np.tile(np.arange(2), 50 * len(present))
    splits = np.repeat(present, 100)
    done = complete_splits(labels, splits, None, 0)
    assert set(done) == set(SHARES)
    assert (done == "train").sum() == train
    for name in present[1:]:
        assert (done[splits == name] == name).all()


def test_nothing_changes_where_all_splits_are_there():
    splits = np.array(["train", "val", "test"])
    assert (complete_splits(np.zeros(3, dtype=np.int64), splits, None, 0) == splits).all()


def test_a_missing_split_is_taken_by_group():
    groups = np.repeat(np.arange(20).astype(str), 5)
    labels = np.tile(np.arange(5), 20)
    done = complete_splits(labels, np.full(100, "train"), groups, 0)
    assert len(set(zip(groups, done, strict=True))) == 20


@given(LABELS, st.integers(1, 10))
def test_a_subset_limits_train_and_leaves_the_rest_whole(labels, per_class):
    splits = split_stratified(labels, SHARES, 0)
    keep = choose_per_class(labels, splits, per_class, 0)
    assert (np.diff(keep) > 0).all()
    for name in ("val", "test"):
        assert (splits[keep] == name).sum() == (splits == name).sum()
    for label in np.unique(labels):
        mine = (splits == "train") & (labels == label)
        kept = ((splits == "train") & (labels == label))[keep].sum()
        assert kept == min(per_class, mine.sum())


@pytest.mark.parametrize(
    ("number", "expected"), [(6, (2, 2, 2)), (7, (3, 2, 2)), (20, (14, 3, 3)), (800, (560, 120, 120))]
)
@pytest.mark.parametrize("seed", [0, 1])
def test_whole_classes_follow_the_shares_with_two_at_least_in_every_split(number, expected, seed):
    labels = np.random.default_rng(5).permutation(np.repeat(np.arange(number), 1 + np.arange(number) % 4))
    splits = split_by_class(labels, SHARES, seed)
    assert tuple(len(np.unique(labels[splits == name])) for name in SHARES) == expected


@given(st.lists(st.integers(0, 30), min_size=1, max_size=120), st.integers(0, 1000))
def test_no_class_is_in_two_splits(values, seed):
    labels = np.array(values, dtype=np.int64)
    if len(set(values)) < 6:
        with pytest.raises(DataError, match=r"by class needs at least 6 classes; there are \d"):
            split_by_class(labels, SHARES, seed)
        return
    splits = split_by_class(labels, SHARES, seed)
    assert len(set(zip(values, splits.tolist(), strict=True))) == len(set(values))
    assert set(splits) == set(SHARES)


def test_class_splits_are_seeded():
    labels = np.repeat(np.arange(30), 4)
    first, again, other = (split_by_class(labels, SHARES, seed) for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()
