"""Multivariate t distributions, one per class, and the log densities of vectors in them. NumPy alone."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

BLOCK_CELLS = 4_000_000  # numbers a block of whitened vectors may hold

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class FullStudents:
    """Each class with a scale matrix of its own, as its whitening W: distance = |W (x - mean)|^2."""

    mean: Floats  # (K, D)
    whitening: Floats  # (K, D, D)
    log_normaliser: Floats  # (K,)
    freedom: Floats  # (K,)

    @property
    def dim(self) -> int:
        """D, the length of a vector."""
        return self.mean.shape[1]

    def shapes(self, number: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes that the arrays of so many classes must have."""
        dim = self.mean.shape[-1]
        whole = (number, dim, dim)
        return {"mean": (number, dim), "whitening": whole, "log_normaliser": (number,), "freedom": (number,)}

    @property
    def peak(self) -> Floats:
        """The log densities (K,) at the means."""
        return self.log_normaliser

    @property
    def entropy(self) -> Floats:
        """The differential entropies (K,) (docs/method.md, eq. 19)."""
        return entropies(self.log_normaliser, self.freedom, self.dim)

    def log_density(self, x: Floats, classes: NDArray[np.int64]) -> Floats:
        """Return the log densities (N, P) of vectors (N, D) in some of the classes (P,)."""
        rows, dim = max(1, BLOCK_CELLS // self.mean.size), self.mean.shape[1]
        out = np.empty((len(x), len(classes)))
        for start in range(0, len(x), rows):
            part = slice(start, start + rows)
            for place, k in enumerate(classes):
                white = (x[part] - self.mean[k]) @ self.whitening[k].T  # (b, D)
                distance = np.square(white).sum(1)
                decay = (self.freedom[k] + dim) / 2 * np.log1p(distance / self.freedom[k])
                out[part, place] = self.log_normaliser[k] - decay
        return out


@dataclass(frozen=True)
class RowStudents:
    """Scale matrices that are a diagonal and a few rows along common axes: spread (d + F^T F).

    No D x D matrix per class is formed: by the matrix inversion lemma, with C = I + F d^-1 F^T, the
    inverse is d^-1 - d^-1 F^T C^-1 F d^-1 and the determinant |C| times the product of d. So many
    vectors are compared with many classes by three matrix products.
    """

    axes: Floats  # (D, D), orthogonal: a vector's coordinates are x axes
    center: Floats  # (K, D) the means, along the axes
    variance: Floats  # d, (K, D)
    rows: Floats  # F, (K, R, D)
    spread: Floats  # (K,)
    freedom: Floats  # (K,)

    @property
    def dim(self) -> int:
        """D, the length of a vector."""
        return len(self.axes)

    def shapes(self, number: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes that the arrays of so many classes must have."""
        dim, rank = self.center.shape[-1], self.rows.shape[1] if self.rows.ndim == 3 else 0
        per_class = {"center": (dim,), "variance": (dim,), "rows": (rank, dim), "spread": (), "freedom": ()}
        return {"axes": (dim, dim)} | {name: (number, *shape) for name, shape in per_class.items()}

    @property
    def peak(self) -> Floats:
        """The log densities (K,) at the means."""
        return self._log_normaliser

    @property
    def entropy(self) -> Floats:
        """The differential entropies (K,)."""
        return entropies(self._log_normaliser, self.freedom, self.dim)

    def log_density(self, x: Floats, classes: NDArray[np.int64]) -> Floats:
        """Return the log densities (N, P) of vectors (N, D) in some of the classes (P,)."""
        number, rank, dim = self.rows.shape
        z = x @ self.axes
        out = np.empty((len(x), len(classes)))
        together = max(1, BLOCK_CELLS // max(1, number * (rank + 1)))
        for start in range(0, len(z), together):
            part = slice(start, start + together)
            distance = self._distances(z[part])[:, classes] / self.spread[classes]
            decay = (self.freedom[classes] + dim) / 2 * np.log1p(distance / self.freedom[classes])
            out[part] = self._log_normaliser[classes] - decay
        return out

    def _distances(self, z: Floats) -> Floats:
        """Return (z - m)^T (d + F^T F)^-1 (z - m), (N, K)."""
        number, rank, dim = self.rows.shape
        weighted, lengths = self._weighted
        plain = np.square(z) @ self._precision.T - 2 * z @ weighted.T + lengths  # (N, K)
        if not rank:
            return np.maximum(plain, 0.0)
        inside = (z @ self._inside.reshape(number * rank, dim).T).reshape(len(z), number, rank)
        inside -= self._center_inside
        return np.maximum(plain - np.square(inside).sum(2), 0.0)

    @cached_property
    def _precision(self) -> Floats:
        return 1 / self.variance

    @cached_property
    def _weighted(self) -> tuple[Floats, Floats]:
        """m^T d^-1 (K, D) and m^T d^-1 m (K,)."""
        weighted = self.center * self._precision
        return weighted, (self.center * weighted).sum(1)

    @cached_property
    def _center_inside(self) -> Floats:
        """G m (K, R)."""
        return np.asarray(np.einsum("krd,kd->kr", self._inside, self.center), np.float64)

    @cached_property
    def _capacity(self) -> Floats:
        """The lower Cholesky factors (K, R, R) of I + F d^-1 F^T."""
        white = self.rows / np.sqrt(self.variance)[:, None]
        capacity = white @ white.transpose(0, 2, 1) + np.eye(self.rows.shape[1])
        return np.asarray(np.linalg.cholesky(capacity), np.float64)

    @cached_property
    def _inside(self) -> Floats:
        """G (K, R, D) with |G (z - m)|^2 what the rows take off the distance."""
        return np.asarray(np.linalg.solve(self._capacity, self.rows * self._precision[:, None]), np.float64)

    @cached_property
    def _log_normaliser(self) -> Floats:
        """The log densities (K,) at the means."""
        dim = self.rows.shape[2]
        diagonal = self._capacity.diagonal(axis1=1, axis2=2)
        log_volume = np.log(self.variance).sum(1) / 2 + np.log(diagonal).sum(1)
        return peaks(log_volume + dim / 2 * np.log(self.spread), self.freedom, dim)


def peaks(log_volume: Floats, freedom: Floats, dim: int) -> Floats:
    """Return the log densities (K,) of t distributions at their means, given log |scale|^(1/2) (K,)."""
    tail = np.array([math.lgamma((nu + dim) / 2) - math.lgamma(nu / 2) for nu in freedom])
    return tail - dim / 2 * np.log(freedom * np.pi) - log_volume


def entropies(log_normaliser: Floats, freedom: Floats, dim: int) -> Floats:
    """Return the differential entropies (K,) of t distributions with these log densities at their means."""
    tail = np.array([digamma((nu + dim) / 2) - digamma(nu / 2) for nu in freedom])
    return (freedom + dim) / 2 * tail - log_normaliser


def digamma(x: float) -> float:
    """Return the derivative of log gamma at x > 0: by its recurrence up to 10, there by Stirling's series."""
    low = 0.0
    while x < 10:
        low, x = low - 1 / x, x + 1
    inverse = 1 / x**2
    series = 0.0
    for factor in (1 / 132, 1 / 240, 1 / 252, 1 / 120, 1 / 12):
        series = inverse * (factor - series)
    return low + math.log(x) - 1 / (2 * x) - series
