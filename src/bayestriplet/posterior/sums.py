"""Sums over all classes for the empirical prior, so that a step reads only the classes of its batch."""

from typing import Any

import torch
from torch import Tensor

from bayestriplet.posterior.priors import EMPIRICAL_KAPPA, NIWPrior
from bayestriplet.posterior.statistics import TINY

EXTRA = 4  # behind the sum of n (m - o): the sums of n, of classes with items, of n |m - o|^2, of traces


def sums_of(count: Tensor, mean: Tensor, trace: Tensor, origin: Tensor) -> Tensor:
    """Return what classes of count (P,) and mean (P, D) add to the sums (D + 4,), float64.

    Means are taken from an origin o (D,) amid the data: far from it, sums of squares would cancel.
    """
    shift = mean - origin  # (P, D) float64
    square = torch.linalg.vector_norm(shift, dim=1).square_()  # (P,)
    numbers = torch.stack([count.sum(), (count > 0).sum(), count @ square, trace])
    return torch.cat([count @ shift, numbers])


def empirical_prior(sums: Tensor, origin: Tensor, dtype: torch.dtype) -> NIWPrior:
    """Return the prior that the current statistics suggest (docs/method.md, eq. 5), from their sums.

    Its mean is the grand mean and its scale the pooled within-class variance, to which the
    total variance of one item is added: positive as soon as two items differ, also when every
    class has a single one. A tiny floor covers the case that all items are the same.
    """
    weighted, numbers = sums[:-EXTRA], sums[-EXTRA:]
    dim, length = len(weighted), weighted @ weighted
    # Numbers where the sums are on the host anyway: in a step every operation on a tensor counts.
    near = on_host(sums)
    total, classes, square, within = numbers.tolist() if near else numbers.unbind()
    total = total + TINY
    between = _positive(square - (float(length) if near else length) / total)
    freedom = _positive(total - classes) + 1
    variance = (within + (within + between) / total) / (dim * freedom) + torch.finfo(dtype).eps ** 2
    return NIWPrior((origin + weighted / total).to(dtype), EMPIRICAL_KAPPA, variance, dim + 2.0)


def on_host(sums: Tensor) -> bool:
    """Tell whether numbers can be read without waiting for a device."""
    return sums.device.type == "cpu"


def _positive(value: Any) -> Any:
    """Return max(value, 0), of a number or a tensor."""
    return (value + abs(value)) / 2
