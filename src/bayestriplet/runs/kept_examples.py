"""A few of the taught examples themselves: a sample that does not depend on their order. NumPy alone."""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_KEPT = 50  # examples of a class
SLACK = 1e-4  # relative distance within which a vector is taken for the same


@dataclass(frozen=True, eq=False)
class KeptExamples:
    """Up to 50 examples of every class, those whose bytes have the smallest hash, ordered by it."""

    vectors: NDArray[np.float32]  # (S, D)
    rows: NDArray[np.int64]  # (S,) of their classes

    @classmethod
    def nothing(cls, dim: int) -> "KeptExamples":
        """Return no examples."""
        return cls(np.empty((0, dim), np.float32), np.empty(0, np.int64))

    @classmethod
    def of(cls, vectors: NDArray[np.floating], rows: NDArray[np.int64]) -> "KeptExamples":
        """Return the sample of examples (n, D) of classes (n,)."""
        x = np.ascontiguousarray(vectors, np.float32)
        keys = [hashlib.blake2b(one.tobytes(), digest_size=8).digest() for one in x]
        order = np.array(sorted(range(len(x)), key=lambda i: (rows[i], keys[i])), np.int64)
        own = rows[order]
        rank = np.arange(len(own)) - np.searchsorted(own, own)  # within the class
        kept = order[rank < MOST_KEPT]
        return cls(x[kept], rows[kept])

    def joined(self, other: "KeptExamples") -> "KeptExamples":
        """Return the sample of what this and another are samples of."""
        if not len(other.rows):
            return self
        return KeptExamples.of(
            np.concatenate([self.vectors, other.vectors]), np.concatenate([self.rows, other.rows])
        )

    def minus(self, vectors: NDArray[np.floating], rows: NDArray[np.int64]) -> "KeptExamples":
        """Return this without some examples (n, D); those that it does not hold are left out already."""
        kept = np.ones(len(self.rows), bool)
        for x, row in zip(vectors.astype(np.float64), rows, strict=True):
            own = np.flatnonzero(kept & (self.rows == row))
            if len(own):
                distance = np.square(self.vectors[own] - x).sum(1)
                nearest = distance.argmin()
                kept[own[nearest]] = distance[nearest] > SLACK**2 * (1e-12 + np.square(x).sum())
        return self.take(kept)

    def take(self, rows: NDArray[Any]) -> "KeptExamples":
        """Return some of them."""
        return KeptExamples(self.vectors[rows], self.rows[rows])

    def renumbered(self, numbers: NDArray[np.int64]) -> "KeptExamples":
        """Return those of the classes that have a new number, which is not below 0."""
        rows = numbers[self.rows]
        return KeptExamples.of(self.vectors[rows >= 0], rows[rows >= 0])

    @property
    def single(self) -> NDArray[np.bool_]:
        """Which of them (S,) have no double, which would stay where one of the two is left out."""
        found = np.unique(self.vectors, axis=0, return_inverse=True, return_counts=True)
        return np.asarray(found[2][found[1].reshape(-1)] == 1, bool)
