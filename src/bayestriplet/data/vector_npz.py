"""Vectors in an .npz file: memory-mapped where they are not compressed, and never unpickled."""

import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayestriplet.checks import nearest
from bayestriplet.data.npz import read_array, read_header
from bayestriplet.data.vector_table import COLUMN_LIMIT, COLUMNS, VectorTable, check_memory, check_shape
from bayestriplet.errors import DataError

LOCAL_HEADER = 30  # bytes before the name of a member
BROKEN = (OSError, ValueError, EOFError, RuntimeError, zlib.error, struct.error, zipfile.BadZipFile)
KEYS = ("vectors", *COLUMNS, "classes", "source")


def read_npz(path: Path) -> VectorTable:
    """Return the vectors of an .npz file; every array is checked in its header before its bytes are read."""
    try:
        with zipfile.ZipFile(path) as archive:
            found = {name[:-4] for name in archive.namelist() if name.endswith(".npy")}
            if "vectors" not in found:
                raise DataError(f"{path} lacks the array vectors{nearest('vectors', found)}")
            check_shape(path, "vectors", *read_header(archive, "vectors", path))
            small = {key: _read_small(archive, path, key) for key in KEYS[1:] if key in found}
            vectors = _read_vectors(archive, path)
    except MemoryError:
        raise DataError(
            f"{path} does not fit into memory; write it with numpy.savez, without compression"
        ) from None
    except BROKEN as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} cannot be read as an .npz file: {error}; write it again") from error
    columns = {key: small[key] for key in COLUMNS if key in small}
    return VectorTable(path, vectors, columns, _text(path, "classes", small), _name_source(path, small))


def _read_small(archive: zipfile.ZipFile, path: Path, key: str) -> NDArray[Any]:
    """Return an array of numbers or text, text in bytes as text."""
    try:
        shape, dtype = read_header(archive, key, path)
    except DataError:
        raise DataError(
            f"{path}: {key} does not hold what its header says, or Python objects, which are never read; "
            f"save it as numbers or text, such as numpy.array({key}, dtype=str)"
        ) from None
    if dtype.itemsize * int(np.prod(shape, dtype=np.float64)) > COLUMN_LIMIT:
        raise DataError(f"{path}: {key} takes more than {COLUMN_LIMIT // 10**9} GB; shorten its texts")
    values = read_array(archive, key)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]  # as MedMNIST writes labels
    return np.char.decode(values, "utf-8") if values.dtype.kind == "S" else values


def _read_vectors(archive: zipfile.ZipFile, path: Path) -> NDArray[Any]:
    """Return the vectors: from the disk as they are needed, unless they are compressed."""
    member = archive.getinfo("vectors.npy")
    if member.compress_type != zipfile.ZIP_STORED:
        (count, length), dtype = read_header(archive, "vectors", path)
        check_memory(path, count, length, dtype.itemsize)
        return read_array(archive, "vectors")
    with path.open("rb") as file:
        file.seek(member.header_offset)
        lengths = struct.unpack("<HH", file.read(LOCAL_HEADER)[-4:])  # of the name, and of what else is there
        file.seek(sum(lengths), 1)
        version = np.lib.format.read_magic(file)
        first = version == (1, 0)
        read = np.lib.format.read_array_header_1_0 if first else np.lib.format.read_array_header_2_0
        shape, by_columns, dtype = read(file)
        return np.memmap(path, dtype, "r", file.tell(), shape, "F" if by_columns else "C")


def _text(path: Path, key: str, small: dict[str, NDArray[Any]]) -> NDArray[Any] | None:
    values = small.get(key)
    if values is not None and (values.ndim != 1 or values.dtype.kind != "U"):
        raise DataError(
            f"{path}: {key} must be a list of names as text; got {values.dtype} of shape {values.shape}"
        )
    return values


def _name_source(path: Path, small: dict[str, NDArray[Any]]) -> str:
    values = small.get("source")
    if values is None:
        return ""
    if values.size != 1 or values.dtype.kind != "U":
        raise DataError(f"{path}: source must be one text; got {values.dtype} of shape {values.shape}")
    return str(values.reshape(-1)[0])
