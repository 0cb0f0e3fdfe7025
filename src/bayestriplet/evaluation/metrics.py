"""Measures of retrieval by exact nearest neighbours, in blocks."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import faiss
import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayestriplet.checks import check_whole
from bayestriplet.errors import InputError, InputTypeError

BLOCK = 4096  # queries a block, at most
BLOCK_CELLS = 2_000_000  # neighbours a block, at most: bounds the memory of long lists


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
    sizes, queries, query_labels, others, other_labels = _check_retrieval(
        embeddings, labels, ks, gallery, gallery_labels
    )
    neighbours = nearest_neighbours(queries, max(sizes), others)  # (n, k)
    hit = (other_labels[neighbours] == query_labels[:, None]) & (neighbours >= 0)
    first = np.where(hit.any(1), hit.argmax(1), neighbours.shape[1])  # rank of the first hit
    return {k: float((first < k).mean()) for k in sizes}


@dataclass(frozen=True)
class Score:
    """A mean over queries, with the interval that 95% of the bootstrap's means lie in."""

    value: float
    low: float
    high: float


Scores = dict[str, Score]


def retrieval_scores(
    embeddings: ArrayLike,
    labels: ArrayLike,
    ks: Iterable[int] = (1, 4, 8, 16),
    *,
    gallery: ArrayLike | None = None,
    gallery_labels: ArrayLike | None = None,
    seed: int = 0,
) -> Scores:
    """Return Recall@k, R-precision and MAP@R with 95% bootstrap intervals over the queries.

    R is the number of gallery items of the query's class, itself left out. R-precision is the
    share of that class among the R nearest; MAP@R the mean over the first R ranks of the precision
    up to a rank where that rank is a hit, and 0 where not (Musgrave et al. 2020). A query
    without a match in the gallery scores 0. Conventions and arguments are those of recall_at_k.
    """
    sizes, queries, query_labels, others, other_labels = _check_retrieval(
        embeddings, labels, ks, gallery, gallery_labels
    )
    known, counts = np.unique(other_labels, return_counts=True)
    row = np.minimum(np.searchsorted(known, query_labels), len(known) - 1)
    matches = np.where(known[row] == query_labels, counts[row], 0)
    matches = matches - (others is None)  # (n,) R of every query
    values = {f"recall@{k}": np.zeros(len(queries)) for k in sizes}
    values |= {"r-precision": np.zeros(len(queries)), "map@r": np.zeros(len(queries))}
    depth = max(max(sizes), int(matches.max()))
    for rows, neighbours in _neighbour_blocks(queries, depth, others):
        hit = (other_labels[neighbours] == query_labels[rows, None]) & (neighbours >= 0)  # (b, depth)
        for k in sizes:
            values[f"recall@{k}"][rows] = hit[:, :k].any(1)
        within = hit & (np.arange(depth) < matches[rows, None])
        number = np.maximum(matches[rows], 1)
        values["r-precision"][rows] = within.sum(1) / number
        precision = within.cumsum(1) / np.arange(1, depth + 1)
        values["map@r"][rows] = (precision * within).sum(1) / number
    return bootstrap(values, seed)


def scores_to_json(rows: dict[str, Scores]) -> dict[str, Any]:
    """Return the scores of every row as plain numbers."""
    return {name: {key: asdict(score) for key, score in scores.items()} for name, scores in rows.items()}


def scores_from_json(rows: dict[str, Any]) -> dict[str, Scores]:
    """Return the scores that :func:`scores_to_json` wrote."""
    return {name: {key: Score(**score) for key, score in row.items()} for name, row in rows.items()}


def bootstrap(values: dict[str, NDArray[np.float64]], seed: int, resamples: int = 1000) -> dict[str, Score]:
    """Return the mean of each measure (n,) over queries, with its 95% percentile interval."""
    rng = np.random.default_rng(seed)
    table = np.stack(list(values.values()))  # (measures, n)
    number = table.shape[1]
    means = np.stack(
        [table[:, rng.integers(0, number, number)].mean(1) for _ in range(resamples)]
    )  # (resamples, measures): every measure sees the same resampled queries
    low, high = np.percentile(means, [2.5, 97.5], axis=0)
    return {
        name: Score(float(value.mean()), float(a), float(b))
        for name, value, a, b in zip(values, table, low, high, strict=True)
    }


def nearest_neighbours(
    queries: NDArray[np.floating], k: int, gallery: NDArray[np.floating] | None = None
) -> NDArray[np.int64]:
    """Return the rows (n, k) of the gallery nearest to each query, nearest first; -1 where there are no more.

    Without a gallery the queries are looked for among themselves, each without itself.
    """
    return np.concatenate([found for _, found in _neighbour_blocks(queries, k, gallery)])


def _neighbour_blocks(
    queries: NDArray[np.floating], k: int, gallery: NDArray[np.floating] | None
) -> Iterator[tuple[slice, NDArray[np.int64]]]:
    """Yield the rows of a block of queries with their neighbours (b, k)."""
    among = queries if gallery is None else gallery
    wanted = min(k + (gallery is None), len(among))
    # FAISS expands |x - y|^2 in float32: centred data keep that exact far from the origin.
    center = among.mean(0, dtype=np.float64)
    among = (among - center).astype(np.float32)
    block_size = max(64, min(BLOCK, BLOCK_CELLS // wanted))
    for start in range(0, len(queries), block_size):
        rows = slice(start, min(start + block_size, len(queries)))
        block = (queries[rows] - center).astype(np.float32)
        _, found = faiss.knn(block, among, wanted)
        if gallery is None:
            found = _without_self(found, np.arange(rows.start, rows.stop))
        padding = ((0, 0), (0, max(0, k - found.shape[1])))
        yield rows, np.pad(found[:, :k], padding, constant_values=-1)


def _without_self(found: NDArray[np.int64], own: NDArray[np.int64]) -> NDArray[np.int64]:
    """Drop each row's own number, or its last entry where coinciding items crowded the own one out."""
    is_own = found == own[:, None]
    is_own[~is_own.any(1), -1] = True
    return found[~is_own].reshape(len(found), found.shape[1] - 1)


def _check_retrieval(
    embeddings: ArrayLike,
    labels: ArrayLike,
    ks: Iterable[int],
    gallery: ArrayLike | None,
    gallery_labels: ArrayLike | None,
) -> tuple[list[int], NDArray[Any], NDArray[np.int64], NDArray[Any] | None, NDArray[np.int64]]:
    """Return the sizes, queries and their labels, and the gallery (None: the queries) and its labels."""
    sizes = sorted({check_whole("ks", k, 1) for k in ks})
    if not sizes:
        raise InputError("ks must hold at least one number")
    queries, query_labels = check_set(embeddings, labels, "embeddings", "labels")
    if (gallery is None) != (gallery_labels is None):
        raise InputError("gallery and gallery_labels must be given together")
    if gallery is None or gallery_labels is None:
        return sizes, queries, query_labels, None, query_labels
    others, other_labels = check_set(gallery, gallery_labels, "gallery", "gallery_labels")
    if others.shape[1] != queries.shape[1]:
        raise InputError(
            f"gallery must have {queries.shape[1]} columns, like embeddings; got {others.shape[1]}"
        )
    return sizes, queries, query_labels, others, other_labels


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
