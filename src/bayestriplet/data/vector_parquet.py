"""Vectors in a .parquet file, read a part at a time."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayestriplet.checks import nearest
from bayestriplet.data.vector_table import COLUMNS, VectorTable, check_memory, check_shape
from bayestriplet.errors import DataError, MissingDependencyError, reason_of

PART = 1024  # rows


def read_parquet(path: Path) -> VectorTable:
    """Return the vectors of a .parquet file, which are lists of one length in the column ``vectors``."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise MissingDependencyError(
            f"{path}: reading .parquet files needs pyarrow: pip install 'bayestriplet[search]'"
        ) from error
    try:
        with parquet.ParquetFile(path) as file:
            schema = file.schema_arrow
            _check_vectors(path, schema)
            vectors = _read_vectors(path, file, schema.field("vectors").type.value_type)
            names = [key for key in COLUMNS if key in schema.names]
            table = file.read(columns=names)
            columns = {key: _to_column(table.column(key)) for key in names}
    except MemoryError:
        raise DataError(f"{path} does not fit into memory; write its vectors with numpy.savez") from None
    except (OSError, ValueError, pyarrow.ArrowException) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(
            f"{path} cannot be read as a .parquet file: {reason_of(error)}; write it again"
        ) from error
    source = (schema.metadata or {}).get(b"source", b"").decode(errors="replace")
    return VectorTable(path, vectors, columns, source=source)


def _check_vectors(path: Path, schema: Any) -> None:
    from pyarrow import types

    if "vectors" not in schema.names:
        raise DataError(f"{path} lacks the column vectors{nearest('vectors', schema.names)}")
    kind = schema.field("vectors").type
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    if not is_list or not types.is_floating(kind.value_type):
        raise DataError(f"{path}: vectors must be lists of floating-point numbers; got {kind}")


def _read_vectors(path: Path, file: Any, kind: Any) -> NDArray[Any]:
    """Return the vectors (n, F) in one array that is filled part by part."""
    from pyarrow import types

    dtype = np.dtype(np.float16 if types.is_float16(kind) else np.float32)
    count, done, out = file.metadata.num_rows, 0, np.empty((0, 1), dtype)
    for batch in file.iter_batches(PART, columns=["vectors"]):
        rows = batch.column(0)
        length = out.shape[1] if done else _first_length(path, rows)
        if not done:
            check_shape(path, "vectors", (count, length), dtype)
            check_memory(path, count, length, dtype.itemsize)
            out = np.empty((count, length), dtype)
        with np.errstate(over="ignore"):
            out[done : done + len(rows)] = _to_part(path, rows, length, done)
        done += len(rows)
    if not done:
        raise DataError(f"{path} holds no vectors: it has no rows")
    return out


def _first_length(path: Path, rows: Any) -> int:
    if rows[0].as_py() is None:
        raise DataError(f"{path}: vectors is empty in row 0; fill or remove it")
    return len(rows[0])


def _to_part(path: Path, rows: Any, length: int, done: int) -> NDArray[Any]:
    """Return a part of the lists as an array, all of them of this length."""
    from pyarrow import compute

    lengths = compute.fill_null(compute.list_value_length(rows), -1).to_numpy(zero_copy_only=False)
    wrong = np.flatnonzero(lengths != length)
    if len(wrong):
        got = "is empty" if lengths[wrong[0]] < 0 else f"has the length {lengths[wrong[0]]}"
        raise DataError(
            f"{path}: vectors {got} in row {done + wrong[0]}, and {length} in row 0; all must have one length"
        )
    values = rows.flatten()
    return values.to_numpy(zero_copy_only=False).reshape(-1, length)


def _to_column(values: Any) -> NDArray[Any]:
    """Return a column as whole numbers or text, empty where it has no value."""
    found = values.to_pylist()
    if values.null_count or not found:
        return np.array(["" if one is None else str(one) for one in found], dtype=np.str_)
    return np.array(found)
