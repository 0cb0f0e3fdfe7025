"""Sufficient statistics of every class, and the one operation that combines them."""

from dataclasses import dataclass

import torch
from torch import Tensor

from bayestriplet.posterior.grouping import group_rows

TINY = torch.finfo(torch.float64).tiny  # keeps 0 / 0 of a class without items at 0


@dataclass(frozen=True)
class Addition:
    """What a batch did to the scatters of its classes: L <- keep (L + rows^T rows)."""

    size: Tensor  # (K,) items of each class
    classes: Tensor  # (P,) the classes with any, ascending
    rows: Tensor  # (P, n + 1, D)
    keep: Tensor  # (P,) at most 1


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
        which no count exceeds ``memory`` (eq. 3). The items' own scatter is never formed: their
        residuals, and the cross term as one more row, enter the sum in one batched product.
        Residuals are taken from the items' own mean, so data far from the origin stay exact.
        """
        groups = group_rows(labels, len(self.count))
        old = self.rows(groups.classes)
        table = groups.spread(embeddings)  # (P, n, D)
        sizes = groups.size if old is self else groups.size[groups.classes]
        count = sizes.double()  # (P,)
        mean = table.sum(1) / count.to(table.dtype).unsqueeze(1)  # (P, D)
        step, cross = _step_and_cross(old.count, old.mean, count, mean)
        residual = groups.blank(table - mean.unsqueeze(1))
        rows = torch.cat([residual, cross.unsqueeze(1)], 1)  # (P, n + 1, D)
        total = old.count + count
        keep = (
            torch.ones_like(total) if memory is None else memory / total.clamp_min(memory)
        )  # (P,), at most 1
        least, most = (float(value) for value in keep.aminmax())
        # Where all classes forget alike, as in balanced batches, one pass over the scatters does both.
        old.scatter.baddbmm_(rows.mT, rows, beta=most, alpha=most)
        if least < most:
            old.scatter.mul_((keep / most).to(rows.dtype)[:, None, None])
        old.mean.add_(step)
        old.count.copy_(total * keep)
        if old is not self:
            self.count[groups.classes] = old.count
            self.mean[groups.classes] = old.mean
            self.scatter[groups.classes] = old.scatter
        return Addition(groups.size, groups.classes, rows, keep)

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


def merge(a: ClassStatistics, b: ClassStatistics) -> ClassStatistics:
    """Combine the statistics of two disjoint sets of items (docs/method.md, eq. 2).

    The result does not depend on how the items were split, so it serves batches in time and
    ranks in a distributed run alike. A class seen by neither side keeps count 0 and mean 0.
    """
    step, cross = _step_and_cross(a.count, a.mean, b.count, b.mean)
    scatter = torch.baddbmm(a.scatter + b.scatter, cross.unsqueeze(2), cross.unsqueeze(1))
    return ClassStatistics(a.count + b.count, a.mean + step, scatter)


def _step_and_cross(count: Tensor, mean: Tensor, more: Tensor, more_mean: Tensor) -> tuple[Tensor, Tensor]:
    """Return how far the mean moves (K, D), and c (K, D) with c c^T the cross term of the scatter.

    From the OLD mean: step = n' / (n + n') (m' - m), c = sqrt(n n' / (n + n')) (m' - m).
    """
    share = more / (count + more).clamp_min(TINY)  # (K,) n' / (n + n')
    shift = more_mean - mean  # (K, D)
    step = shift * share.to(shift.dtype).unsqueeze(1)
    return step, shift * (count * share).sqrt().to(shift.dtype).unsqueeze(1)
