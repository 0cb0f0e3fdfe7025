"""Measures of retrieval by exact nearest neighbours."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayestriplet.checks import check_whole
from bayestriplet.data.progress import Progress
from bayestriplet.errors import InputError
from bayestriplet.evaluation.arrays import check_groups, check_names, check_set
from bayestriplet.evaluation.bootstrap import Scores, bootstrap
from bayestriplet.evaluation.neighbours import OwnGroups, neighbour_blocks


def recall_at_k(
    embeddings: ArrayLike,
    labels: ArrayLike,
    ks: Iterable[int] = (1, 4, 8, 16),
    *,
    gallery: ArrayLike | None = None,
    gallery_labels: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    gallery_groups: ArrayLike | None = None,
) -> dict[int, float]:
    """Return, for every k, the share of items with one of their own class among the k nearest others.

    An item is never its own neighbour, also where others coincide with it. An item alone in
    its class is a miss. With a ``gallery`` neighbours are looked for there, and nothing is
    left out. Distances are Euclidean; arrays and tensors (n, D) and (n,) are taken alike.

    With ``groups`` (n,), such as patients, items of the query's own group are no neighbours; a gallery has
    ``gallery_groups`` (m,). Names or numbers are taken; an empty name is no group, and such an item leaves
    out only itself. Queries whose class is in no other group are dropped: the share is of the others.

    >>> recall_at_k([[0.0], [0.1], [1.0], [1.1]], [0, 0, 1, 1], ks=(1,))
    {1: 1.0}
    >>> recall_at_k([[0.0], [0.1], [0.2], [1.0]], [0, 0, 1, 0], ks=(1, 2), groups=["a", "a", "b", "b"])
    {1: 0.3333333333333333, 2: 1.0}
    """
    asked = _check(embeddings, labels, ks, gallery, gallery_labels, groups, gallery_groups)
    wanted = np.full(len(asked.queries), max(asked.sizes))
    first = np.empty(len(wanted), dtype=np.int64)  # rank of the first hit
    for rows, near in neighbour_blocks(asked.queries, wanted, asked.gallery, asked.own):
        hit = asked.hits(rows, near)
        first[rows] = np.where(hit.any(1), hit.argmax(1), near.shape[1])
    kept = asked.kept()
    return {k: float((first[kept] < k).mean()) for k in asked.sizes}


def retrieval_scores(
    embeddings: ArrayLike,
    labels: ArrayLike,
    ks: Iterable[int] = (1, 4, 8, 16),
    *,
    gallery: ArrayLike | None = None,
    gallery_labels: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    gallery_groups: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    what: str = "Searching",
) -> Scores:
    """Return Recall@k, R-precision and MAP@R with 95% bootstrap intervals.

    R is the number of gallery items of the query's class, itself left out, and with ``groups`` those
    of its group too. R-precision is the share of that class among the R nearest; MAP@R the mean over the
    first R ranks of the precision up to a rank where that rank is a hit, and 0 where not (Musgrave et al.
    2020). A query without a match in the gallery scores 0; with groups it is dropped. Conventions and
    arguments are those of recall_at_k.

    The intervals resample the queries of a cluster (n,) together: the groups where there are any and
    ``clusters`` names nothing else, and single queries where there are none.
    """
    asked = _check(embeddings, labels, ks, gallery, gallery_labels, groups, gallery_groups)
    units = check_names(groups if clusters is None else clusters, len(asked.queries), "clusters")
    values = _measure(asked, progress, what)
    kept = asked.kept()
    return bootstrap(
        {name: value[kept] for name, value in values.items()}, seed, None if units is None else units[kept]
    )


def count_matches(
    labels: NDArray[np.int64], gallery_labels: NDArray[np.int64], own: OwnGroups | None, among_queries: bool
) -> NDArray[np.int64]:
    """Return the R (n,) of every query: gallery items of its class, without itself and its own group's."""
    known, class_of = np.unique(gallery_labels, return_inverse=True)
    row = np.minimum(np.searchsorted(known, labels), len(known) - 1)
    is_known = known[row] == labels
    matches = np.where(is_known, np.bincount(class_of)[row], 0)
    if own is None:
        return matches - among_queries
    inside = np.zeros(len(labels), dtype=np.int64)  # (n,) items of the query's class in its group
    in_group, grouped = own.gallery >= 0, own.queries >= 0
    pairs, counts = np.unique(own.gallery[in_group] * len(known) + class_of[in_group], return_counts=True)
    if len(pairs):
        key = own.queries * len(known) + row
        place = np.minimum(np.searchsorted(pairs, key), len(pairs) - 1)
        inside = np.where(grouped & is_known & (pairs[place] == key), counts[place], 0)
    return matches - np.where(grouped, inside, among_queries)


@dataclass(frozen=True)
class _Asked:
    """What is measured, checked; the gallery is None where it is the queries themselves."""

    sizes: list[int]
    queries: NDArray[Any]
    labels: NDArray[np.int64]
    gallery: NDArray[Any] | None
    gallery_labels: NDArray[np.int64]
    own: OwnGroups | None

    def matches(self) -> NDArray[np.int64]:
        """Return the R (n,) of every query."""
        return count_matches(self.labels, self.gallery_labels, self.own, self.gallery is None)

    def kept(self) -> NDArray[np.bool_]:
        """Return which queries (n,) are measured: all, or with groups those that have a match."""
        if self.own is None:
            return np.ones(len(self.queries), dtype=bool)
        kept = self.matches() > 0
        if not kept.any():
            raise InputError("groups leave no query with an item of its class in another group")
        return kept

    def hits(self, rows: NDArray[np.int64], near: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which neighbours (b, k) of some queries are of the query's class."""
        return (self.gallery_labels[near] == self.labels[rows, None]) & (near >= 0)


def _measure(asked: _Asked, progress: Progress | None, what: str) -> dict[str, NDArray[np.float64]]:
    """Return every measure (n,) of every query."""
    number, matches = len(asked.queries), asked.matches()
    names = (*(f"recall@{k}" for k in asked.sizes), "r-precision", "map@r")
    values = {name: np.zeros(number) for name in names}
    wanted = np.maximum(matches, max(asked.sizes))
    for rows, near in neighbour_blocks(asked.queries, wanted, asked.gallery, asked.own, progress, what):
        hit = asked.hits(rows, near)  # (b, depth)
        for k in asked.sizes:
            values[f"recall@{k}"][rows] = hit[:, :k].any(1)
        within = hit & (np.arange(near.shape[1]) < matches[rows, None])
        count = np.maximum(matches[rows], 1)
        values["r-precision"][rows] = within.sum(1) / count
        precision = within.cumsum(1) / np.arange(1, near.shape[1] + 1)
        values["map@r"][rows] = (precision * within).sum(1) / count
    return values


def _check(
    embeddings: ArrayLike, labels: ArrayLike, ks: Iterable[int], gallery: ArrayLike | None,
    gallery_labels: ArrayLike | None, groups: ArrayLike | None, gallery_groups: ArrayLike | None,
) -> _Asked:  # fmt: skip
    """Return what is measured, or raise the error of an argument that does not suit."""
    sizes = sorted({check_whole("ks", k, 1) for k in ks})
    if not sizes:
        raise InputError("ks must hold at least one number")
    queries, query_labels = check_set(embeddings, labels, "embeddings", "labels")
    if (gallery is None) != (gallery_labels is None):
        raise InputError("gallery and gallery_labels must be given together")
    if gallery is None or gallery_labels is None:
        own = check_groups(groups, gallery_groups, len(queries), None)
        return _Asked(sizes, queries, query_labels, None, query_labels, own)
    others, other_labels = check_set(gallery, gallery_labels, "gallery", "gallery_labels")
    if others.shape[1] != queries.shape[1]:
        raise InputError(
            f"gallery must have {queries.shape[1]} columns, like embeddings; got {others.shape[1]}"
        )
    own = check_groups(groups, gallery_groups, len(queries), len(others))
    return _Asked(sizes, queries, query_labels, others, other_labels, own)
