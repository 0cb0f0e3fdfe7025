"""Rows sorted into one padded table, so that work per class is one batched product."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Grouping:
    """N rows in a table of P x width slots, one line for each class that has any, in ascending order.

    The table is as wide as the largest class, so slots behind a smaller one stay unused.
    """

    size: Tensor  # (K,) rows of each class
    classes: Tensor  # (P,) the classes of the lines
    order: Tensor  # (N,) the rows, class by class
    width: int

    @property
    def is_full(self) -> bool:
        """Whether every slot is used: all classes present have the same number of rows."""
        return len(self.order) == len(self.classes) * self.width

    @property
    def used(self) -> Tensor:
        """Which slots are used, (P, width) bool; flattened, the used slots are in the order of ``order``."""
        slot = torch.arange(self.width, device=self.size.device)
        return slot < self.size[self.classes].unsqueeze(1)

    def spread(self, rows: Tensor) -> Tensor:
        """Put rows (N, D) into their slots: (P, width, D), zeros where unused."""
        ordered = rows.index_select(0, self.order)
        if self.is_full:
            return ordered.view(-1, self.width, rows.shape[1])
        table = rows.new_zeros(len(self.classes), self.width, rows.shape[1])
        table[self.used] = ordered
        return table

    def blank(self, table: Tensor) -> Tensor:
        """Set the unused slots of a table (P, width, D) to zero, in place."""
        return table if self.is_full else table.masked_fill_(~self.used.unsqueeze(2), 0)

    def collect(self, table: Tensor) -> Tensor:
        """Take the rows (N, D) back out of a table (P, width, D)."""
        ordered = table.flatten(0, 1) if self.is_full else table[self.used]
        return torch.empty_like(ordered).index_copy_(0, self.order, ordered)


def group_rows(labels: Tensor, num_classes: int) -> Grouping:
    """Group N rows with labels (N,), N above 0, by class."""
    size = torch.bincount(labels, minlength=num_classes)  # (K,)
    return Grouping(size, size.nonzero().squeeze(1), labels.argsort(stable=True), int(size.max()))
