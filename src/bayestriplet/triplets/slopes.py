"""The two losses as functions of distances: their values, along with their slopes."""

import torch
from torch import Tensor
from torch.nn.functional import softplus

LOW = -80.0  # its exponential is a normal number of single precision


def lowest(like: Tensor) -> float:
    """Return the logit of what has no share: not -inf, or sums over nothing else would have no slope."""
    return -torch.finfo(like.dtype).max / 4


def hinges(gap: Tensor, margin: float, reduction: str, terms: Tensor | int) -> tuple[Tensor, Tensor]:
    """Return the reduced hinges of gap + margin, and their slopes in the gaps, which are overwritten.

    ``terms`` is the number of gaps that count; the others are so low that their hinges are 0.
    """
    gap += margin
    slope = (gap > 0).to(gap.dtype)
    value = gap.mul_(slope).sum()
    if reduction == "sum":
        return value, slope
    number = torch.as_tensor(slope.sum() if reduction == "active" else terms).clamp_min(1)
    return value / number, slope.div_(number)


def negative_log_shares(
    near: Tensor, far: Tensor, weight: Tensor, include_positive: bool, bounded: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the weighted sum of the negative log shares, and its slopes in near and far, overwritten.

    Logits (B, R) of positives with weights (B, R), and logits (B, S) of negatives: the share is
    e^near / (e^near + sum of e^far), or without e^near below (docs/method.md, eq. 12). Logits that are
    ``bounded``, between 0 and LOW, have no exponential that vanishes; others are taken from the highest.
    """
    top = 0.0 if bounded else far.amax(1, keepdim=True)  # (B, 1)
    far = far.exp_() if bounded else far.sub_(top).exp_()
    total = far.sum(1, keepdim=True).clamp_min_(torch.finfo(far.dtype).tiny)  # 0 without any negative
    gap = (total.log() + top) - near  # (B, R), how far the negatives are above the positive
    if include_positive:
        value = (softplus(gap, threshold=40) * weight).sum()
        weight = weight * gap.sigmoid_()  # what the positive's share lacks to 1
    else:
        value = (gap * weight).sum()
    return value, -weight, far.mul_(weight.sum(1, keepdim=True) / total)
