"""Vectors in .h5 files, one per slide, as tools that cut slides into tiles write them (CLAM, TRIDENT)."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayestriplet.data.table import read_table
from bayestriplet.data.vector_table import VectorTable, check_memory, check_shape
from bayestriplet.errors import BayesTripletError, DataError, MissingDependencyError, reason_of

SUFFIXES = (".h5", ".hdf5")
TABLE = "labels.csv"
LAYOUT = f"a folder per class of .h5 files, or a {TABLE} with the columns file,label beside them"


@dataclass(frozen=True)
class _Slide:
    """A file, and what is known of all its vectors."""

    path: Path
    name: str
    """Relative to the folder, without its ending."""
    label: str = ""
    split: str = ""
    group: str = ""


class _Look(NamedTuple):
    """What the header of a file says of its vectors."""

    number: int
    length: int
    is_half: bool
    """Whether they are float16."""
    source: str
    """The model they come from; empty where it is not said."""


def read_slides(path: Path, labelled: bool, *, follow_links: bool = False) -> VectorTable:
    """Return the vectors of a folder of .h5 files, or of one file; the group of each is its file.

    A folder has subfolders that are classes, or a table with the columns file,label and if wanted
    group (patient) and split. Without either nothing has a label.
    """
    slides = _list_folder(path, labelled, follow_links) if path.is_dir() else [_Slide(path, path.stem)]
    try:
        import h5py  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError(
            f"{path}: reading .h5 files needs h5py: pip install 'bayestriplet[h5]'"
        ) from error
    if labelled and not all(slide.label for slide in slides):
        raise DataError(f"{path} has no labels: it must be {LAYOUT}")
    looked = [_look(slide.path) for slide in slides]
    vectors = _reserve(path, slides, looked)
    ids: list[str] = []
    for slide, one in zip(slides, looked, strict=True):
        ids += _read(slide, vectors[len(ids) : len(ids) + one.number])
    counts = [one.number for one in looked]
    columns = {"ids": np.array(ids), "groups": np.repeat([one.group or one.name for one in slides], counts)}
    for key, values in (("labels", [one.label for one in slides]), ("splits", [one.split for one in slides])):
        if any(values):
            columns[key] = np.repeat(values, counts)
    return VectorTable(path, vectors, columns, source=looked[0].source)


def _reserve(path: Path, slides: list[_Slide], looked: list[_Look]) -> NDArray[Any]:
    """Return an array for the vectors of all files, which must have one length."""
    length = looked[0].length
    for slide, one in zip(slides, looked, strict=True):
        if one.length != length:
            raise DataError(
                f"{slide.path}: features has vectors of length {one.length}, and {slides[0].path} of "
                f"{length}; all files must be of one model"
            )
    count = sum(one.number for one in looked)
    kind = np.dtype(np.float16 if all(one.is_half for one in looked) else np.float32)
    check_memory(path, count, length, kind.itemsize)
    return np.empty((count, length), kind)


def _list_folder(root: Path, labelled: bool, follow_links: bool) -> list[_Slide]:
    """Return the files of a folder, sorted, with what its table or its subfolders say."""
    found = _files_in(root, root, follow_links)
    folders = [one for one in sorted(root.iterdir()) if one.is_dir() and not one.name.startswith(".")]
    inside = {folder.name: _files_in(folder, root, follow_links) for folder in folders}
    if (root / TABLE).is_file():
        return _with_table(root, [*found, *(one for files in inside.values() for one in files)])
    if found and labelled:
        raise DataError(f"{root} has .h5 files and no {TABLE}: it must be {LAYOUT}")
    slides = [_Slide(path, path.stem) for path in found]
    for name, files in inside.items():
        # A slide of two classes is one group: its tiles look alike.
        slides += [_Slide(path, f"{name}/{path.stem}", label=name, group=path.stem) for path in files]
    if not slides:
        raise DataError(f"{root} holds no .h5 files; it must be {LAYOUT}")
    return slides


def _files_in(folder: Path, root: Path, follow_links: bool) -> list[Path]:
    """Return the .h5 files of a folder, but for hidden ones and links that leave the root."""
    home = Path(os.path.realpath(root))
    return [
        path
        for path in sorted(folder.iterdir())
        if path.suffix.lower() in SUFFIXES
        and path.is_file()
        and not path.name.startswith(".")
        and (follow_links or Path(os.path.realpath(path)).is_relative_to(home))
    ]


def _with_table(root: Path, files: list[Path]) -> list[_Slide]:
    """Return the files with the labels of the table, which must name every one of them."""
    table = root / TABLE
    _, rows = read_table(table, ("file", "label"), "file,label and, where known, group,split")
    by_name = {path.relative_to(root).with_suffix("").as_posix(): path for path in files}
    slides: dict[str, _Slide] = {}
    for line, row in rows:
        name = row["file"]
        for suffix in SUFFIXES:
            name = name.removesuffix(suffix)
        if name not in by_name:
            raise DataError(f"{table}: line {line} names {row['file']!r}, and {root} has no such .h5 file")
        if name in slides:
            raise DataError(
                f"{table}: line {line} names {row['file']!r} again; every file must be there once"
            )
        if not row["label"]:
            raise DataError(f"{table}: line {line} has no label")
        slides[name] = _Slide(
            by_name[name], name, row["label"], row.get("split", ""), row.get("group", "") or name
        )
    if missing := sorted(by_name.keys() - slides.keys()):
        raise DataError(
            f"{table} lacks {by_name[missing[0]].name} ({len(missing)} of {len(files)} files); add lines"
        )
    if not slides:
        raise DataError(f"{root} holds no .h5 files; it must be {LAYOUT}")
    return [slides[name] for name in sorted(slides)]


def _look(path: Path) -> _Look:
    """Return what a file holds; no vector is read."""
    with _opened(path) as file:
        features = _dataset(path, file, "features")
        shape = _plain_shape(features.shape)
        check_shape(path, "features", shape, features.dtype)
        source = features.attrs.get("encoder", features.attrs.get("name", ""))
        half = features.dtype.itemsize == 2
        return _Look(shape[0], shape[1], half, source if isinstance(source, str) else "")


def _read(slide: _Slide, out: NDArray[Any]) -> list[str]:
    """Fill in the vectors of a file and return their ids: file and place, or number where that is unknown."""
    with _opened(slide.path) as file:
        features = _dataset(slide.path, file, "features")
        try:
            with np.errstate(over="ignore"):
                out[:] = features[()].reshape(out.shape)
        except (OSError, MemoryError) as error:
            raise DataError(f"{slide.path}: features cannot be read: {reason_of(error)}") from None
        bad = np.flatnonzero(~np.isfinite(out).all(1))
        if len(bad):
            raise DataError(
                f"{slide.path}: features holds NaN or infinite numbers in row {bad[0]}; remove it"
            )
        places = _places(slide.path, file, len(out))
    return [f"{slide.name}/{place}" for place in places]


def _places(path: Path, file: Any, count: int) -> list[str]:
    """Return a different text for every tile: where it lies in the slide, else its number."""
    numbers = [str(row) for row in range(count)]
    if "coords" not in file:
        return numbers
    coords = _dataset(path, file, "coords")
    shape = _plain_shape(coords.shape)
    if shape != (count, 2) or coords.dtype.kind not in "iu":
        raise DataError(
            f"{path}: coords must be {count} pairs of whole numbers, one per vector; "
            f"got {coords.dtype} of shape {coords.shape}"
        )
    found = [f"{x},{y}" for x, y in coords[()].reshape(shape).tolist()]
    return found if len(set(found)) == count else numbers


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open a file; whatever HDF5 makes of damage in the block, which has no common base, is one line."""
    import h5py

    try:
        with h5py.File(path, "r") as file:
            yield file
    except (BayesTripletError, ImportError):
        raise
    except Exception as error:
        raise DataError(f"{path} cannot be read as an .h5 file: {reason_of(error)}") from None


def _dataset(path: Path, file: Any, key: str) -> Any:
    """Return a dataset of the file itself: one that lies in other files is refused."""
    import h5py

    link = file.get(key, getlink=True)
    found = file.get(key) if isinstance(link, h5py.HardLink) else None
    if not isinstance(found, h5py.Dataset):
        raise DataError(f"{path} lacks the dataset {key} (items, length); it has {', '.join(file) or 'none'}")
    if found.external or found.is_virtual:
        raise DataError(f"{path}: {key} lies in other files; copy it into this one")
    return found


def _plain_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape without a batch of one before it; a single vector is a table of one."""
    if len(shape) == 3 and shape[0] == 1:
        return shape[1:]
    return (1, *shape) if len(shape) == 1 else shape
