"""Exact nearest neighbours in blocks, with or without those of the query's own group."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from bayestriplet.data.progress import Progress, report

BLOCK = 4096  # queries a block, at most
BLOCK_CELLS = 2_000_000  # neighbours a block, at most: bounds the memory of long lists


@dataclass(frozen=True)
class OwnGroups:
    """The number of the group of every query (n,) and gallery item (m,); none is negative.

    The two sides have different negative numbers, so that items without a group never match.
    """

    queries: NDArray[np.int64]
    gallery: NDArray[np.int64]

    @classmethod
    def of(cls, queries: NDArray[Any], gallery: NDArray[Any]) -> "OwnGroups":
        """Return the groups of both sides, numbered by their names; an empty name is no group."""
        names = np.unique(np.concatenate([queries, gallery]))
        sides = [np.searchsorted(names, side).astype(np.int64) for side in (queries, gallery)]
        if names.dtype.kind == "U":
            sides[0][queries == ""], sides[1][gallery == ""] = -1, -2
        return cls(*sides)

    def sizes(self) -> NDArray[np.int64]:
        """Return how many gallery items are of each query's group (n,)."""
        counts = np.bincount(self.gallery[self.gallery >= 0], minlength=int(self.queries.max(initial=0)) + 1)
        return np.where(self.queries >= 0, counts[self.queries], 0)


def nearest_neighbours(
    queries: NDArray[np.floating], k: int, gallery: NDArray[np.floating] | None = None
) -> NDArray[np.int64]:
    """Return the rows (n, k) of the gallery nearest to each query, nearest first; -1 where there are no more.

    Without a gallery the queries are looked for among themselves, each without itself.
    """
    out = np.empty((len(queries), k), dtype=np.int64)
    for rows, found in neighbour_blocks(queries, np.full(len(queries), k), gallery):
        out[rows] = found
    return out


def neighbour_blocks(
    queries: NDArray[np.floating],
    wanted: NDArray[np.int64],
    gallery: NDArray[np.floating] | None,
    own: OwnGroups | None = None,
    progress: Progress | None = None,
    what: str = "Searching",
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield the rows (b,) of a block of queries with their neighbours (b, k), nearest first.

    ``wanted`` (n,) says how many neighbours each query needs; k is the most of a block, and -1 stands where
    there are no more or none is needed. With ``own``, items of a query's own group are left out: the search
    is deeper by the size of that group, so that enough others are always found. Queries of a like depth form
    a block, so that one large group does not deepen the search for all.
    """
    among = queries if gallery is None else gallery
    left_out = np.zeros(len(queries), np.int64) if own is None else own.sizes()
    if gallery is None:
        left_out = np.maximum(left_out, 1)  # a query is of its own group
    depths = np.minimum(wanted + left_out, len(among))
    among, center = _centred(among)
    order, start = np.argsort(-depths, kind="stable"), 0
    while start < len(order):
        depth = int(depths[order[start]])
        rows = order[start : start + max(64, min(BLOCK, BLOCK_CELLS // max(1, depth)))]
        _, found = faiss.knn((queries[rows] - center).astype(np.float32), among, depth)
        k = int(wanted[rows].max())
        yield rows, _leave_out(found, _is_own(found, rows, gallery is None, own), k)
        start += len(rows)
        report(progress, what, start, len(order))


def _centred(vectors: NDArray[np.floating]) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Return the vectors less their mean, and the mean.

    FAISS expands |x - y|^2 in float32: centred data keep that exact far from the origin.
    """
    center = vectors.mean(0, dtype=np.float64)
    out = np.empty(vectors.shape, dtype=np.float32)
    for start in range(0, len(vectors), BLOCK):
        out[start : start + BLOCK] = vectors[start : start + BLOCK] - center
    return out, center


def _is_own(
    found: NDArray[np.int64], rows: NDArray[np.int64], among_queries: bool, own: OwnGroups | None
) -> NDArray[np.bool_]:
    """Return which neighbours (b, depth) are the query itself or of its group."""
    is_own = np.zeros(found.shape, dtype=bool)
    if among_queries:
        is_own = found == rows[:, None]
    if own is not None:
        is_own |= own.gallery[found] == own.queries[rows, None]
    return is_own


def _leave_out(found: NDArray[np.int64], is_own: NDArray[np.bool_], k: int) -> NDArray[np.int64]:
    """Return the first k neighbours (b, k) that are not left out; -1 where there are no more.

    Where coinciding items crowded an own one out of the list, one of them falls off its end instead.
    """
    if found.shape[1] == k and not is_own.any():
        return found
    keep = ~is_own
    short = max(0, k - int(keep.sum(1).min(initial=k)))
    if short:
        found = np.pad(found, ((0, 0), (0, short)), constant_values=-1)
        keep = np.pad(keep, ((0, 0), (0, short)), constant_values=True)
    keep &= keep.cumsum(1, dtype=np.int32) <= k
    return found[keep].reshape(len(found), k)
