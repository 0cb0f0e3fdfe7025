"""The order of training: batches of a whole training, from a seed alone."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from bayestriplet.errors import DataError

Rows = NDArray[np.int64]
ITEMS_WITH_MANY_CLASSES = 4
MANY_ITEMS = 32  # in a batch
CLASSES_AT_A_TIME = 2


class Batches(ABC):
    """A stream of batches as lists of indices, for a DataLoader.

    The order of epoch e depends on the seed and e only, so a training can go on at any step:
    ``start`` is the first step to come. Over several ranks every batch is dealt out.
    """

    def __init__(
        self,
        labels: Rows,
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
        self.wanted, self.number = batch_size, len(labels)
        self.seed, self.start, self.rank, self.world = seed, start, rank, world
        self._prepare()
        self._epoch = lru_cache(maxsize=2)(
            lambda epoch: self.make_epoch(np.random.default_rng([seed, epoch]))
        )
        self.batches_per_epoch = len(self._epoch(0))
        self.steps = self.batches_per_epoch if steps is None else steps

    def _prepare(self) -> None:  # noqa: B027 - most kinds need nothing
        """Set what the epochs are made with."""

    @abstractmethod
    def make_epoch(self, rng: np.random.Generator) -> list[Rows]:
        """Return the batches of an epoch."""

    def batch(self, step: int) -> Rows:
        """Return the batch of a step, over all ranks."""
        epoch, number = divmod(step, self.batches_per_epoch)
        return self._epoch(epoch)[number]

    def __len__(self) -> int:
        """All steps of the training, also those before ``start``."""
        return self.steps

    def __iter__(self) -> Iterator[list[int]]:
        for step in range(self.start, self.steps):
            yield self.share(step).tolist()

    def share(self, step: int) -> Rows:
        """Return this rank's part of the batch of a step."""
        return self.batch(step)[self.rank :: self.world]


class BalancedBatches(Batches):
    """The same number of items of every class in a batch, and every item in every epoch.

    With at most half as many classes as items in a batch, a batch holds n' = ceil(b / c) items of
    each of the c classes, and an epoch is as long as the largest class needs; smaller classes
    start again. With more classes, a batch holds n' = 4 items (2 in batches below 32, so that there
    are more than a few classes) of each of ceil(b / n') classes, and an epoch lasts until every item
    was there.
    """

    def _prepare(self) -> None:
        few = self.wanted >= 2 * len(self.members)
        self.items = math.ceil(self.wanted / len(self.members)) if few else _items_a_class(self.wanted)
        self.classes = len(self.members) if few else max(2, math.ceil(self.wanted / self.items))

    def share(self, step: int) -> Rows:
        """Deal items of every class to every rank where each gets two; else whole classes, in turns."""
        table = self.batch(step).reshape(self.classes, self.items)
        if self.items >= 2 * self.world:
            turn = np.arange(self.items) + np.arange(self.classes)[:, None]  # turns keep the parts even
            return table[turn % self.world == self.rank]
        return table[(self.rank + step) % self.world :: self.world].flatten()

    @property
    def batch_size(self) -> int:
        """Items in a batch over all ranks."""
        return self.items * self.classes

    def make_epoch(self, rng: np.random.Generator) -> list[Rows]:
        chunks = [self._chunks(rows, rng) for rows in self.members]
        number = max(len(of_class) for of_class in chunks)
        if self.classes < len(self.members):
            return self._deal(chunks, rng)
        for of_class, rows in zip(chunks, self.members, strict=True):
            while len(of_class) < number:  # a smaller class begins again, in a new order
                of_class += self._chunks(rows, rng)
        return [np.concatenate([of_class[i] for of_class in chunks]) for i in range(number)]

    def _chunks(self, rows: Rows, rng: np.random.Generator) -> list[Rows]:
        """Cut the shuffled rows of a class into chunks of n', the last one filled up from the others."""
        shuffled = rng.permutation(rows)
        missing = -len(rows) % self.items
        filled = np.concatenate([shuffled, rng.choice(rows, missing)]) if missing else shuffled
        return list(filled.reshape(-1, self.items))

    def _deal(self, chunks: list[list[Rows]], rng: np.random.Generator) -> list[Rows]:
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


class OnePerClassBatches(BalancedBatches):
    """One item of every class in a batch: no two of them match."""

    def _prepare(self) -> None:
        self.items, self.classes = 1, len(self.members)


class RandomBatches(Batches):
    """Items as they come, in a new order every epoch; the last batch is filled up."""

    def make_epoch(self, rng: np.random.Generator) -> list[Rows]:
        order = rng.permutation(self.number)
        missing = -self.number % self.wanted
        return list(np.concatenate([order, rng.choice(self.number, missing)]).reshape(-1, self.wanted))


class SequentialBatches(Batches):
    """Two classes at a time, one pair after the other over the whole training; none comes back."""

    def _prepare(self) -> None:
        pairs = np.array_split(np.arange(len(self.members)), max(1, len(self.members) // CLASSES_AT_A_TIME))
        self.streams = []
        for pair in pairs:
            rows = np.concatenate([self.members[k] for k in pair])
            labels = np.repeat(pair, [len(self.members[k]) for k in pair])
            self.streams.append((rows, BalancedBatches(labels, self.wanted, seed=self.seed)))

    def make_epoch(self, rng: np.random.Generator) -> list[Rows]:
        del rng
        return [rows[stream.batch(i)] for rows, stream in self.streams for i in range(len(stream))]

    def batch(self, step: int) -> Rows:
        rows, stream = self.streams[min(step * len(self.streams) // self.steps, len(self.streams) - 1)]
        return rows[stream.batch(step)]


KINDS: dict[str, type[Batches]] = {
    "balanced": BalancedBatches,
    "random": RandomBatches,
    "one-per-class": OnePerClassBatches,
    "sequential": SequentialBatches,
}


def _items_a_class(batch_size: int) -> int:
    return ITEMS_WITH_MANY_CLASSES if batch_size >= MANY_ITEMS else 2
