"""Images of any kind as vectors, a part at a time."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bayestriplet.data.progress import Progress, report
from bayestriplet.errors import InputTypeError
from bayestriplet.retrieval.encoder import OnnxEncoder
from bayestriplet.retrieval.items import Vectors
from bayestriplet.retrieval.live import look_at
from bayestriplet.retrieval.queries import find_files, read_files, read_queries
from bayestriplet.retrieval.vector_queries import encode_vectors
from bayestriplet.runs.predictive import Predictive
from bayestriplet.runs.students import Floats

PART = 256  # images that are held decoded at a time


def encode_images(encoder: OnnxEncoder, given: Any, progress: Progress | None = None) -> Vectors:
    """Return the vectors (N, D) of a path, a folder, several of them, uint8 pixels, or Pillow images.

    For an encoder that takes vectors: of vectors:FILE, several of them, or an array (N, F).
    """
    return encode_and_look(encoder, given, None, progress)[0]


def encode_and_look(
    encoder: OnnxEncoder, given: Any, predictive: Predictive | None, progress: Progress | None = None
) -> tuple[Vectors, Floats | None]:
    """Return vectors (N, D), and how the images look (N, F) where a predictive knows."""
    if encoder.info.inputs:
        return encode_vectors(encoder, given), None
    files = _files_of(given)
    if files is None:
        queries = read_queries(encoder, given)
        if queries.pixels is None:
            raise InputTypeError("images must be paths, uint8 arrays or Pillow images; got vectors")
        return queries.vectors, look_at(predictive, queries.pixels)
    looks = []
    vectors = np.empty((len(files), encoder.dim), np.float32)
    for start in range(0, len(files), PART):
        part = slice(start, start + PART)
        read = read_files(encoder, files[part])
        vectors[part] = read.vectors
        if (seen := look_at(predictive, read.pixels)) is not None:
            looks.append(seen)
        report(progress, "Encoding", min(start + PART, len(files)), len(files))
    return vectors, np.concatenate(looks) if looks else None


def _files_of(given: Any) -> list[Path] | None:
    """Return the files that paths and folders name; None where it is not paths that are given."""
    if isinstance(given, str | Path):
        return find_files([Path(given)])
    is_list = isinstance(given, Sequence) and len(given) > 0
    if is_list and all(isinstance(one, str | Path) for one in given):
        return find_files(map(Path, given))
    return None
