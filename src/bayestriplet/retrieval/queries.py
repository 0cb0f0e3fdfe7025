"""What can be asked about: image files, folders of them, pixels or vectors."""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayestriplet.checks import is_vectors
from bayestriplet.data.images import (
    SUFFIXES,
    decode_one,
    exchange,
    is_opened,
    load_image,
    shape_image,
    shape_opened,
    shape_pixels,
)
from bayestriplet.data.thumbnails import LARGEST, make_thumbnail, thumbnail_side
from bayestriplet.errors import DataError, InputError, InputTypeError
from bayestriplet.model.info import EncoderInfo
from bayestriplet.retrieval.encoder import OnnxEncoder
from bayestriplet.retrieval.indexing import hash_pixels
from bayestriplet.retrieval.items import Vectors


@dataclass(frozen=True, eq=False)
class Queries:
    """Queries as vectors; pixels and hashes only where they were images."""

    names: tuple[str, ...]
    vectors: Vectors
    """(n, D)"""
    hashes: tuple[str, ...] | None = None
    pixels: NDArray[np.uint8] | None = None
    """(n, size, size, C) as the encoder sees them."""
    paths: tuple[Path, ...] | None = None
    looks: NDArray[np.float64] | None = None
    """(n, F) how they look, as the run measures that; rows of NaN where it is unknown."""

    def take(self, rows: Sequence[int]) -> "Queries":
        """Return the names, vectors, hashes and looks of some of them."""
        hashes = None if self.hashes is None else tuple(self.hashes[i] for i in rows)
        looks = None if self.looks is None else self.looks[list(rows)]
        return Queries(tuple(self.names[i] for i in rows), self.vectors[list(rows)], hashes, looks=looks)

    def parts(self, number: int) -> "Iterator[Queries]":
        """Yield the names, vectors, hashes and looks of so many queries at a time."""
        for start in range(0, len(self.names), number):
            part = slice(start, start + number)
            hashes = None if self.hashes is None else self.hashes[part]
            looks = None if self.looks is None else self.looks[part]
            yield Queries(self.names[part], self.vectors[part], hashes, looks=looks)


def read_queries(encoder: OnnxEncoder, given: Any) -> Queries:
    """Return queries from a path or several, an array of vectors (n, D), or uint8 pixels of images."""
    if isinstance(given, str | Path):
        return read_files(encoder, find_files([Path(given)]))
    if is_opened(given):
        given = [given]
    if isinstance(given, np.ndarray):
        return _of_array(encoder, given)
    if not isinstance(given, Sequence) or not given:
        raise InputTypeError("queries must be paths, images (uint8) or vectors (floating point)")
    if all(isinstance(one, str | Path) for one in given):
        return read_files(encoder, find_files(map(Path, given)))
    if all(map(is_opened, given)):
        info = encoder.info
        given = [
            shape_opened(one, info.size, info.channels, bits=info.bits, invert=info.invert) for one in given
        ]
    if all(isinstance(one, np.ndarray) and one.dtype == np.uint8 for one in given):
        return _of_pixels(encoder, given)
    return _of_array(encoder, np.asarray(given))


def find_files(paths: Iterable[Path]) -> list[Path]:
    """Return these files, and instead of a folder all images in it and below, sorted; no hidden ones."""
    files: list[Path] = []
    for path in paths:
        if is_vectors(str(path)):
            raise InputError(f"the run needs images; {path} names vectors")
        if path.is_dir():
            inside = sorted(
                file
                for file in path.rglob("*")
                if file.suffix.lower() in SUFFIXES
                and file.is_file()
                and not any(part.startswith(".") for part in file.relative_to(path).parts)
            )
            if not inside:
                raise DataError(f"{path} holds no images ({', '.join(s[1:] for s in SUFFIXES)})")
            files += inside
        elif path.exists():
            files.append(path)
        else:
            raise DataError(f"{path}: no such file")
    return files


def read_files(encoder: OnnxEncoder, paths: Sequence[Path]) -> Queries:
    """Return the queries that image files are."""
    with warnings.catch_warnings():  # Pillow warns of odd tags in files it decodes well
        warnings.simplefilter("ignore")
        info = encoder.info
        pixels = [
            decode_one(path, info.size, info.channels, bits=info.bits, invert=info.invert) for path in paths
        ]
    return _of_shaped(encoder, tuple(map(str, paths)), np.stack(pixels), tuple(paths))


def _of_array(encoder: OnnxEncoder, values: NDArray[Any]) -> Queries:
    if values.dtype == np.uint8:
        many = values.ndim == 4 or (values.ndim == 3 and values.shape[2] not in (1, 3))
        return _of_pixels(encoder, list(values) if many else [values])
    vectors = np.atleast_2d(values)
    if vectors.ndim != 2 or vectors.shape[1] != encoder.dim or not len(vectors):
        raise InputError(f"vectors must have shape (n, {encoder.dim}); got {values.shape}")
    if not np.issubdtype(vectors.dtype, np.floating) or not np.isfinite(vectors).all():
        raise InputError("vectors must be finite floating-point numbers")
    names = tuple(f"vector {i}" for i in range(len(vectors)))
    return Queries(names, np.ascontiguousarray(vectors, np.float32))


def _of_pixels(encoder: OnnxEncoder, images: Sequence[NDArray[np.uint8]]) -> Queries:
    for one in images:
        if one.ndim not in (2, 3) or (one.ndim == 3 and one.shape[2] not in (1, 3)) or not one.size:
            raise InputError(f"an image must have shape (H, W), (H, W, 1) or (H, W, 3); got {one.shape}")
    if not images:
        raise InputError("queries must hold at least one image")
    pixels = np.stack([shape_pixels(one, encoder.size, encoder.channels) for one in images])
    return _of_shaped(encoder, tuple(f"image {i}" for i in range(len(images))), pixels)


def _of_shaped(
    encoder: OnnxEncoder, names: tuple[str, ...], pixels: NDArray[np.uint8],
    paths: tuple[Path, ...] | None = None,
) -> Queries:  # fmt: skip
    return Queries(names, encoder.encode(pixels), tuple(map(hash_pixels, pixels)), pixels, paths)


def thumbnails_of(read: Queries, info: EncoderInfo) -> tuple[bytes, ...]:
    """Return thumbnails of images, of files with as many pixels as they have; of vectors nothing."""
    if read.pixels is None:
        return (b"",) * len(read.names)
    if read.paths is None or info.size >= LARGEST:
        return tuple(make_thumbnail(one) for one in read.pixels)
    images = (load_image(path, bits=info.bits) for path in read.paths)
    sized = (shape_image(one, thumbnail_side(one, info.size), info.channels) for one in images)
    return tuple(make_thumbnail(exchange(one, info.invert)) for one in sized)
