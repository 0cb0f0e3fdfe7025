"""Sums over all classes for the empirical prior, so that a step reads only the classes of its batch."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from bayestriplet.posterior.host import KINDS, in_memory, read
from bayestriplet.posterior.priors import EMPIRICAL_KAPPA, NIWPrior
from bayestriplet.posterior.statistics import TINY

EXTRA = 4  # behind the sum of n (m - o): the sums of n, of classes with items, of n |m - o|^2, of traces


def sums_of(count: Tensor, mean: Tensor, trace: Tensor, origin: Tensor) -> Tensor:
    """Return what classes of count (P,) and mean (P, D) add to the sums (D + 4,), float64.

    Means are taken from an origin o (D,) amid the data: far from it, sums of squares would cancel.
    """
    if in_memory(origin):  # NumPy takes a fraction of the time, where there is nothing to wait for
        weighted, *numbers = _parts(*read(count, mean, origin))
        return torch.from_numpy(np.append(weighted, [*numbers, float(trace)]))
    weighted, *numbers = _parts(count, mean, origin)
    return torch.cat([weighted, torch.stack([*numbers, trace])])


def _parts(count: Any, mean: Any, origin: Any) -> tuple[Any, Any, Any, Any]:
    """Return the sums but for the traces, of tensors or arrays."""
    shift = mean - origin  # (P, D) float64
    return count @ shift, count.sum(), (count > 0).sum(), count @ (shift * shift).sum(1)


def empirical_prior(sums: Tensor, origin: Tensor, dtype: torch.dtype) -> NIWPrior:
    """Return the prior that the current statistics suggest (docs/method.md, eq. 5), from their sums.

    Its mean is the grand mean and its scale the pooled within-class variance, to which the
    total variance of one item is added: positive as soon as two items differ, also when every
    class has a single one. A tiny floor covers the case that all items are the same.
    """
    if in_memory(sums):
        near_sums, near_origin = read(sums, origin)
        mean, variance = _prior_of(near_sums, near_origin, torch.finfo(dtype).eps)
        start = torch.from_numpy(mean.astype(KINDS[dtype]))
        return NIWPrior(start, EMPIRICAL_KAPPA, float(variance), len(mean) + 2.0)
    mean, variance = _prior_of(sums, origin, torch.finfo(dtype).eps)
    return NIWPrior(mean.to(dtype), EMPIRICAL_KAPPA, variance, len(mean) + 2.0)


def _prior_of(sums: Any, origin: Any, epsilon: float) -> tuple[Any, Any]:
    """Return the prior's mean (D,) and variance (), from tensors or arrays."""
    weighted, numbers = sums[:-EXTRA], sums[-EXTRA:]
    total, classes, square, within = numbers.tolist() if isinstance(sums, np.ndarray) else numbers
    total = total + TINY
    between = _positive(square - weighted @ weighted / total)
    freedom = _positive(total - classes) + 1
    variance = (within + (within + between) / total) / (len(weighted) * freedom) + epsilon**2
    return origin + weighted / total, variance


def _positive(value: Any) -> Any:
    """Return max(value, 0), of a number or a tensor."""
    return (value + abs(value)) / 2
