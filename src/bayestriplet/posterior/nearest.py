"""Finding the classes whose means are nearest, by one matrix product in blocks."""

import torch
from torch import Tensor

BLOCK_CELLS = 4_000_000  # products that a block may hold
PART = 128  # values that are searched together


def nearest_rows(points: Tensor, rows: Tensor, square: Tensor, num: int) -> tuple[Tensor, Tensor]:
    """Return distances and numbers (P, num) of the rows (K, D) nearest to points (P, D), nearest first.

    ``square`` (K,) holds the squared lengths of the rows; an infinite one is never near. The
    distances are squared, less the squared length of the point. No K x K table is formed: blocks of
    rows are compared with all points, and the nearest so far are kept.
    """
    together = max(num, BLOCK_CELLS // max(1, len(points)))
    best: tuple[Tensor, Tensor] | None = None
    for start in range(0, len(rows), together):
        part = slice(start, start + together)
        distance = torch.addmm(square[part], points, rows[part].mT, alpha=-2)  # (P, block)
        values, found = _smallest(distance, min(num, distance.shape[1]))
        found = found + start
        if best is not None:
            values, found = torch.cat([best[0], values], 1), torch.cat([best[1], found], 1)
            values, order = _smallest(values, min(num, values.shape[1]))
            found = found.gather(1, order)
        best = values, found
    if best is None:
        raise ValueError("there are no rows")
    return best


def _smallest(values: Tensor, num: int) -> tuple[Tensor, Tensor]:
    """Return the num smallest of each line, ascending, and where they are."""
    if num == 1:
        return _least(values)
    chosen = values.topk(num, dim=1, largest=False)
    return chosen.values, chosen.indices


def _least(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return the smallest of each line (P, 1), and where it is.

    In parts: their smallest values alone are found many times faster than the places of values.
    """
    whole = values.shape[1] - values.shape[1] % PART
    rest = values[:, whole:].min(1, keepdim=True) if whole < values.shape[1] else None
    if not whole and rest is not None:
        return rest.values, rest.indices
    parts = values[:, :whole].view(len(values), -1, PART)  # (P, number, PART)
    place = parts.amin(2).argmin(1, keepdim=True)  # (P, 1)
    inside = parts.gather(1, place.unsqueeze(2).expand(-1, -1, PART)).squeeze(1).min(1, keepdim=True)
    least, found = inside.values, place * PART + inside.indices
    if rest is None:
        return least, found
    better = rest.values < least
    return torch.where(better, rest.values, least), torch.where(better, rest.indices + whole, found)
