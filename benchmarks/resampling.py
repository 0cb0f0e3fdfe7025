"""Intervals and p-values that resample test classes and seeds together, and Holm's correction."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 2000
SEED = 73690

Table = NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """A figure with its 95% interval."""

    value: float
    low: float
    high: float

    @property
    def is_clear(self) -> bool:
        """Whether the interval leaves out 0."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class Estimate(Interval):
    """The same by percentiles of resamples, with the two-sided p-value of the figure's being 0."""

    p: float


def recalls(hits: dict[str, Table], sizes: Table) -> dict[str, float]:
    """Return Recall@1 in percent of every method, given hits (S, C) by seed and class of ``sizes`` (C,)."""
    return {name: float(100 * table.sum(1).mean() / sizes.sum()) for name, table in hits.items()}


def resampled_recalls(hits: dict[str, Table], sizes: Table, resamples: int = RESAMPLES) -> dict[str, Table]:
    """Return Recall@1 in percent (R,) of every method in resamples of the classes and of the seeds.

    A resample draws C classes and S seeds with replacement; all methods see the same ones.
    """
    rng = np.random.default_rng(SEED)
    seeds, classes = next(iter(hits.values())).shape
    of_classes = _counts(rng, resamples, classes)  # (R, C)
    of_seeds = _counts(rng, resamples, seeds)  # (R, S)
    items = seeds * (of_classes @ sizes)  # (R,)
    return {name: 100 * ((of_classes @ table.T) * of_seeds).sum(1) / items for name, table in hits.items()}


def estimate(value: float, resampled: Table) -> Estimate:
    """Return a figure with the interval and the p-value of its resamples (R,)."""
    low, high = np.percentile(resampled, [2.5, 97.5])
    beyond = min((resampled <= 0).sum(), (resampled >= 0).sum())
    p = min(1.0, 2 * (1 + float(beyond)) / (1 + len(resampled)))
    return Estimate(value, float(low), float(high), p)


def holm(chances: list[float]) -> list[float]:
    """Return p-values corrected by Holm's method for there being several."""
    order = np.argsort(chances)
    corrected = np.maximum.accumulate(np.sort(chances) * np.arange(len(chances), 0, -1)).clip(max=1.0)
    return [float(corrected[place]) for place in np.argsort(order)]


def in_words(p: float) -> str:
    """Return a p-value as a table shows it."""
    return f"{p:.3f}" if p >= 0.001 else "<0.001"


def _counts(rng: np.random.Generator, resamples: int, number: int) -> Table:
    """Return how often each of a number of units is drawn (R, number)."""
    drawn = rng.integers(0, number, (resamples, number))
    return np.stack([np.bincount(one, minlength=number) for one in drawn]).astype(np.float64)
