"""A few of the taught examples themselves: a sample that does not depend on their order. NumPy alone."""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_ASKED, MOST_KEPT = 50, 100  # examples of a class
SLACK = 1e-4  # relative distance within which a vector is taken for the same


@dataclass(frozen=True, eq=False)
class KeptExamples:
    """Up to 100 examples of every class, those whose bytes have the smallest hash, ordered by it.

    The first 50 are asked. The others are a reserve: they move up when some of these are undone, so
    that undoing up to 50 examples leaves those asked that were before.
    """

    vectors: NDArray[np.float32]  # (S, D)
    rows: NDArray[np.int64]  # (S,) of their classes

    @classmethod
    def nothing(cls, dim: int) -> "KeptExamples":
        """Return no examples."""
        return cls(np.empty((0, dim), np.float32), np.empty(0, np.int64))

    @classmethod
    def of(cls, vectors: NDArray[np.floating], rows: NDArray[np.int64]) -> "KeptExamples":
        """Return the sample of examples (n, D) of classes (n,)."""
        return cls(np.ascontiguousarray(vectors, np.float32), rows)._ordered()

    @cached_property
    def keys(self) -> NDArray[np.uint64]:
        """The hashes (S,) of their bytes."""
        digests = (hashlib.blake2b(one.tobytes(), digest_size=8).digest() for one in self.vectors)
        return np.frombuffer(b"".join(digests), ">u8").astype(np.uint64)

    @property
    def asked(self) -> "KeptExamples":
        """Those that say how new classes are read: the first 50 of every class."""
        return self.take(self._rank < MOST_ASKED)

    def joined(self, other: "KeptExamples") -> "KeptExamples":
        """Return the sample of what this and another are samples of."""
        if not len(other.rows):
            return self
        both = (self, other)
        found = KeptExamples(
            np.concatenate([one.vectors for one in both]), np.concatenate([one.rows for one in both])
        )
        return found._with_keys(np.concatenate([one.keys for one in both]))._ordered()

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
        return KeptExamples(self.vectors[rows], self.rows[rows])._with_keys(self.keys[rows])

    def renumbered(self, numbers: NDArray[np.int64]) -> "KeptExamples":
        """Return those of the classes that have a new number, which is not below 0."""
        rows = numbers[self.rows]
        found = KeptExamples(self.vectors, rows)._with_keys(self.keys)
        return found.take(rows >= 0)._ordered()

    @property
    def single(self) -> NDArray[np.bool_]:
        """Which of them (S,) have no double, which would stay where one of the two is left out."""
        found = np.unique(self.vectors, axis=0, return_inverse=True, return_counts=True)
        return np.asarray(found[2][found[1].reshape(-1)] == 1, bool)

    @property
    def _rank(self) -> NDArray[np.int64]:
        """The place of each (S,) within its class."""
        return np.arange(len(self.rows)) - np.searchsorted(self.rows, self.rows)

    def _ordered(self) -> "KeptExamples":
        """Return them by class and hash, up to so many of each class."""
        found = self.take(np.lexsort((self.keys, self.rows)))
        return found.take(found._rank < MOST_KEPT)

    def _with_keys(self, keys: NDArray[np.uint64]) -> "KeptExamples":
        """Return this, whose hashes are known already."""
        self.__dict__["keys"] = keys
        return self
