"""Recall@k by exact nearest neighbours, in blocks."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayestriplet.errors import InputError, InputTypeError, MissingDependencyError
from bayestriplet.options import check_whole

BLOCK = 4096  # queries a block: neighbour lists are small, so this bounds FAISS's own buffers


def recall_at_k(
    embeddings: ArrayLike,
    labels: ArrayLike,
    ks: Iterable[int] = (1, 4, 8, 16),
    *,
    gallery: ArrayLike | None = None,
    gallery_labels: ArrayLike | None = None,
) -> dict[int, float]:
    """Return, for every k, the share of items with one of their own class among the k nearest others.

    An item is never its own neighbour, also where others coincide with it. An item alone in
    its class is a miss. With a ``gallery`` neighbours are looked for there, and nothing is
    left out. Distances are Euclidean; arrays and tensors (n, D) and (n,) are taken alike.

    >>> recall_at_k([[0.0], [0.1], [1.0], [1.1]], [0, 0, 1, 1], ks=(1,))
    {1: 1.0}
    """
    sizes = sorted({check_whole("ks", k, 1) for k in ks})
    if not sizes:
        raise InputError("ks must hold at least one number")
    queries, query_labels = check_set(embeddings, labels, "embeddings", "labels")
    if (gallery is None) != (gallery_labels is None):
        raise InputError("gallery and gallery_labels must be given together")
    others = None
    if gallery is not None and gallery_labels is not None:
        others, other_labels = check_set(gallery, gallery_labels, "gallery", "gallery_labels")
        if others.shape[1] != queries.shape[1]:
            raise InputError(
                f"gallery must have {queries.shape[1]} columns, like embeddings; got {others.shape[1]}"
            )
    else:
        other_labels = query_labels
    neighbours = nearest_neighbours(queries, max(sizes), others)  # (n, k)
    hit = (other_labels[neighbours] == query_labels[:, None]) & (neighbours >= 0)
    first = np.where(hit.any(1), hit.argmax(1), neighbours.shape[1])  # rank of the first hit
    return {k: float((first < k).mean()) for k in sizes}


def nearest_neighbours(
    queries: NDArray[np.float32], k: int, gallery: NDArray[np.float32] | None = None
) -> NDArray[np.int64]:
    """Return the rows (n, k) of the gallery nearest to each query, nearest first; -1 where there are no more.

    Without a gallery the queries are looked for among themselves, each without itself.
    """
    faiss = _import_faiss()
    among = queries if gallery is None else gallery
    wanted = min(k + (gallery is None), len(among))
    # FAISS expands |x - y|^2 in float32: centred data keep that exact far from the origin.
    center = among.mean(0, dtype=np.float64)
    among = (among - center).astype(np.float32)
    out = np.full((len(queries), k), -1, dtype=np.int64)
    for start in range(0, len(queries), BLOCK):
        block = (queries[start : start + BLOCK] - center).astype(np.float32)
        _, found = faiss.knn(block, among, wanted)
        if gallery is None:
            found = _without_self(found, np.arange(start, start + len(block)))
        out[start : start + len(block), : found.shape[1]] = found[:, :k]
    return out


def _without_self(found: NDArray[np.int64], own: NDArray[np.int64]) -> NDArray[np.int64]:
    """Drop each row's own number, or its last entry where coinciding items crowded the own one out."""
    is_own = found == own[:, None]
    is_own[~is_own.any(1), -1] = True
    return found[~is_own].reshape(len(found), found.shape[1] - 1)


def check_set(
    embeddings: ArrayLike, labels: ArrayLike, name: str, labels_name: str
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return embeddings (n, D) and labels (n,) as arrays, checked."""
    vectors, classes = _to_array(embeddings), _to_array(labels)
    if vectors.ndim != 2 or not len(vectors) or not vectors.shape[1]:
        raise InputError(f"{name} must have shape (n, D) with n and D above 0; got {vectors.shape}")
    if not np.issubdtype(vectors.dtype, np.floating):
        raise InputTypeError(f"{name} must be floating point; got {vectors.dtype}")
    if not np.isfinite(vectors).all():
        raise InputError(f"{name} must be finite; got NaN or infinity")
    if classes.shape != vectors.shape[:1]:
        raise InputError(
            f"{labels_name} must have shape ({len(vectors)},), one per embedding; got {classes.shape}"
        )
    if not np.issubdtype(classes.dtype, np.integer):
        raise InputTypeError(f"{labels_name} must be integers; got {classes.dtype}")
    return vectors, classes.astype(np.int64)


def _to_array(values: Any) -> NDArray[Any]:
    """Return an array of what may be a tensor: on a device, in half precision, or with a gradient."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        if values.is_floating_point() and values.element_size() < 4:
            values = values.float()
    return np.asarray(values)


def _import_faiss() -> Any:
    try:
        import faiss
    except ImportError as error:
        raise MissingDependencyError("recall_at_k needs FAISS: pip install 'bayestriplet[train]'") from error
    return faiss
