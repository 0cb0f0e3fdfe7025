"""How the pictures of each class look: what tells a digit that a network takes for another. NumPy alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayestriplet.runs.statistics import Prior, Statistics
from bayestriplet.runs.students import Floats, FullStudents, RowStudents

CLIP = 6.0  # standard deviations at which a measure is cut
RIDGE = 0.01  # added to the variances
WEIGHT, KAPPA = 100.0, 1.0  # pictures that the classes together count for, in covariance and mean
MOST_FULL = 32  # classes up to which each has a covariance of its own
FREEDOM = 10.0  # where all have the same
PREFIX = "class_looks_"


@dataclass(frozen=True, eq=False)
class ClassLooks:
    """Count and mean of the measures of every trained class's pictures, and their scatter (eq. 22a)."""

    columns: NDArray[np.int64]  # (P,) of the classes
    count: Floats  # (P,)
    mean: Floats  # (P, F)
    scatter: Floats  # (P, F, F), or (1, F, F) of all together

    @classmethod
    def of(cls, described: Floats, labels: NDArray[np.int64]) -> "ClassLooks":
        """Return the looks of the classes of pictures with these measures (n, F) and labels (n,)."""
        columns, rows = np.unique(labels, return_inverse=True)
        x = np.clip(described, -CLIP, CLIP)
        if len(columns) <= MOST_FULL:
            found = Statistics.of(x, rows, len(columns))
            return cls(columns, found.count, found.mean, _as_kept(found.scatter))
        count = np.bincount(rows).astype(np.float64)
        mean = np.zeros((len(columns), x.shape[1]))
        np.add.at(mean, rows, x)
        mean /= count[:, None]
        residual = x - mean[rows]
        return cls(columns, count, mean, _as_kept((residual.T @ residual)[None]))

    @classmethod
    def read(cls, tensors: Mapping[str, NDArray[Any]]) -> "ClassLooks | None":
        """Return what :meth:`tensors` gave, None where a file keeps nothing of it."""
        if PREFIX + "columns" not in tensors:
            return None
        columns, count, mean, scatter = (
            tensors[PREFIX + name] for name in ("columns", "count", "mean", "scatter")
        )
        length = mean.shape[1]
        if scatter.shape[0] not in (1, len(columns)) or scatter.shape[1:] != (length, length):
            raise ValueError("the looks of classes do not belong together")
        return cls(columns.astype(np.int64), *(one.astype(np.float64) for one in (count, mean, scatter)))

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return what a file keeps of it."""
        found: dict[str, NDArray[Any]] = {"columns": self.columns, "count": self.count, "mean": self.mean}
        found["scatter"] = self.scatter.astype(np.float32)
        return {PREFIX + name: value for name, value in found.items()}

    @cached_property
    def students(self) -> FullStudents | RowStudents:
        """The predictive distributions (7) of the classes."""
        total = self.count.sum()
        grand = self.count @ self.mean / total
        left = max(total - len(self.count), 1.0)
        within = self.scatter.sum(0) / left + RIDGE * np.eye(len(grand))
        if len(self.scatter) == len(self.count):
            statistics = Statistics(self.count, self.mean, self.scatter)
            return statistics.students(Prior(grand, within, WEIGHT, KAPPA), np.inf)
        values, axes = np.linalg.eigh(within)
        kappa, classes = KAPPA + self.count, len(self.count)
        center = grand + (self.count / kappa)[:, None] * (self.mean - grand)
        return RowStudents(
            axes=axes,
            center=center @ axes,
            variance=np.tile((FREEDOM - 2) * values, (classes, 1)),
            rows=np.zeros((classes, 0, len(values))),
            spread=(1 + 1 / kappa) / FREEDOM,
            freedom=np.full(classes, FREEDOM),
        )

    def log_density(self, described: Floats) -> Floats:
        """Return the log densities (n, P) of pictures with these measures (n, F)."""
        return self.students.log_density(np.clip(described, -CLIP, CLIP), np.arange(len(self.columns)))


def _as_kept(scatter: Floats) -> Floats:
    """Return scatters as a file keeps them, in single precision."""
    return scatter.astype(np.float32).astype(np.float64)
