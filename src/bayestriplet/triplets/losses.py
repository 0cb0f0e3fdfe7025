"""Losses over triplets: pure functions, with a zero that has a gradient where no triplet exists."""

from typing import Any

import torch
from torch import Tensor

from bayestriplet.errors import InputTypeError
from bayestriplet.options import check_choice, check_number
from bayestriplet.triplets.sphere import refuse_second_derivative
from bayestriplet.triplets.triplets import Triplets

PAIRINGS = ("paired", "all")
TRIPLET_REDUCTIONS = ("mean", "active", "sum")
NCA_REDUCTIONS = ("mean", "sum")


def triplet_loss(
    triplets: Triplets,
    margin: float = 0.25,
    pairing: str = "paired",
    reduction: str = "mean",
    squared: bool = True,
) -> Tensor:
    """Hinge of margin + d(anchor, positive) - d(anchor, negative) (docs/method.md, eq. 11).

    ``pairing="paired"`` joins positive s with negative s, "all" every positive with every
    negative of the anchor. ``reduction`` is the mean over all triplets, over the "active"
    ones (hinge above 0), or the sum. Distances are Euclidean, squared or not.
    """
    check_triplets(triplets)
    check_number("margin", margin, above=0)
    check_choice("pairing", pairing, PAIRINGS)
    check_choice("reduction", reduction, TRIPLET_REDUCTIONS)
    near, far = triplets.distances(squared)  # (B, S), (B, S)
    if pairing == "paired":
        gap, mask = near - far, triplets.mask  # (B, S)
    else:
        gap = near.unsqueeze(2) - far.unsqueeze(1)  # (B, S, S)
        mask = triplets.mask.unsqueeze(2) & triplets.mask.unsqueeze(1)
    value: Tensor = _Hinge.apply(gap, mask, margin, reduction)  # type: ignore[no-untyped-call]
    return value


class _Hinge(torch.autograd.Function):
    """The sum or mean of max(0, gap + margin) over a mask; its slope is the same for all active terms."""

    @staticmethod
    def forward(ctx: Any, gap: Tensor, mask: Tensor, margin: float, reduction: str) -> Tensor:
        active = (gap > -margin) & mask
        total = torch.where(active, gap + margin, 0).sum()
        ctx.number = 1 if reduction == "sum" else max(1, int((mask if reduction == "mean" else active).sum()))
        ctx.save_for_backward(active)
        return total / ctx.number

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        refuse_second_derivative()
        (active,) = ctx.saved_tensors
        return active * (gradient / ctx.number), None, None, None


def nca_loss(
    triplets: Triplets,
    temperature: float = 0.1,
    include_positive: bool = True,
    reduction: str = "mean",
) -> Tensor:
    """Negative log share of each positive among itself and the anchor's negatives (docs/method.md, eq. 12).

    With e = exp(-squared distance / temperature): -log e_k / (e_k + sum of e over the negatives).
    ``include_positive=False`` drops e_k from the denominator, as the paper prints it: the loss
    is then unbounded below, and training with it diverges.
    """
    check_triplets(triplets)
    check_number("temperature", temperature, above=0)
    check_choice("reduction", reduction, NCA_REDUCTIONS)
    near, far = (-distance / temperature for distance in triplets.distances())  # (B, S), (B, S)
    # Not -inf: an anchor without negatives would have logsumexp -inf and a NaN gradient.
    hidden = torch.finfo(far.dtype).min
    others = far.masked_fill(~triplets.mask, hidden).logsumexp(1, keepdim=True)  # (B, 1)
    total = torch.logaddexp(near, others) if include_positive else others
    terms = (total - near).masked_fill(~triplets.mask, 0)
    return terms.sum() if reduction == "sum" else terms.sum() / triplets.mask.sum().clamp_min(1)


def check_triplets(triplets: object) -> None:
    """Raise unless ``triplets`` is what a TripletSampler returns."""
    if not isinstance(triplets, Triplets):
        raise InputTypeError(f"triplets must be a Triplets; got {type(triplets).__name__}")
