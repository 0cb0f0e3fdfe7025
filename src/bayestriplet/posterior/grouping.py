"""Rows sorted into one padded table, so that work per class is one batched product."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bayestriplet.posterior.chosen import Chosen
from bayestriplet.posterior.host import send
from bayestriplet.posterior.latest import Latest


@dataclass(frozen=True)
class Grouping:
    """N rows in a table of P x width slots, one line for each class that has any, in ascending order.

    The table is as wide as the largest class, so slots behind a smaller one stay unused.
    """

    chosen: Chosen  # (P,) the classes of the lines
    size: NDArray[np.int64]  # (P,) rows of each
    order: Tensor  # (N,) the rows, class by class
    slots: Tensor  # (N,) where they go in the flattened table
    line: NDArray[np.int64]  # (N,) of every row
    width: int

    @property
    def is_full(self) -> bool:
        """Whether every slot is used: all classes present have the same number of rows."""
        return len(self.order) == len(self.chosen) * self.width

    def spread(self, rows: Tensor) -> Tensor:
        """Put rows (N, D) into their slots: (P, width, D), zeros where unused."""
        ordered = rows.index_select(0, self.order)
        if not self.is_full:
            table = rows.new_zeros(len(self.chosen) * self.width, rows.shape[1])
            ordered = table.index_copy_(0, self.slots, ordered)
        return ordered.view(-1, self.width, rows.shape[1])

    def collect(self, table: Tensor) -> Tensor:
        """Take the rows (N, D) back out of a table (P, width, D)."""
        flat = table.flatten(0, 1)
        ordered = flat if self.is_full else flat.index_select(0, self.slots)
        return torch.empty_like(ordered).index_copy_(0, self.order, ordered)


def group_rows(numbers: NDArray[np.int64], like: Tensor) -> Grouping:
    """Group N rows with the class numbers (N,), which are on the host; tensors as ``like``."""
    return _groups.get((numbers.tobytes(), like.device), lambda: _group_rows(numbers, like))


_groups: Latest[Grouping] = Latest()


def _group_rows(numbers: NDArray[np.int64], like: Tensor) -> Grouping:
    order = numbers.argsort(kind="stable")
    ordered = numbers[order]
    starts = np.empty(len(order) + 1, dtype=bool)
    starts[0] = starts[-1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=starts[1:-1])
    edges = starts.nonzero()[0]  # (P + 1,)
    begins, size = edges[:-1], edges[1:] - edges[:-1]
    width = int(size.max(initial=0))
    slots = order  # not read where the table is full
    if len(order) != len(begins) * width:
        line = np.repeat(np.arange(len(begins)), size)  # (N,)
        slots = np.arange(len(order)) + line * width - begins[line]
    present = ordered[begins]
    line = np.empty_like(order)
    line[order] = np.repeat(np.arange(len(begins)), size)
    classes, rows, places = send(like, present, order, slots)
    return Grouping(Chosen(classes, present), size, rows, places, line, width)
