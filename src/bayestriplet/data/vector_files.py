"""vectors:FILE as a data set: items that are vectors of some model, with labels and without images."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from bayestriplet.checks import VECTORS, check_split_by
from bayestriplet.data.files import split_items
from bayestriplet.data.splitting import divide, refuse_own_splits
from bayestriplet.data.vector_h5 import SUFFIXES, read_slides
from bayestriplet.data.vector_npz import read_npz
from bayestriplet.data.vector_parquet import read_parquet
from bayestriplet.data.vector_table import VectorTable, check_table, name_labels, texts
from bayestriplet.data.vectors import LabelledVectors
from bayestriplet.errors import DataError, InputError

READERS: dict[str, Callable[[Path], VectorTable]] = {".npz": read_npz, ".parquet": read_parquet}


def open_vectors(
    path: Path, *, seed: int = 0, split_by: str | None = None, follow_links: bool = False
) -> LabelledVectors:
    """Return the labelled vectors of a file or folder, split as it says, as asked, or as folders are."""
    if split_by is not None:
        check_split_by(split_by)
    table = _read(path, labelled=True, follow_links=follow_links)
    if "labels" not in table.columns:
        raise DataError(f"{path} lacks labels; add an array of one label per vector")
    vectors = _make_set(table)
    if len(vectors.classes) < 2:
        raise DataError(f"{path} has the single class {vectors.classes[0]!r}; at least two are needed")
    given = table.columns.get("splits")
    if split_by is None:
        return replace(vectors, splits=split_items(vectors, given, seed, path).splits)
    if given is not None:
        refuse_own_splits(path, split_by)
    parts = divide(split_by, vectors.classes, vectors.labels, vectors.groups, seed, path)
    return replace(vectors, splits=parts)


def list_vectors(path: Path, *, follow_links: bool = False) -> LabelledVectors:
    """Return all vectors of a file or folder, with or without labels; those without are of the class ""."""
    return _make_set(_read(path, labelled=False, follow_links=follow_links))


def refuse_image_options(data: str, size: int | None, skip_bad: bool) -> None:
    """Raise if something is asked for that only images have."""
    for option, given in (("--size", size is not None), ("--skip-bad", skip_bad)):
        if given:
            raise InputError(f"{option} is for images; {data} holds vectors: leave it out")


def _read(path: Path, *, labelled: bool, follow_links: bool) -> VectorTable:
    suffix = path.suffix.lower()
    if path.is_dir() or (suffix in SUFFIXES and path.is_file()):
        table = read_slides(path, labelled, follow_links=follow_links)
    elif not path.is_file():
        raise DataError(f"there is no file or folder {path}")
    elif suffix in READERS:
        table = READERS[suffix](path)
    else:
        raise DataError(f"{path}: vectors are read from .npz and .parquet files and folders of .h5 files")
    check_table(table, labelled)
    return table


def _make_set(table: VectorTable) -> LabelledVectors:
    classes, labels = name_labels(table)
    count, columns = len(table.vectors), table.columns
    splits = columns.get("splits", np.full(count, "train"))
    ids = tuple(texts(columns["ids"]).tolist()) if "ids" in columns else tuple(map(str, range(count)))
    return LabelledVectors(
        name=table.path.stem if table.path.is_file() else table.path.resolve().name,
        classes=classes,
        labels=labels,
        splits=splits.astype("<U5"),
        ids=ids,
        channels=0,
        size=0,
        kind=VECTORS,
        groups=texts(columns["groups"]) if "groups" in columns else None,
        features=table.vectors[:, None, :],
        origin=table.source or table.path.name,
    )
