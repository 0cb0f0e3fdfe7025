"""Digests of pixels, by which identical images are found, and of files that are kept."""

import hashlib
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

LENGTH = 8  # bytes: two of a million different images share a digest with probability 3e-8
PART = 1 << 20  # bytes of a file that are read at a time


def digest_of(pixels: NDArray[Any]) -> int:
    """Return a digest of the pixels (H, W) or (H, W, C) of one image, its shape and type included."""
    found = hashlib.blake2b(f"{pixels.shape} {pixels.dtype.str}".encode(), digest_size=LENGTH)
    found.update(np.ascontiguousarray(pixels).data)
    return int.from_bytes(found.digest(), "little")


def digests_of(pixels: NDArray[Any]) -> NDArray[np.uint64]:
    """Return a digest (n,) of each of the images (n, H, W, C), or of the vectors (n, F)."""
    rows = np.ascontiguousarray(pixels).reshape(len(pixels), -1)
    found = b"".join(hashlib.blake2b(row.data, digest_size=LENGTH).digest() for row in rows)
    return np.frombuffer(found, dtype="<u8").astype(np.uint64)


def crc_of(path: Path) -> int:
    """Return the CRC-32 of a file, which is quick to compute: some gigabytes a second."""
    value = 0
    with path.open("rb") as file:
        while part := file.read(PART):
            value = zlib.crc32(part, value)
    return value
