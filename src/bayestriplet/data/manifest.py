"""A CSV file that lists images: path, label and, where known, split and group.

Its columns are separated by commas, semicolons or tabs, whichever its first line shows.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bayestriplet.data.listing import Listing
from bayestriplet.data.splits import SPLITS, check_groups_apart
from bayestriplet.data.table import read_table
from bayestriplet.errors import DataError

SHOWN = 5  # lines a message names
COLUMNS = "path,label and, where known, split,group"


@dataclass(frozen=True)
class _Row:
    line: int
    path: str
    label: str
    split: str
    group: str


def list_manifest(source: Path, labelled: bool = True) -> Listing:
    """Return the files a CSV file lists, with paths relative to its folder; other columns are ignored.

    Unless every file has to be ``labelled``, the class of one without a label is "".
    """
    columns, rows = _read_rows(source, ("path", "label") if labelled else ("path",))
    _check_rows(source, columns, rows, ("path", "label", "group") if labelled else ("path", "group"))
    paths = tuple(source.parent / row.path for row in rows)
    _check_paths(source, rows, paths)
    classes = tuple(sorted({row.label for row in rows}))
    number = {name: k for k, name in enumerate(classes)}
    splits = np.array([row.split for row in rows], dtype="<U5") if "split" in columns else None
    groups = np.array([row.group for row in rows], dtype=np.str_) if "group" in columns else None
    if splits is not None and groups is not None:
        check_groups_apart(source, splits, groups)
    return Listing(
        name=source.stem,
        source=source,
        classes=classes,
        paths=paths,
        ids=tuple(row.path for row in rows),
        labels=np.array([number[row.label] for row in rows], dtype=np.int64),
        splits=splits,
        groups=groups,
    )


def _read_rows(source: Path, needed: tuple[str, ...]) -> tuple[Sequence[str], list[_Row]]:
    columns, found = read_table(source, needed, COLUMNS)
    if not found:
        raise DataError(f"{source} lists no images")
    return columns, [_to_row(line, values) for line, values in found]


def _to_row(line: int, values: dict[str, str]) -> _Row:
    return _Row(line, *(values.get(name, "") for name in ("path", "label", "split", "group")))


def _check_rows(source: Path, columns: Sequence[str], rows: list[_Row], filled: tuple[str, ...]) -> None:
    for name in filled:
        if name in columns and (lines := [row.line for row in rows if not getattr(row, name)]):
            raise DataError(f"{source} has no {name} in {_show_lines(lines)}")
    if "split" in columns and (wrong := [row for row in rows if row.split not in SPLITS]):
        raise DataError(
            f"{source} has the split {wrong[0].split!r} in {_show_lines([row.line for row in wrong])}; "
            f"it must be train, val or test"
        )
    if "split" in columns and not any(row.split == "train" for row in rows):
        raise DataError(f"{source} has no row with the split train")


def _check_paths(source: Path, rows: list[_Row], paths: tuple[Path, ...]) -> None:
    gone = [
        f"line {row.line} {row.path}" for row, path in zip(rows, paths, strict=True) if not path.is_file()
    ]
    if gone:
        shown = ", ".join(gone[:SHOWN]) + (", ..." if len(gone) > SHOWN else "")
        raise DataError(
            f"{source} lists {len(gone)} missing file{'s' * (len(gone) > 1)}: {shown}; "
            f"paths are relative to {source.parent}"
        )
    first: dict[str, int] = {}
    for row, path in zip(rows, paths, strict=True):
        earlier = first.setdefault(os.path.normpath(path), row.line)
        if earlier != row.line:
            raise DataError(f"{source} lists {row.path} twice, in lines {earlier} and {row.line}")


def _show_lines(lines: list[int]) -> str:
    shown = ", ".join(map(str, lines[:SHOWN])) + (", ..." if len(lines) > SHOWN else "")
    return f"line {shown}" if len(lines) == 1 else f"{len(lines)} lines ({shown})"
