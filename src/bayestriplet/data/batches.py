"""The order of training: class-balanced batches in which every item comes up in every epoch."""

import math
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from bayestriplet.errors import DataError

ITEMS_WITH_MANY_CLASSES = 4


class BalancedBatches:
    """The batches of a whole training, as lists of indices, from a seed alone.

    With at most half as many classes as items in a batch, a batch holds n' = ceil(b / c) items of
    each of the c classes, and an epoch is as long as the largest class needs; smaller classes
    start again. With more classes, a batch holds 4 items (2 in batches below 8) of each of
    b / 4 classes, and an epoch lasts until every item was there.

    The order of epoch e depends on the seed and e only, so a training can go on at any step.
    Over several ranks every batch is dealt out, like cards.
    """

    def __init__(
        self,
        labels: NDArray[np.int64],
        batch_size: int,
        steps: int | None = None,
        *,
        seed: int = 0,
        start: int = 0,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        self.members = [np.flatnonzero(labels == k) for k in np.unique(labels)]  # rows of each class
        if len(self.members) < 2:
            raise DataError(f"training needs items of at least 2 classes; got {len(self.members)}")
        few = batch_size >= 2 * len(self.members)
        self.items = math.ceil(batch_size / len(self.members)) if few else _items_a_class(batch_size)
        self.classes = len(self.members) if few else max(2, batch_size // self.items)
        self.seed, self.start, self.rank, self.world = seed, start, rank, world
        self._epoch = lru_cache(maxsize=2)(self._make_epoch)
        self.batches_per_epoch = len(self._epoch(0))
        self.steps = self.batches_per_epoch if steps is None else steps

    @property
    def batch_size(self) -> int:
        """Items in a batch over all ranks."""
        return self.items * self.classes

    def __len__(self) -> int:
        """All steps of the training, also those before ``start``."""
        return self.steps

    def __iter__(self) -> Iterator[list[int]]:
        for step in range(self.start, self.steps):
            epoch, place = divmod(step, self.batches_per_epoch)
            yield self._epoch(epoch)[place][self.rank :: self.world].tolist()

    def _make_epoch(self, epoch: int) -> list[NDArray[np.int64]]:
        rng = np.random.default_rng([self.seed, epoch])
        chunks = [self._chunks(rows, rng) for rows in self.members]
        number = max(len(of_class) for of_class in chunks)
        if self.classes == len(self.members):
            chunks = [
                self._stretched(of_class, rows, number, rng)
                for of_class, rows in zip(chunks, self.members, strict=True)
            ]
            return [np.concatenate([of_class[i] for of_class in chunks]) for i in range(number)]
        return self._deal(chunks, rng)

    def _chunks(self, rows: NDArray[np.int64], rng: np.random.Generator) -> list[NDArray[np.int64]]:
        """Cut the shuffled rows of a class into chunks of n', the last one filled up from the others."""
        shuffled = rng.permutation(rows)
        missing = -len(rows) % self.items
        filled = np.concatenate([shuffled, rng.choice(rows, missing)]) if missing else shuffled
        return list(filled.reshape(-1, self.items))

    def _stretched(
        self, chunks: list[NDArray[np.int64]], rows: NDArray[np.int64], number: int, rng: np.random.Generator
    ) -> list[NDArray[np.int64]]:
        """Go through a smaller class again, in new orders, until it has as many chunks as the largest."""
        while len(chunks) < number:
            chunks = chunks + self._chunks(rows, rng)
        return chunks[:number]

    def _deal(
        self, chunks: list[list[NDArray[np.int64]]], rng: np.random.Generator
    ) -> list[NDArray[np.int64]]:
        """Fill batches with chunks of distinct classes, those with the most left over first."""
        left = np.array([len(of_class) for of_class in chunks])
        batches = []
        while left.any():
            order = np.lexsort((rng.random(len(left)), -left))[: self.classes]  # most left, ties at random
            for k in order[left[order] == 0]:  # fewer classes left than a batch needs: begin some again
                chunks[k] = self._chunks(self.members[k], rng)
            batches.append(np.concatenate([chunks[k][left[k] - 1 if left[k] else 0] for k in order]))
            left[order] = np.maximum(left[order] - 1, 0)
        return batches


def _items_a_class(batch_size: int) -> int:
    return ITEMS_WITH_MANY_CLASSES if batch_size >= 2 * ITEMS_WITH_MANY_CLASSES else 2
