"""MedMNIST's .npz files: three splits of images and labels in one archive."""

import math
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from bayestriplet.data.dataset import LabelledImages
from bayestriplet.data.splits import SPLITS
from bayestriplet.errors import DataError, reason_of

NAMES = "classes.npy"
TISSUES = ("ADI", "BACK", "DEB", "LYM", "MUC", "MUS", "NORM", "STR", "TUM")


def open_npz(path: Path) -> LabelledImages:
    """Return the images of a MedMNIST file with its own splits.

    Every array's type and shape is checked in its header before its bytes are read. Labels are named by
    the array ``classes``, else where the file is PathMNIST: nine classes in colour and "path" in its name.
    """
    images, labels, names = _read_arrays(path)
    classes = _name_classes(path, np.concatenate(labels), images.shape, names)
    channels = images.shape[3] if images.ndim == 4 else 1
    is_path = classes == TISSUES
    return LabelledImages(
        name="pathmnist" if is_path else path.stem,
        classes=classes,
        labels=np.concatenate(labels),
        splits=np.repeat(SPLITS, [len(part) for part in labels]),
        ids=tuple(
            f"{split}/{i}" for split, part in zip(SPLITS, labels, strict=True) for i in range(len(part))
        ),
        channels=channels,
        size=images.shape[1],
        kind="histology" if channels == 3 else "digits",  # a mirrored glyph or organ may be of another class
        pixels=images.reshape(*images.shape[:3], channels),
    )


def _read_arrays(
    path: Path,
) -> tuple[NDArray[np.uint8], list[NDArray[np.int64]], tuple[str, ...] | None]:
    """Return the images of all splits, the labels of each, and the names of the classes if there are any."""
    try:
        with zipfile.ZipFile(path) as archive:
            _check_headers(archive, path)
            images = np.concatenate([read_array(archive, f"{split}_images") for split in SPLITS])
            labels = [read_array(archive, f"{split}_labels").reshape(-1).astype(np.int64) for split in SPLITS]
            names = tuple(read_array(archive, "classes").tolist()) if NAMES in archive.namelist() else None
    except MemoryError:
        raise DataError(f"{path} does not fit into memory; use a smaller side of the same data set") from None
    except (OSError, ValueError, EOFError, zlib.error, zipfile.BadZipFile, RuntimeError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} cannot be read as an .npz file: {error}; download it again") from error
    return images, labels, names


def _check_headers(archive: zipfile.ZipFile, path: Path) -> None:
    """Refuse an archive whose arrays are missing, of a wrong type or shape, or do not belong together."""
    wanted = [f"{split}_{what}" for split in SPLITS for what in ("images", "labels")]
    if missing := [key for key in wanted if f"{key}.npy" not in archive.namelist()]:
        raise DataError(f"{path} lacks {', '.join(missing)}; a MedMNIST file has {', '.join(wanted)}")
    sides = set()
    for split in SPLITS:
        shape, dtype = read_header(archive, f"{split}_images", path)
        square = len(shape) in (3, 4) and shape[1] == shape[2] > 0 and shape[3:] in ((), (1,), (3,))
        if dtype != np.uint8 or not square:
            raise DataError(
                f"{path}: {split}_images must be uint8 of shape (n, side, side) or (n, side, side, 3); "
                f"got {dtype} of shape {shape}"
            )
        sides.add(shape[1:])
        count, kind = read_header(archive, f"{split}_labels", path)
        if count not in ((shape[0],), (shape[0], 1)) or kind.kind not in "iu":
            raise DataError(
                f"{path}: {split}_labels must be {shape[0]} whole numbers, one per image; "
                f"got {kind} of shape {count}"
            )
    if len(sides) > 1:
        raise DataError(f"{path}: the splits have images of different shapes: {sorted(sides)}")
    if NAMES in archive.namelist():
        shape, dtype = read_header(archive, "classes", path)
        if len(shape) != 1 or dtype.kind != "U":
            raise DataError(f"{path}: classes must be a list of names as text; got {dtype} of shape {shape}")


def read_header(archive: zipfile.ZipFile, key: str, path: Path) -> tuple[tuple[int, ...], "np.dtype[Any]"]:
    """Return shape and type of an array without reading it; its length must be what they say."""
    with archive.open(f"{key}.npy") as file:
        shape, dtype = _parse_header(file, f"{path}: {key}")
        start = file.tell()
    stored = archive.getinfo(f"{key}.npy").file_size - start
    if dtype.hasobject or stored != math.prod(shape) * dtype.itemsize:
        raise DataError(f"{path}: {key} does not hold the {dtype} of shape {shape} its header says")
    return shape, dtype


def _parse_header(file: IO[bytes], what: str) -> tuple[tuple[int, ...], "np.dtype[Any]"]:
    """Return shape and type; NumPy's parser of damaged headers raises almost anything."""
    try:
        first = np.lib.format.read_magic(file) == (1, 0)
        read = np.lib.format.read_array_header_1_0 if first else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
    except Exception as error:
        raise DataError(f"{what} has a damaged header: {reason_of(error)[:100]}") from error
    if not all(type(side) is int and side >= 0 for side in shape):
        raise DataError(f"{what} has a damaged header: its shape is {shape}")
    return shape, dtype


def read_array(archive: zipfile.ZipFile, key: str) -> NDArray[Any]:
    """Return an array; what is in the file is never run."""
    with archive.open(f"{key}.npy") as file:
        return np.lib.format.read_array(file, allow_pickle=False)


def _name_classes(
    path: Path, labels: NDArray[np.int64], shape: tuple[int, ...], names: tuple[str, ...] | None
) -> tuple[str, ...]:
    if not len(labels):
        raise DataError(f"{path} holds no images")
    if labels.min() < 0 or labels.max() >= len(labels):
        raise DataError(f"{path}: labels must be whole numbers from 0 up; got {labels.min()}..{labels.max()}")
    if names is not None:
        if labels.max() >= len(names) or len(set(names)) < len(names):
            raise DataError(
                f"{path}: classes must hold {labels.max() + 1} different names; got {len(set(names))}"
            )
        return names
    if labels.max() == len(TISSUES) - 1 and shape[3:] == (3,) and "path" in path.stem.lower():
        return TISSUES
    return tuple(str(k) for k in range(int(labels.max()) + 1))
