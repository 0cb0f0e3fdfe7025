"""What can be asked about where items are vectors: a file of them, one of its rows, an array, or an item."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayestriplet.checks import is_vectors
from bayestriplet.data.dataset import LabelledImages
from bayestriplet.errors import InputError, InputTypeError
from bayestriplet.retrieval.encoder import OnnxEncoder
from bayestriplet.retrieval.indexing import hash_pixels
from bayestriplet.retrieval.items import Vectors
from bayestriplet.retrieval.opening import open_set
from bayestriplet.retrieval.queries import Queries
from bayestriplet.retrieval.store import Store


def read_vector_queries(encoder: OnnxEncoder, given: Any, store: Store | None = None) -> Queries:
    """Return queries from vectors:FILE, vectors:FILE#ROW, vectors:FILE#ID, ids of a store, or an array.

    An array (n, F) is encoded. One of embeddings (n, D) is taken as it is, where D is another number than F.
    """
    if isinstance(given, str | Path):
        return _of_text(encoder, str(given), store)
    if isinstance(given, Sequence) and given and all(isinstance(one, str | Path) for one in given):
        return _join([_of_text(encoder, str(one), store) for one in given])
    try:
        values = np.atleast_2d(np.asarray(given))
    except ValueError:
        raise InputTypeError("vectors must all have one length") from None
    if values.dtype.kind != "f" or not values.size:
        raise InputTypeError(
            f"the run needs {encoder.info.needs}; got {values.dtype} of shape {values.shape}"
        )
    names = tuple(f"vector {i}" for i in range(len(values)))
    if values.ndim == 2 and values.shape[1] == encoder.dim != encoder.info.inputs:
        if not np.isfinite(values).all():
            raise InputError("vectors must be finite numbers; got NaN or infinite ones")
        return Queries(names, np.ascontiguousarray(values, np.float32))
    return _encoded(encoder, names, values)


def encode_vectors(encoder: OnnxEncoder, given: Any) -> Vectors:
    """Return the embeddings (N, D) of vectors:FILE, of several of them, or of an array (N, F)."""
    one = given[0] if isinstance(given, Sequence) and given else given
    if isinstance(one, str | Path):
        return read_vector_queries(encoder, given).vectors
    return encoder.encode(np.atleast_2d(np.asarray(given)))


def _of_text(encoder: OnnxEncoder, text: str, store: Store | None) -> Queries:
    if not is_vectors(text):
        return _of_item(encoder, text, store)
    data, _, row = text.partition("#") if not Path(text.partition(":")[2]).exists() else (text, "", "")
    images = open_set(encoder, data)
    rows = np.array([_find_row(images, data, row)]) if row else np.arange(len(images))
    return _encoded(encoder, tuple(images.ids[i] for i in rows), images.read(rows))


def _find_row(images: LabelledImages, data: str, wanted: str) -> int:
    """Return the position of an item by its id, else by its number."""
    if wanted in images.ids:
        return images.ids.index(wanted)
    if wanted.isdecimal() and int(wanted) < len(images):
        return int(wanted)
    raise InputError(f"{data} has no vector {wanted!r}: name an id, or a row of 0 to {len(images) - 1}")


def _of_item(encoder: OnnxEncoder, name: str, store: Store | None) -> Queries:
    """Return an item of the index as a query."""
    found = {} if store is None else store.find([name])
    if name not in found:
        what = "" if store is None else ", or the id of an indexed item"
        raise InputError(f"the run needs {encoder.info.needs}: give vectors:FILE{what}; got {name!r}")
    one = found[name]
    return Queries((name,), np.asarray(one.vector, np.float32)[None], (one.item.hash,))


def _encoded(encoder: OnnxEncoder, names: tuple[str, ...], values: NDArray[Any]) -> Queries:
    vectors = encoder.encode(values)
    return Queries(names, vectors, tuple(hash_pixels(one) for one in np.asarray(values, np.float32)))


def _join(parts: Sequence[Queries]) -> Queries:
    names = tuple(name for part in parts for name in part.names)
    hashes = tuple(one for part in parts for one in part.hashes or ())
    return Queries(names, np.concatenate([part.vectors for part in parts]), hashes)
