"""What data are split by where the user says so: item, group, class, or a file that names classes."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bayestriplet.checks import check_split_by, nearest
from bayestriplet.data.listing import Listing
from bayestriplet.data.splits import (
    CLASSES_PER_SPLIT,
    SHARES,
    SPLITS,
    split_by_class,
    split_by_group,
    split_stratified,
)
from bayestriplet.data.table import read_table
from bayestriplet.errors import DataError


def split_listing(listing: Listing, split_by: str | None, seed: int) -> Listing:
    """Return the listing with splits by ``split_by``; as it is where that is None.

    It is done before any image is opened, so the split of a class does not depend on bad files.
    """
    if split_by is None:
        return listing
    if listing.splits is not None:
        refuse_own_splits(listing.source, split_by)
    splits = divide(split_by, listing.classes, listing.labels, listing.groups, seed, listing.source)
    return replace(listing, splits=splits, is_divided=True)


def refuse_own_splits(source: Path, split_by: str) -> None:
    """Raise the error of data that have splits of their own and are to be split otherwise."""
    raise DataError(
        f"{source} has splits of its own, and --split-by {split_by} is given: leave out --split-by to use "
        f"its own, or take them out of the data"
    )


def divide(
    split_by: str,
    classes: Sequence[str],
    labels: NDArray[np.int64],
    groups: NDArray[np.str_] | None,
    seed: int,
    source: Path,
) -> NDArray[np.str_]:
    """Return the split (n,) of every item of some data; messages name their ``source``."""
    kind, file = check_split_by(split_by)
    if file is not None:
        found = read_class_splits(file, classes, source)
        return np.array([found[name] for name in classes], dtype="<U5")[labels]
    try:
        if kind == "class":
            return split_by_class(labels, SHARES, seed)
        if kind == "item":
            return split_stratified(labels, SHARES, seed)
        if groups is None:
            raise DataError(
                "--split-by group needs groups: a .csv manifest with the column group, or vectors with groups"
            )
        return split_by_group(labels, groups, SHARES, seed)
    except DataError as error:
        raise DataError(f"{source}: {error}") from None


def read_class_splits(file: Path, classes: Sequence[str], source: Path) -> dict[str, str]:
    """Return the split of every class from a file with the columns class and split.

    It names each of the ``classes`` of some ``source`` once, and at least two in every split that is used.
    Training and test are needed; without validation classes there are no validation items.
    """
    _, rows = read_table(file, ("class", "split"), "class,split")
    found: dict[str, str] = {}
    for line, row in rows:
        name, split = row["class"], row["split"]
        if name not in classes:
            hint = nearest(name, classes)
            raise DataError(f"{file}: line {line} names {name!r}, which is no class of {source}{hint}")
        if split not in SPLITS:
            raise DataError(f"{file}: line {line} has the split {split!r}; it must be train, val or test")
        if name in found:
            raise DataError(f"{file}: line {line} names {name!r} again; every class must be there once")
        found[name] = split
    if missing := [name for name in classes if name not in found]:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise DataError(f"{file} lacks the class {missing[0]!r}{more} of {source}; it must name all")
    _check_numbers(file, Counter(found.values()))
    return found


def _check_numbers(file: Path, counts: Counter[str]) -> None:
    for split in SPLITS:
        if counts[split] < CLASSES_PER_SPLIT and (split != "val" or counts[split]):
            raise DataError(
                f"{file} gives {split} {counts[split]} of the classes; it needs at least {CLASSES_PER_SPLIT}"
            )
