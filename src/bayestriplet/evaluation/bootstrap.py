"""Means with 95% bootstrap intervals: over single queries, or over whole groups or classes of them."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 1000
BLOCK_CELLS = 2_000_000  # counts of resampled clusters held at a time


@dataclass(frozen=True)
class Score:
    """A mean over queries, with the interval that 95% of the bootstrap's means lie in."""

    value: float
    low: float
    high: float


Scores = dict[str, Score]


def bootstrap(
    values: dict[str, NDArray[np.float64]], seed: int, clusters: NDArray[Any] | None = None
) -> dict[str, Score]:
    """Return the mean of each measure (n,) over queries, with its 95% percentile interval.

    Queries of one cluster (n,), such as those of one patient, are drawn together: clusters are drawn with
    replacement, as many as there are. An empty name is a cluster of its own. Without clusters every query is.
    """
    table = np.stack(list(values.values()))  # (measures, n)
    number_of = np.arange(table.shape[1]) if clusters is None else number_clusters(clusters)  # (n,)
    sizes = np.bincount(number_of).astype(np.float64)  # (clusters,)
    sums = np.stack([np.bincount(number_of, row).astype(np.float64) for row in table])  # (measures, clusters)
    means = _resampled_means(sums, sizes, np.random.default_rng(seed))
    low, high = np.percentile(means, [2.5, 97.5], axis=0)
    return {
        name: Score(float(value.mean()), float(a), float(b))
        for name, value, a, b in zip(values, table, low, high, strict=True)
    }


def _resampled_means(
    sums: NDArray[np.float64], sizes: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return the means (resamples, measures): every measure sees the same resampled clusters."""
    number, means = len(sizes), []
    block = max(1, BLOCK_CELLS // number)
    for start in range(0, RESAMPLES, block):
        drawn = [rng.integers(0, number, number) for _ in range(min(block, RESAMPLES - start))]
        counts = np.stack([np.bincount(one, minlength=number) for one in drawn]).astype(np.float64)
        means.append(counts @ sums.T / (counts @ sizes)[:, None])
    return np.concatenate(means)


def number_clusters(names: NDArray[Any]) -> NDArray[np.int64]:
    """Return the number (n,) of each item's cluster, from 0 on; an item whose name is empty has its own."""
    known, numbers = np.unique(names, return_inverse=True)
    numbers = numbers.astype(np.int64)
    if names.dtype.kind == "U":
        alone = np.flatnonzero(names == "")
        numbers[alone] = len(known) + np.arange(len(alone))
        _, numbers = np.unique(numbers, return_inverse=True)
    return numbers.astype(np.int64)


def scores_to_json(rows: dict[str, Scores]) -> dict[str, Any]:
    """Return the scores of every row as plain numbers."""
    return {name: {key: asdict(score) for key, score in scores.items()} for name, scores in rows.items()}


def scores_from_json(rows: dict[str, Any]) -> dict[str, Scores]:
    """Return the scores that :func:`scores_to_json` wrote."""
    return {name: {key: Score(**score) for key, score in row.items()} for name, row in rows.items()}
