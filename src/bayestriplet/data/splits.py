"""Division of items into training, validation and test: stratified, seeded, whole by group or by class."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bayestriplet.errors import DataError

SPLITS = ("train", "val", "test")
SHARES = {"train": 0.7, "val": 0.15, "test": 0.15}
HELD_OUT = 0.15  # of train, for a validation or test split that is missing
LEAST = 3  # items per class must have to appear in every split
CLASSES_PER_SPLIT = 2  # at least, where whole classes are split


def split_stratified(labels: NDArray[np.int64], shares: Mapping[str, float], seed: int) -> NDArray[np.str_]:
    """Return a split (n,) for every item, each class divided by ``shares``.

    A class of at least three items is in every split; a smaller one is all in train. What
    rounding adds to one class it takes from the next, so that the totals follow the shares too.
    """
    rng = np.random.default_rng(seed)
    names = list(shares)
    parts = np.array([shares[name] for name in names])
    splits = np.full(len(labels), "train", dtype="<U5")
    carried = np.zeros(len(names))
    for label in np.unique(labels):
        items = rng.permutation(np.flatnonzero(labels == label))
        if len(items) < LEAST:
            continue
        ideal = parts * len(items) + carried
        counts = _whole_counts(ideal, len(items))
        carried = ideal - counts
        splits[items] = np.repeat(names, counts)
    return splits


def split_by_group(
    labels: NDArray[np.int64], groups: NDArray[np.str_], shares: Mapping[str, float], seed: int
) -> NDArray[np.str_]:
    """Return a split (n,) for every item such that no group is in two splits.

    An item without a group, whose group is empty, is one of its own.
    Greedy, largest group first, ties shuffled: a group goes where it lowers the squared distance between
    each class's shares and the wanted ones most. No split stays empty.
    """
    names = list(shares)
    group_of = _number_groups(groups)
    number = int(group_of.max(initial=-1)) + 1
    if number < len(names):
        raise DataError(f"{len(names)} splits need at least {len(names)} groups; there are {number}")
    classes, class_of = np.unique(labels, return_inverse=True)
    table = np.zeros((number, len(classes)))  # (groups, classes)
    np.add.at(table, (group_of, class_of), 1.0)
    sizes = table.sum(1)
    table /= table.sum(0)  # a class's items as shares, so that small classes weigh as much as large ones
    order = np.random.default_rng(seed).permutation(number)
    order = order[np.argsort(-sizes[order], kind="stable")]
    parts = np.array([shares[name] for name in names])
    chosen = _assign_greedily(table[order], parts)
    split_of = np.empty(number, dtype="<U5")
    split_of[order] = np.array(names)[chosen]
    return split_of[group_of]


def split_by_class(labels: NDArray[np.int64], shares: Mapping[str, float], seed: int) -> NDArray[np.str_]:
    """Return a split (n,) for every item such that no class is in two splits.

    The shares are those of the classes, however many items they have. Every split has at least two.
    """
    names, least = list(shares), CLASSES_PER_SPLIT * len(shares)
    members, class_of = np.unique(labels, return_inverse=True)
    if len(members) < least:
        raise DataError(f"splitting by class needs at least {least} classes; there are {len(members)}")
    ideal = np.array([shares[name] for name in names]) * len(members)
    counts = _whole_counts(ideal, len(members), CLASSES_PER_SPLIT)
    split_of = np.empty(len(members), dtype="<U5")
    split_of[np.random.default_rng(seed).permutation(len(members))] = np.repeat(names, counts)
    return split_of[class_of]


def _number_groups(groups: NDArray[np.str_]) -> NDArray[np.int64]:
    """Return the number (n,) of each item's group, from 0 on; an item without a group has its own."""
    names = np.unique(groups[groups != ""])
    numbers = np.searchsorted(names, groups).astype(np.int64)
    alone = np.flatnonzero(groups == "")
    numbers[alone] = len(names) + np.arange(len(alone))
    return numbers


def check_groups_apart(source: Path, splits: NDArray[np.str_], groups: NDArray[np.str_]) -> None:
    """Raise if a group is in two of the splits that a folder or a manifest gives."""
    home: dict[str, str] = {}
    for group, split in zip(groups.tolist(), splits.tolist(), strict=True):
        if group and home.setdefault(group, split) != split:
            raise DataError(
                f"{source} puts group {group!r} into {home[group]} and {split}; a group must stay in one"
            )


def complete_splits(
    labels: NDArray[np.int64], splits: NDArray[np.str_], groups: NDArray[np.str_] | None, seed: int
) -> NDArray[np.str_]:
    """Fill a missing validation or test split with 15% each of train; those present stay as they are."""
    missing = [name for name in SPLITS[1:] if not (splits == name).any()]
    if not missing:
        return splits
    train = np.flatnonzero(splits == "train")
    shares = {"train": 1 - HELD_OUT * len(missing), **dict.fromkeys(missing, HELD_OUT)}
    out = splits.astype("<U5")
    out[train] = assign_splits(labels[train], None if groups is None else groups[train], shares, seed)
    return out


def assign_splits(
    labels: NDArray[np.int64], groups: NDArray[np.str_] | None, shares: Mapping[str, float], seed: int
) -> NDArray[np.str_]:
    """Return a split (n,) for every item, by group where groups are known."""
    if groups is None:
        return split_stratified(labels, shares, seed)
    return split_by_group(labels, groups, shares, seed)


def choose_per_class(
    labels: NDArray[np.int64], splits: NDArray[np.str_], per_class: int, seed: int
) -> NDArray[np.int64]:
    """Return the positions to keep: at most ``per_class`` training items per class, all others whole."""
    rng = np.random.default_rng(seed)
    keep = splits != "train"
    for label in np.unique(labels):
        items = np.flatnonzero((labels == label) & (splits == "train"))
        keep[rng.permutation(items)[:per_class]] = True
    return np.flatnonzero(keep).astype(np.int64)


def _whole_counts(ideal: NDArray[np.float64], total: int, least: int = 1) -> NDArray[np.int64]:
    """Round to whole numbers of at least ``least`` that sum to ``total``, by largest remainder."""
    counts = np.maximum(np.floor(ideal), 0).astype(np.int64)
    # The remainder is rounded so that equal ones are equal in floating point too; ties go to the first split.
    order = np.argsort(-np.round(ideal - counts, 9), kind="stable")
    for turn in range(total - int(counts.sum())):
        counts[order[turn % len(order)]] += 1
    while counts.sum() > total or counts.min() < least:
        if counts.sum() <= total:
            counts[counts.argmin()] += 1
        counts[counts.argmax()] -= 1
    return counts


def _assign_greedily(table: NDArray[np.float64], parts: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the split of every row of ``table`` (groups, classes), taken in this order."""
    have = np.zeros((len(parts), table.shape[1]))
    chosen = np.empty(len(table), dtype=np.int64)
    used = np.zeros(len(parts), dtype=bool)
    for row, counts in enumerate(table):
        want = parts[:, None] - have
        cost = ((want - counts) ** 2 - want**2).sum(1)  # (splits,)
        if (~used).sum() >= len(table) - row:
            cost = np.where(used, np.inf, cost)
        split = int(cost.argmin())
        chosen[row], used[split] = split, True
        have[split] += counts
    return chosen
