"""What a file of vectors holds, whatever its format: the vectors, and a value of each in some columns."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayestriplet.data.splits import SPLITS, check_groups_apart
from bayestriplet.errors import DataError

COLUMNS = ("labels", "groups", "splits", "ids")
MEMORY_LIMIT = 8_000_000_000  # bytes of vectors that are not memory-mapped
COLUMN_LIMIT = 1_000_000_000  # bytes of any other array
LONGEST = 65_536  # numbers of a vector
PART = 4096  # vectors that are looked at together


@dataclass(frozen=True, eq=False)
class VectorTable:
    """Vectors (n, F) as a file holds them, in memory or memory-mapped, with what it says of each."""

    path: Path
    vectors: NDArray[Any]
    columns: dict[str, NDArray[Any]] = field(default_factory=dict)
    """Of COLUMNS, those that there are: (n,) whole numbers or text, empty where unknown."""
    classes: NDArray[Any] | None = None
    """Names of labels that are numbers."""
    source: str = ""
    """What the vectors come from; empty where the file does not say it."""


def check_shape(path: Path, key: str, shape: tuple[int, ...], dtype: "np.dtype[Any]") -> None:
    """Raise unless an array may be vectors (n, F); it need not have been read."""
    if dtype.kind != "f" or dtype.itemsize > 8 or len(shape) != 2 or not 1 <= shape[1] <= LONGEST:
        raise DataError(
            f"{path}: {key} must be float16, float32 or float64 of shape (items, length); "
            f"got {dtype} of shape {shape}"
        )
    if not shape[0]:
        raise DataError(f"{path} holds no vectors: {key} is empty")


def check_memory(path: Path, count: int, length: int, itemsize: int) -> None:
    """Raise if vectors that have to be in memory are too many."""
    needed = count * length * itemsize
    if needed > MEMORY_LIMIT:
        raise DataError(
            f"{path}: its vectors would take {needed / 1e9:.0f} GB of memory; write them with numpy.savez, "
            f"without compression, to an .npz file, which is read from the disk"
        )


def check_table(table: VectorTable, labelled: bool) -> None:
    """Raise unless every vector is finite and every column is whole and makes sense."""
    path, count = table.path, len(table.vectors)
    for start in range(0, count, PART):
        with np.errstate(over="ignore"):
            part = np.asarray(table.vectors[start : start + PART], np.float32)
        bad = np.flatnonzero(~np.isfinite(part).all(1))
        if len(bad):
            raise DataError(
                f"{path}: vectors holds NaN or infinite numbers in row {start + bad[0]}; remove it"
            )
    for key, values in table.columns.items():
        _check_column(path, key, values, count)
    if "splits" in table.columns:
        _check_splits(path, table.columns["splits"], labelled)
    if "ids" in table.columns:
        _check_ids(path, texts(table.columns["ids"]))
    if "splits" in table.columns and "groups" in table.columns:
        check_groups_apart(path, table.columns["splits"], texts(table.columns["groups"]))
    if "labels" in table.columns and labelled:
        _check_filled(path, "labels", texts(table.columns["labels"]))


def texts(values: NDArray[Any]) -> NDArray[np.str_]:
    """Return a column as text."""
    return values if values.dtype.kind == "U" else values.astype(np.str_)


def name_labels(table: VectorTable) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Return the classes that occur, and the number of each vector's; without labels all are of the class "".

    Numbers are named by ``classes`` where there are any, else by themselves, and keep their order.
    """
    path, labels = table.path, table.columns.get("labels")
    if labels is None:
        return ("",), np.zeros(len(table.vectors), np.int64)
    present, numbers = np.unique(labels, return_inverse=True)
    if table.classes is None or labels.dtype.kind == "U":
        return tuple(map(str, present)), numbers.reshape(-1).astype(np.int64)
    names = table.classes.tolist()
    if present[0] < 0 or present[-1] >= len(names) or len(set(names)) < len(names):
        raise DataError(
            f"{path}: labels are numbers from {present[0]} to {present[-1]}, so that classes must hold at "
            f"least {present[-1] + 1} different names; got {len(set(names))}"
        )
    return tuple(names[int(k)] for k in present), numbers.reshape(-1).astype(np.int64)


def _check_column(path: Path, key: str, values: NDArray[Any], count: int) -> None:
    if values.shape != (count,):
        raise DataError(
            f"{path}: {key} must hold {count} values, one per vector; got an array of shape {values.shape}"
        )
    if values.dtype.kind not in ("U" if key == "splits" else "iuU"):
        kind = "text" if key == "splits" else "whole numbers or text"
        raise DataError(f"{path}: {key} must be {kind}; got {values.dtype}")


def _check_splits(path: Path, splits: NDArray[np.str_], labelled: bool) -> None:
    wrong = np.flatnonzero(~np.isin(splits, SPLITS))
    if len(wrong):
        raise DataError(
            f"{path}: splits holds {str(splits[wrong[0]])!r} in row {wrong[0]}; it must be train, val or test"
        )
    if labelled and not (splits == "train").any():
        raise DataError(f"{path}: splits names no vector train")


def _check_ids(path: Path, ids: NDArray[np.str_]) -> None:
    _check_filled(path, "ids", ids)
    names, first, counts = np.unique(ids, return_index=True, return_counts=True)
    if (counts > 1).any():
        twice = int(np.flatnonzero(counts > 1)[0])
        raise DataError(
            f"{path}: ids holds {str(names[twice])!r} {counts[twice]} times, first in row {first[twice]}; "
            f"every id must be different"
        )


def _check_filled(path: Path, key: str, values: NDArray[np.str_]) -> None:
    empty = np.flatnonzero(values == "")
    if len(empty):
        rows = f"{len(empty)} row{'s' * (len(empty) > 1)} (first: {empty[0]})"
        raise DataError(f"{path}: {key} is empty in {rows}; fill or remove them")
