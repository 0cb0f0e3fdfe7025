"""Statistics of many classes along common axes, and how they are read to predict. NumPy alone."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayestriplet.runs.students import Floats, RowStudents

RANK = 8
KAPPA = 0.01  # items that the prior's mean counts for, as in (5) and (13)


@dataclass(frozen=True)
class RowStatistics:
    """Count, mean and scatter of P classes, the scatter as its diagonal and eight leading rows.

    The axes are those of the pooled within-class scatter, along which the prior of eq. (13) is a
    diagonal. Count, mean and diagonal are exact; of the rest of a scatter the eight directions
    with most of its mass are kept (docs/method.md, eq. 8a).
    """

    axes: Floats  # (D, D)
    count: Floats  # (P,)
    mean: Floats  # (P, D) along the axes
    diagonal: Floats  # (P, D) of the scatters
    factor: Floats  # (P, R, D)

    @classmethod
    def of(cls, vectors: NDArray[np.float32], labels: NDArray[np.int64], classes: int) -> "RowStatistics":
        """Return the statistics of items (n, D) with labels 0 .. P - 1, each with an item."""
        order = np.argsort(labels, kind="stable")
        ends = np.cumsum(np.bincount(labels, minlength=classes))[:-1]
        parts = [vectors[rows].astype(np.float64) for rows in np.split(order, ends)]
        means = np.stack([part.mean(0) for part in parts])
        residuals = [part - mean for part, mean in zip(parts, means, strict=True)]
        pooled = sum(part.T @ part for part in residuals)
        axes = np.linalg.eigh(pooled)[1]
        turned = [part @ axes for part in residuals]
        return cls(
            axes=axes,
            count=np.array([float(len(part)) for part in parts]),
            mean=means @ axes,
            diagonal=np.stack([np.square(part).sum(0) for part in turned]),
            factor=np.stack([leading_rows(part, RANK) for part in turned]),
        )

    def read(self, memory: float, weight: float, floor: float) -> RowStudents:
        """Return the predictive distributions of eq. (7) with the prior of eq. (13)."""
        total = self.count.sum()
        pooled = self.diagonal.sum(0) / total  # (D,)
        level = pooled.mean() + np.finfo(np.float64).eps ** 2
        return self.students(self.count @ self.mean / total, pooled + floor * level, weight, memory)

    def students(
        self, center: Floats, expected: Floats, weight: float | Floats, memory: float
    ) -> RowStudents:  # fmt: skip
        """Return the predictive distributions (7) with a prior of this mean (D,), along the axes.

        It expects variances (D,) or (P, D), and counts for ``weight`` items, one number or (P,).
        """
        keep = np.minimum(1.0, memory / self.count)
        count, weights = self.count * keep, np.broadcast_to(weight, keep.shape)
        kappa, freedom = KAPPA + count, weights + 2 + count  # nu_n - D + 1
        shift = self.mean - center
        cross = shift * np.sqrt(KAPPA * count / kappa)[:, None]
        remainder = np.maximum(self.diagonal - np.square(self.factor).sum(1), 0.0)
        return RowStudents(
            axes=self.axes,
            center=center + shift * (count / kappa)[:, None],
            variance=weights[:, None] * expected + keep[:, None] * remainder,
            rows=np.concatenate([self.factor * np.sqrt(keep)[:, None, None], cross[:, None]], 1),
            spread=(1 + 1 / kappa) / freedom,
            freedom=freedom,
        )


def leading_rows(rows: Floats, rank: int) -> Floats:
    """Return U (rank, D) with the leading directions of rows (n, D), scaled: U^T U is nearest to rows^T rows.

    Fewer rows than ``rank`` are filled up with zeros.
    """
    if len(rows) > rank:
        vectors = np.linalg.eigh(rows @ rows.T)[1]  # ascending
        rows = vectors[:, -rank:].T @ rows
    return np.concatenate([rows, np.zeros((rank - len(rows), rows.shape[1]))])
