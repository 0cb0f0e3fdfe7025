"""Sufficient statistics of every class, and the one operation that combines them."""

from dataclasses import dataclass

import torch
from torch import Tensor

from bayestriplet.posterior.grouping import Grouping, group_rows
from bayestriplet.posterior.host import read

LEAST_COUNT = 1e-30  # the same where a count is kept in float32
TINY = torch.finfo(torch.float64).tiny  # keeps 0 / 0 of a class without items at 0


@dataclass(frozen=True)
class Addition:
    """What a batch did to the scatters of its classes: L <- keep (L + rows^T rows)."""

    classes: Tensor  # (P,) ascending
    size: Tensor  # (P,) items of each
    rows: Tensor  # (P, n, D), zeros behind the items of a class
    keep: Tensor  # (P,) at most 1, float64
    root: Tensor  # (P,) its square root, as the rows are
    total: Tensor  # (P,) the counts before forgetting


@dataclass(frozen=True)
class ClassStatistics:
    """Count, mean and scatter of the items of K classes in D dimensions (docs/method.md, eq. 1).

    The scatter is the sum of (x - m)(x - m)^T over a class's items. A class without items
    has count, mean and scatter 0. Counts are float64, since forgetting makes them fractional.
    """

    count: Tensor  # (K,)
    mean: Tensor  # (K, D)
    scatter: Tensor  # (K, D, D)

    @classmethod
    def zeros(cls, num_classes: int, dim: int, like: Tensor) -> "ClassStatistics":
        """Return the statistics of no items, in the dtype and on the device of ``like``."""
        count = torch.zeros(num_classes, dtype=torch.float64, device=like.device)
        return cls(count, like.new_zeros(num_classes, dim), like.new_zeros(num_classes, dim, dim))

    @classmethod
    def from_items(cls, embeddings: Tensor, labels: Tensor, num_classes: int) -> "ClassStatistics":
        """Compute the statistics of items (B, D) with labels (B,) in 0 .. num_classes - 1."""
        statistics = cls.zeros(num_classes, embeddings.shape[1], like=embeddings)
        statistics.add_items_(embeddings, labels)
        return statistics

    def add_items_(self, embeddings: Tensor, labels: Tensor, memory: float | None = None) -> Addition:
        """Add items (B, D) with labels (B,), in place, and return what changed.

        The result is that of a merge with the items' statistics (docs/method.md, eq. 2), after
        which no count exceeds ``memory`` (eq. 3).
        """
        groups = group_rows(read(labels)[0], like=labels)
        addition = add_to_means_(self.count, self.mean, embeddings, groups, memory)
        add_to_scatters_(self.scatter, addition)
        return addition

    def forget(self, memory: float) -> "ClassStatistics":
        """Return a copy in which no class counts for more than ``memory`` items (docs/method.md, eq. 3)."""
        keep = memory / self.count.clamp_min(memory)  # (K,), at most 1
        scatter = self.scatter * keep.to(self.scatter.dtype)[:, None, None]
        return ClassStatistics(self.count * keep, self.mean, scatter)

    def rows(self, classes: Tensor) -> "ClassStatistics":
        """Return the statistics of ascending ``classes`` (P,): a copy, unless that is all of them."""
        if len(classes) == len(self.count):
            return self
        return ClassStatistics(self.count[classes], self.mean[classes], self.scatter[classes])


def take(tensor: Tensor, classes: Tensor) -> Tensor:
    """Return the rows of distinct, ascending ``classes`` (P,): a copy, unless that is all of them."""
    return tensor if len(classes) == len(tensor) else tensor.index_select(0, classes)


def put_(tensor: Tensor, classes: Tensor, rows: Tensor) -> None:
    """Replace the rows of distinct, ascending ``classes``, in place."""
    if len(classes) == len(tensor):
        tensor.copy_(rows)
    else:
        tensor.index_copy_(0, classes, rows)


def add_to_means_(
    count: Tensor, mean: Tensor, items: Tensor, groups: Grouping, memory: float | None
) -> Addition:
    """Add items (B, D) to counts (K,) and means (K, D), in place; return what the scatters have to add.

    One row per item, as if the items came one after the other: sqrt(n / (n + 1)) (x - m), with n
    and m as they are before x (docs/method.md, eq. 2). All is computed relative to the old mean, or
    to the first item of a class without one, so data far from the origin stay exact.
    """
    old = take(count, groups.classes)  # (P,)
    table = groups.spread(items)  # (P, n, D)
    base = take(mean, groups.classes)  # (P, D)
    base = torch.where((old > 0).unsqueeze(1), base, table[:, 0])
    shift = table.sub_(base.unsqueeze(1))
    if not groups.is_full:
        shift.mul_(groups.used.unsqueeze(2))
    total = old + groups.size
    before = old.unsqueeze(1)  # (P, n) items before each
    if groups.width > 1:
        before = before + torch.arange(groups.width, device=items.device)
        sums = shift.cumsum(1)  # (P, n, D)
        divisor = before.clamp_min(LEAST_COUNT).to(shift.dtype).unsqueeze(2)
        rows, last = torch.addcdiv(shift, shift - sums, divisor), sums[:, -1]
    else:
        rows, last = shift, shift[:, 0]
    weight = (before / (before + 1)).sqrt_().to(shift.dtype).unsqueeze(2)
    rows = rows * (weight if groups.is_full else weight * groups.used.unsqueeze(2))
    keep = torch.ones_like(total) if memory is None else memory / total.clamp_min(memory)
    put_(mean, groups.classes, torch.addcdiv(base, last, total.to(last.dtype).unsqueeze(1)))
    put_(count, groups.classes, total * keep)
    return Addition(groups.classes, groups.size, rows, keep, keep.sqrt().to(rows.dtype), total)


def add_to_scatters_(scatter: Tensor, addition: Addition) -> None:
    """Add an addition's rows to scatters (K, D, D) and let them forget, in place."""
    own = take(scatter, addition.classes)
    root = addition.root.view(-1, 1, 1)
    rows = addition.rows * root
    own.mul_(root.square()).baddbmm_(rows.mT, rows)
    if own is not scatter:
        scatter.index_copy_(0, addition.classes, own)


def merge(a: ClassStatistics, b: ClassStatistics) -> ClassStatistics:
    """Combine the statistics of two disjoint sets of items (docs/method.md, eq. 2).

    The result does not depend on how the items were split, so it serves batches in time and
    ranks in a distributed run alike. A class seen by neither side keeps count 0 and mean 0.
    """
    share = b.count / (a.count + b.count).clamp_min(TINY)  # (K,) n' / (n + n')
    shift = b.mean - a.mean  # (K, D), from the OLD mean
    cross = shift * (a.count * share).sqrt().to(shift.dtype).unsqueeze(1)
    scatter = torch.baddbmm(a.scatter + b.scatter, cross.unsqueeze(2), cross.unsqueeze(1))
    return ClassStatistics(a.count + b.count, a.mean + shift * share.to(shift.dtype).unsqueeze(1), scatter)
