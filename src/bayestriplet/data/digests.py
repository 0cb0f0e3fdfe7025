"""Digests of pixels, by which identical images are found."""

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

LENGTH = 8  # bytes: two of a million different images share a digest with probability 3e-8


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
