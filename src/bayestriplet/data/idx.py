"""The idx format MNIST is published in: a magic number, the lengths of the axes, then bytes."""

import math
import struct

import numpy as np
from numpy.typing import NDArray

from bayestriplet.errors import DataError

UNSIGNED_BYTE = 8


def read_idx(content: bytes, name: str) -> NDArray[np.uint8]:
    """Return the array of unsigned bytes an idx file holds; ``name`` is for the error."""
    axes = content[3] if len(content) >= 4 else 0
    start = 4 + 4 * axes
    if content[:3] != bytes((0, 0, UNSIGNED_BYTE)) or not axes or len(content) < start:
        raise DataError(f"{name} is not an idx file of unsigned bytes")
    shape = struct.unpack(f">{axes}I", content[4:start])
    if len(content) - start != math.prod(shape):
        raise DataError(
            f"{name} should hold {math.prod(shape)} bytes after its header; it holds {len(content) - start}"
        )
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)


def write_idx(values: NDArray[np.uint8]) -> bytes:
    """Return the idx file of an array."""
    header = bytes((0, 0, UNSIGNED_BYTE, values.ndim)) + struct.pack(f">{values.ndim}I", *values.shape)
    return header + values.tobytes()
