"""Sums that do not drift: what rounding takes from a total is kept beside it (Kahan)."""

from torch import Tensor

from bayestriplet.posterior.chosen import put_, take


def sum_of(total: Tensor, more: Tensor) -> tuple[Tensor, Tensor]:
    """Return total + more, and what rounding took from it; ``more`` has the last such remainder in it."""
    new = total + more
    return new, more - (new - total)


def add_rows_(total: Tensor, rest: Tensor, classes: Tensor, more: Tensor) -> None:
    """Add to the rows of distinct, ascending ``classes`` (P,), in place; ``more`` has their rests in it."""
    new, left = sum_of(take(total, classes), more)
    put_(total, classes, new)
    put_(rest, classes, left)
