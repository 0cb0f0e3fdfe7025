"""Count, mean and scatter of classes, merged and taken apart again, and read to predict. NumPy alone."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayestriplet.runs.row_statistics import KAPPA
from bayestriplet.runs.students import Floats, FullStudents, peaks

SLACK = 1e-6  # of a scatter's trace, that rounding may leave below 0


@dataclass(frozen=True)
class Prior:
    """What is expected of a class before its items are seen (docs/method.md, eq. 13)."""

    mean: Floats  # (D,)
    covariance: Floats  # (D, D) expected of a class
    weight: float  # items that it counts for
    kappa: float = KAPPA

    def wider(self, times: float, weight: float) -> "Prior":
        """Return the prior of classes so many times as wide, that counts for another number of items."""
        return Prior(self.mean, times * self.covariance, weight, self.kappa)


@dataclass(frozen=True)
class Statistics:
    """The sufficient statistics (docs/method.md, eq. 1) of P classes in D dimensions, in float64."""

    count: Floats  # (P,)
    mean: Floats  # (P, D)
    scatter: Floats  # (P, D, D)

    @classmethod
    def zeros(cls, classes: int, dim: int) -> "Statistics":
        """Return the statistics of no items."""
        return cls(np.zeros(classes), np.zeros((classes, dim)), np.zeros((classes, dim, dim)))

    @classmethod
    def of(cls, vectors: NDArray[np.floating], labels: NDArray[np.int64], classes: int) -> "Statistics":
        """Return the statistics of items (n, D) with labels 0 .. P - 1."""
        found = cls.zeros(classes, vectors.shape[1])
        for k in np.unique(labels):
            items = vectors[labels == k].astype(np.float64)
            found.count[k], found.mean[k] = len(items), items.mean(0)
            shift = items - found.mean[k]
            found.scatter[k] = shift.T @ shift
        return found

    def take(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> "Statistics":
        """Return some of the classes."""
        return Statistics(self.count[rows], self.mean[rows], self.scatter[rows])

    def plus(self, other: "Statistics") -> "Statistics":
        """Return the statistics of both sets of items together (eq. 2)."""
        count = self.count + other.count
        share = np.divide(other.count, count, out=np.zeros_like(count), where=count > 0)
        gap = other.mean - self.mean
        cross = (self.count * share)[:, None, None] * gap[:, :, None] * gap[:, None]
        mean = self.mean + share[:, None] * gap
        return Statistics(count, mean, self.scatter + other.scatter + cross)

    def minus(self, other: "Statistics") -> "Statistics":
        """Return the statistics without some of the items, which undoes ``plus`` up to rounding (eq. 2a).

        A class that would have fewer items than none, or a negative variance, never had these: ValueError.
        """
        count = self.count - other.count
        left = count > 0
        mean = np.zeros_like(self.mean)
        total = self.count[left, None] * self.mean[left] - other.count[left, None] * other.mean[left]
        mean[left] = total / count[left, None]
        gap = other.mean - mean
        share = np.divide(count * other.count, self.count, out=np.zeros_like(count), where=left)
        scatter = self.scatter - other.scatter - share[:, None, None] * gap[:, :, None] * gap[:, None]
        slack = SLACK * (1 + self.scatter.trace(axis1=1, axis2=2))
        if (count < 0).any() or (scatter.diagonal(axis1=1, axis2=2).min(1, initial=0.0) < -slack).any():
            raise ValueError("these items are not among those that the statistics are of")
        scatter[~left] = 0.0
        return Statistics(count, mean, scatter)

    def pooled_prior(self, weight: float, floor: float) -> Prior:
        """Return the prior that expects every class to be as wide as the classes are together (eq. 13)."""
        total = self.count.sum()
        pooled = self.scatter.sum(0) / total  # (D, D)
        level = pooled.trace() / len(pooled) + np.finfo(np.float64).eps ** 2
        return Prior(self.count @ self.mean / total, pooled + floor * level * np.eye(len(pooled)), weight)

    def read(self, memory: float, weight: float, floor: float) -> FullStudents:
        """Return the predictive distributions of eq. (7) with the prior of eq. (13)."""
        return self.students(self.pooled_prior(weight, floor), memory)

    def students(self, prior: Prior, memory: float) -> FullStudents:
        """Return the predictive distributions (eq. 7) of classes that count for ``memory`` at most."""
        dim = self.mean.shape[1]
        keep = np.minimum(1.0, memory / np.maximum(self.count, 1e-300))
        count = self.count * keep
        kappa, freedom = prior.kappa + count, prior.weight + 2 + count  # nu_n - D + 1
        shift = self.mean - prior.mean
        cross = np.sqrt(prior.kappa * count / kappa)[:, None] * shift
        scale = prior.weight * prior.covariance + keep[:, None, None] * self.scatter
        scale = scale + cross[:, :, None] * cross[:, None]
        factor = _roots(scale * ((1 + 1 / kappa) / freedom)[:, None, None])
        log_volume = np.log(factor.diagonal(axis1=1, axis2=2)).sum(1)
        identity = np.broadcast_to(np.eye(dim), factor.shape)
        return FullStudents(
            mean=prior.mean + (count / kappa)[:, None] * shift,
            whitening=np.asarray(np.linalg.solve(factor, identity), np.float64),
            log_normaliser=peaks(log_volume, freedom, dim),
            freedom=freedom,
        )


def _roots(matrices: Floats) -> Floats:
    """Return lower Cholesky factors (P, D, D); eigenvalues that rounding made negative are lifted."""
    try:
        return np.asarray(np.linalg.cholesky(matrices), np.float64)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(matrices)
        least = values[:, -1:] * matrices.shape[1] * np.finfo(np.float64).eps
        lifted = (vectors * np.maximum(values, least)[:, None]) @ vectors.transpose(0, 2, 1)
        return np.asarray(np.linalg.cholesky(lifted), np.float64)
