"""Sufficient statistics of every class, and the one operation that combines them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bayestriplet.posterior.chosen import Chosen, put_, take
from bayestriplet.posterior.compensated import add_rows_, sum_of
from bayestriplet.posterior.grouping import Grouping, group_rows
from bayestriplet.posterior.host import kind_of, read, send
from bayestriplet.posterior.latest import Latest

LEAST_COUNT = 1e-30  # the same where a count is kept in float32
AT_ONCE = 64  # items of a class that are added by one matrix of their weights
TINY = torch.finfo(torch.float64).tiny  # keeps 0 / 0 of a class without items at 0


@dataclass(frozen=True)
class Addition:
    """What a batch did to the scatters of its classes: L <- keep (L + rows^T rows)."""

    chosen: Chosen  # (P,) ascending
    size: NDArray[np.int64]  # (P,) items of each
    rows: Tensor  # (P, n, D), zeros behind the items of a class
    keep: NDArray[np.float64]  # (P,) at most 1
    total: NDArray[np.float64]  # (P,) the counts before forgetting

    @property
    def count(self) -> NDArray[np.float64]:
        """The counts (P,) after forgetting."""
        return self.total * self.keep

    @property
    def factor(self) -> Tensor:
        """What is kept, (P,), as the rows are."""
        return send(self.rows, self.keep.astype(kind_of(self.rows)))[0]


@dataclass(frozen=True)
class ClassStatistics:
    """Count, mean and scatter of the items of K classes in D dimensions (docs/method.md, eq. 1).

    The scatter is the sum of (x - m)(x - m)^T over a class's items. A class without items
    has count, mean and scatter 0. Counts are float64, since forgetting makes them fractional.

    >>> statistics = bt.ClassStatistics.from_items(embeddings, labels, num_classes=2)
    >>> statistics.count.tolist(), statistics.mean.tolist()
    ([2.0, 2.0], [[0.0, 2.0], [5.0, 0.0]])
    >>> statistics.scatter[0]
    tensor([[0.0000, 0.0000],
            [0.0000, 2.0000]])
    """

    count: Tensor  # (K,)
    mean: Tensor  # (K, D)
    scatter: Tensor  # (K, D, D)

    @classmethod
    def zeros(cls, num_classes: int, dim: int, like: Tensor) -> "ClassStatistics":
        """Return the statistics of no items, in the dtype and on the device of ``like``.

        >>> bt.ClassStatistics.zeros(2, 3, like=embeddings).scatter.shape
        torch.Size([2, 3, 3])
        """
        count = torch.zeros(num_classes, dtype=torch.float64, device=like.device)
        return cls(count, like.new_zeros(num_classes, dim), like.new_zeros(num_classes, dim, dim))

    @classmethod
    def from_items(cls, embeddings: Tensor, labels: Tensor, num_classes: int) -> "ClassStatistics":
        """Compute the statistics of items (B, D) with labels (B,) in 0 .. num_classes - 1.

        >>> bt.ClassStatistics.from_items(embeddings, labels, num_classes=2).mean
        tensor([[0., 2.],
                [5., 0.]])
        """
        statistics = cls.zeros(num_classes, embeddings.shape[1], like=embeddings)
        statistics.add_items_(embeddings, labels)
        return statistics

    def add_items_(self, embeddings: Tensor, labels: Tensor, memory: float | None = None) -> Addition:
        """Add items (B, D) with labels (B,), in place, and return what changed.

        The result is that of a merge with the items' statistics (docs/method.md, eq. 2), after
        which no count exceeds ``memory`` (eq. 3).

        >>> statistics = bt.ClassStatistics.zeros(2, 2, like=embeddings)
        >>> added = statistics.add_items_(embeddings, labels)
        >>> statistics.count.tolist(), added.rows.shape
        ([2.0, 2.0], torch.Size([2, 2, 2]))
        """
        groups = group_rows(read(labels)[0], like=labels)
        classes = groups.chosen.classes
        addition = add_to_means_(read(take(self.count, classes))[0], self.mean, embeddings, groups, memory)
        put_(self.count, classes, *send(self.count, addition.count))
        add_to_scatters_(self.scatter, addition)
        return addition

    def forget(self, memory: float) -> "ClassStatistics":
        """Return a copy in which no class counts for more than ``memory`` items (docs/method.md, eq. 3).

        >>> posterior.statistics.forget(memory=1.0).count.tolist()
        [1.0, 1.0, 0.0]
        """
        keep = memory / self.count.clamp_min(memory)  # (K,), at most 1
        scatter = self.scatter * keep.to(self.scatter.dtype)[:, None, None]
        return ClassStatistics(self.count * keep, self.mean, scatter)

    def rows(self, classes: Tensor) -> "ClassStatistics":
        """Return the statistics of ascending ``classes`` (P,): a copy, unless that is all of them.

        >>> posterior.statistics.rows(torch.tensor([1])).mean
        tensor([[5., 0.]])
        """
        if len(classes) == len(self.count):
            return self
        return ClassStatistics(self.count[classes], self.mean[classes], self.scatter[classes])


def row_weights(
    before: NDArray[np.float64], size: NDArray[np.int64], width: int, like: Tensor
) -> NDArray[Any]:
    """Return A (P, n + 1, n), as ``like``: A times the items' shifts (P, n, D) are rows and the mean's move.

    One row per item, as if the items came one after the other: sqrt(n / (n + 1)) (x - m), with n
    and m as they are before x (docs/method.md, eq. 2). Slots behind the ``size`` items have weight 0.
    """
    key = before.tobytes(), size.tobytes(), width, like.dtype
    return _weights.get(key, lambda: _row_weights(before, size, width).astype(kind_of(like)))


_weights: Latest[NDArray[Any]] = Latest()  # with a memory too, counts are soon the same in every step


def _row_weights(before: NDArray[np.float64], size: NDArray[np.int64], width: int) -> NDArray[np.float64]:
    slot = np.arange(width)
    there = slot < size[:, None]  # (P, n)
    count = before[:, None] + slot  # (P, n) items before each
    weights = np.empty((len(before), width + 1, width))
    weights[:, :-1] = np.eye(width) - np.tri(width, k=-1) / np.maximum(count, LEAST_COUNT)[:, :, None]
    weights[:, :-1] *= (np.sqrt(count / (count + 1)) * there)[:, :, None]
    weights[:, -1] = there / (before + size)[:, None]
    return weights


def add_to_means_(
    old: NDArray[np.float64], mean: Tensor, items: Tensor, groups: Grouping, memory: float | None,
    rest: Tensor | None = None,
) -> Addition:  # fmt: skip
    """Add items (B, D) of classes with old counts (P,) to means (K, D), in place.

    Return what counts and scatters have to add. All is computed relative to the old mean, or to the
    first item of a class without one, so data far from the origin stay exact. With a ``rest`` (K, D) the
    means are ``mean + rest``, and do not drift.
    """
    count, classes, parts = old, groups.chosen.classes, []
    base = take(mean, classes)  # (P, D)
    left = None if rest is None else take(rest, classes)  # (P, D)
    whole = groups.spread(items)
    for start in range(0, groups.width, AT_ONCE):
        table = whole[:, start : start + AT_ONCE] if groups.width > AT_ONCE else whole  # (P, n, D)
        size = np.clip(groups.size - start, 0, table.shape[1]) if groups.width > AT_ONCE else groups.size
        if not count.all():
            (known,) = send(items, count > 0)
            base = torch.where(known.unsqueeze(1), base, table[:, 0])
        (weights,) = send(items, row_weights(count, size, table.shape[1], items))
        shift = table - base.unsqueeze(1)  # (P, n, D)
        both = torch.bmm(weights, shift if left is None else shift - left.unsqueeze(1))  # (P, n + 1, D)
        parts.append(both[:, :-1])
        base, left = (base + both[:, -1], None) if left is None else sum_of(base, both[:, -1] + left)
        count = count + size
    put_(mean, classes, base)
    if rest is not None and left is not None:
        put_(rest, classes, left)
    keep = np.ones_like(count) if memory is None else memory / np.maximum(count, memory)
    return Addition(
        groups.chosen, groups.size, parts[0] if len(parts) == 1 else torch.cat(parts, 1), keep, count
    )


def add_to_scatters_(scatter: Tensor, addition: Addition, rest: Tensor | None = None) -> None:
    """Add an addition's rows to scatters (K, D, D) and let them forget, in place.

    With a ``rest`` (K, D, D), for those who forget nothing, the scatters do not drift.
    """
    rows, classes = addition.rows, addition.chosen.classes
    if rest is not None:
        add_rows_(scatter, rest, classes, torch.baddbmm(take(rest, classes), rows.mT, rows))
        return
    own = take(scatter, classes)
    keep = addition.keep
    if (keep == keep[0]).all():
        own.baddbmm_(rows.mT, rows, beta=float(keep[0]), alpha=float(keep[0]))
    else:
        factor = addition.factor.view(-1, 1, 1)
        rows = rows * factor.sqrt()
        own.mul_(factor).baddbmm_(rows.mT, rows)
    if own is not scatter:
        scatter.index_copy_(0, classes, own)


def merge(a: ClassStatistics, b: ClassStatistics) -> ClassStatistics:
    """Combine the statistics of two disjoint sets of items (docs/method.md, eq. 2).

    The result does not depend on how the items were split, so it serves batches in time and
    ranks in a distributed run alike. A class seen by neither side keeps count 0 and mean 0.

    >>> halves = [bt.ClassStatistics.from_items(embeddings[i::2], labels[i::2], 2) for i in (0, 1)]
    >>> bt.merge(*halves).count.tolist()
    [2.0, 2.0]
    >>> bt.merge(*halves).mean
    tensor([[0., 2.],
            [5., 0.]])
    """
    share = b.count / (a.count + b.count).clamp_min(TINY)  # (K,) n' / (n + n')
    shift = b.mean - a.mean  # (K, D), from the OLD mean
    cross = shift * (a.count * share).sqrt().to(shift.dtype).unsqueeze(1)
    scatter = torch.baddbmm(a.scatter + b.scatter, cross.unsqueeze(2), cross.unsqueeze(1))
    return ClassStatistics(a.count + b.count, a.mean + shift * share.to(shift.dtype).unsqueeze(1), scatter)
