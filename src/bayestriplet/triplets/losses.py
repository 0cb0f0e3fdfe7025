"""Losses over triplets: pure functions, with a zero that has a gradient where no triplet exists."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from bayestriplet.checks import check_choice, check_number
from bayestriplet.errors import InputTypeError
from bayestriplet.posterior.precision import full_precision
from bayestriplet.triplets.joined import Joined
from bayestriplet.triplets.joined_losses import AllPositives, PickedHinge, of_joined
from bayestriplet.triplets.slopes import hinges, lowest, negative_log_shares
from bayestriplet.triplets.sphere import refuse_second_derivative
from bayestriplet.triplets.triplets import DistanceTable, Triplets

PAIRINGS = ("paired", "all")
TRIPLET_REDUCTIONS = ("mean", "active", "sum")
NCA_REDUCTIONS = ("mean", "sum")

Slopes = tuple[Tensor, Tensor, Tensor]  # a loss, its slopes in the distances to positives and negatives
Loss = Callable[[Tensor, Tensor], Slopes]


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

    >>> triplets = bt.TripletSampler(posterior)(embeddings, labels)
    >>> bt.triplet_loss(triplets, margin=0.25).shape
    torch.Size([])
    >>> bt.triplet_loss(triplets, margin=0.25, pairing="all", reduction="sum") >= 0
    tensor(True)
    """
    check_triplets(triplets)
    check_number("margin", margin, above=0)
    check_choice("pairing", pairing, PAIRINGS)
    check_choice("reduction", reduction, TRIPLET_REDUCTIONS)
    if pairing == "paired" and isinstance(triplets, Joined) and triplets.own is not None:
        return of_joined(triplets, PickedHinge(margin, reduction, squared, triplets.own.triplets))
    mask = triplets.mask
    terms = mask.sum() if pairing == "paired" else mask.sum(1).square().sum()

    def hinge(near: Tensor, far: Tensor) -> Slopes:
        huge = torch.finfo(near.dtype).max / 4
        near, far = near.masked_fill(~mask, -huge), far.masked_fill(~mask, huge)
        if pairing == "paired":
            value, slope = hinges(near - far, margin, reduction, terms)  # (B, S)
            return value, slope, -slope
        value, slope = hinges(near.unsqueeze(2) - far.unsqueeze(1), margin, reduction, terms)  # (B, S, S)
        return value, slope.sum(2), -slope.sum(1)

    return _apply(hinge, triplets, squared)


def nca_loss(
    triplets: Triplets,
    temperature: float = 0.3,
    include_positive: bool = True,
    reduction: str = "mean",
    positive_margin: float = 0.0,
) -> Tensor:
    """Negative log share of each positive among itself and the anchor's negatives (docs/method.md, eq. 12).

    With e = exp(-squared distance / temperature): -log e_k / (e_k + sum of e over the negatives).
    Of joined draws all positives of an anchor count alike (eq. 12a). Those that are items of the batch, and
    within ``positive_margin`` of the anchor by the squared distance, do not pull (eq. 12b); draws always do.
    ``include_positive=False`` drops e_k from the denominator, as the paper prints it: the loss
    is then unbounded below (docs/experiments.md has what that costs).

    >>> triplets = bt.TripletSampler(posterior)(embeddings, labels)
    >>> bt.nca_loss(triplets, temperature=0.3) > 0
    tensor(True)
    """
    check_triplets(triplets)
    check_number("temperature", temperature, above=0)
    check_choice("reduction", reduction, NCA_REDUCTIONS)
    check_number("positive_margin", positive_margin, least=0)
    if isinstance(triplets, Joined) and triplets.own is not None:
        return of_joined(triplets, AllPositives(temperature, include_positive, reduction, positive_margin))
    mask = triplets.mask

    def nca(near: Tensor, far: Tensor) -> Slopes:
        weight = mask.to(far.dtype)
        if reduction == "mean":
            weight /= weight.sum().clamp_min(1)
        far = (far / -temperature).masked_fill_(~mask, lowest(far))
        value, *slopes = negative_log_shares(near / -temperature, far, weight, include_positive)
        return value, slopes[0] / -temperature, slopes[1] / -temperature

    return _apply(nca, triplets, squared=True)


def _apply(loss: Loss, triplets: Triplets, squared: bool) -> Tensor:
    """Return a loss of the triplets' distances, connected to anchors and points."""
    value: Tensor
    if triplets.share_points:
        with full_precision(triplets.anchor):
            value = _OfShared.apply(triplets, triplets.anchor, triplets.points, squared, loss)  # type: ignore[no-untyped-call]
    else:
        value = _OfDistances.apply(*triplets.distances(squared), loss)  # type: ignore[no-untyped-call]
    return value


class _OfDistances(torch.autograd.Function):
    """A loss of distances (B, S), which tells its slopes along with its value; autograd takes many passes."""

    @staticmethod
    def forward(ctx: Any, near: Tensor, far: Tensor, loss: Loss) -> Tensor:
        value, *slopes = loss(near, far)
        ctx.save_for_backward(*slopes)
        return value

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        refuse_second_derivative()
        near, far = ctx.saved_tensors
        return near * gradient, far * gradient, None


class _OfShared(torch.autograd.Function):
    """The same where anchors share points: from anchors and points to the value in one go."""

    @staticmethod
    def forward(ctx: Any, of: Triplets, anchor: Tensor, points: Tensor, squared: bool, loss: Loss) -> Tensor:
        table = DistanceTable.of(anchor, points, squared)
        value, *slopes = loss(*table.pick(of.index))
        ctx.squared = squared
        ctx.save_for_backward(table.anchor, table.points, table.matrix, of.index, *slopes)
        return value

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor, Tensor, None, None]:
        refuse_second_derivative()
        anchor, points, matrix, index, near, far = ctx.saved_tensors
        table = DistanceTable(anchor, points, matrix, ctx.squared)
        return None, *table.gradients(index, near * gradient, far * gradient), None, None


def check_triplets(triplets: object) -> None:
    """Raise unless ``triplets`` is what a TripletSampler returns."""
    if not isinstance(triplets, Triplets):
        raise InputTypeError(f"triplets must be a Triplets; got {type(triplets).__name__}")
