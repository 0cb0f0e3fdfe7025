"""Losses of draws joined with the batch: value and gradient at once, from one table of B x P distances."""

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from bayestriplet.posterior.precision import full_precision
from bayestriplet.triplets.joined import Joined, OwnPoints
from bayestriplet.triplets.slopes import hinges, lowest, negative_log_shares
from bayestriplet.triplets.sphere import refuse_second_derivative


class JoinedLoss(Protocol):
    """A loss of anchors (B, D) and points (P, D), which end with the anchors."""

    def __call__(self, anchor: Tensor, points: Tensor, joined: Joined, own: OwnPoints) -> tuple[Tensor, Tensor]:
        """Return its value () and its slopes (B, P) in half the squared distances."""


@dataclass(frozen=True)
class AllPositives:
    """The NCA loss with all positives of an anchor alike: its mean over all ways to pick them (eq. 12a)."""

    temperature: float
    include_positive: bool
    reduction: str

    def __call__(self, anchor: Tensor, points: Tensor, joined: Joined, own: OwnPoints) -> tuple[Tensor, Tensor]:
        scale = 2 / self.temperature
        # -|a - p|^2 / temperature, less what is the same for all points of an anchor.
        if joined.on_sphere:
            logit = (anchor * scale) @ points.mT  # (B, P)
        else:
            half = torch.linalg.vector_norm(points, dim=1).square_().div_(-2)
            logit = torch.addmm(half, anchor, points.mT, beta=scale, alpha=scale)
        near = logit.gather(1, own.rows)  # (B, R)
        own.leave_out_(logit, lowest(logit))
        weight = own.weight / max(1, own.triplets) if self.reduction == "mean" else own.weight
        value, of_near, of_far = negative_log_shares(near, logit, weight, self.include_positive)
        return value, of_far.scatter_(1, own.rows, of_near).mul_(-scale)


@dataclass(frozen=True)
class PickedHinge:
    """The triplet loss of every negative with the positive picked for it."""

    margin: float
    reduction: str
    squared: bool
    terms: int

    def __call__(self, anchor: Tensor, points: Tensor, joined: Joined, own: OwnPoints) -> tuple[Tensor, Tensor]:
        distance = torch.addmm(_squares(points), anchor, points.mT, alpha=-2)  # (B, P)
        distance.add_(_squares(anchor).unsqueeze(1)).clamp_min_(0)
        if not self.squared:
            distance.sqrt_()
        near = distance.gather(1, own.rows)  # (B, R)
        own.leave_out_(distance, torch.finfo(distance.dtype).max / 4)
        gap = near.gather(1, joined.columns).sub_(distance)
        value, slope = hinges(gap, self.margin, self.reduction, self.terms)
        of_near = torch.zeros_like(near).scatter_add_(1, joined.columns, slope)
        of_far = slope.neg_()
        if self.squared:
            return value, of_far.scatter_(1, own.rows, of_near).mul_(2)
        return value, _by(of_far, distance).scatter_(1, own.rows, _by(of_near, near))


def of_joined(joined: Joined, loss: JoinedLoss) -> Tensor:
    """Return a loss of joined draws, connected to the anchors."""
    with full_precision(joined.anchor):
        value: Tensor = _OfJoined.apply(joined.anchor, joined, loss)  # type: ignore[no-untyped-call]
    return value


class _OfJoined(torch.autograd.Function):
    """From anchors, which are points too, to the value; the gradient is ready before it is asked for.

    Anchors and points are centred off the sphere, because |a|^2 + |p|^2 - 2 a p cancels badly far
    from the origin.
    """

    @staticmethod
    def forward(ctx: Any, anchor: Tensor, joined: Joined, loss: JoinedLoss) -> Tensor:
        points, own = joined.points.detach(), joined.own
        if own is None:
            raise AttributeError("own")
        if not joined.on_sphere:
            center = points.mean(0)
            anchor, points = anchor - center, points - center
        value, slope = loss(anchor, points, joined, own)
        if ctx.needs_input_grad[0]:
            ctx.save_for_backward(gradient_of(slope, anchor, points))
        return value

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        refuse_second_derivative()
        return ctx.saved_tensors[0] * gradient, None, None


def gradient_of(slope: Tensor, anchor: Tensor, points: Tensor) -> Tensor:
    """Return the gradient (B, D) in the anchors, given the slopes (B, P) in half the squared distances.

    An anchor moves as one, and as a point that others meet: the slopes of both add up. They are overwritten.
    """
    batch = slope[:, len(points) - len(anchor) :]  # (B, B)
    batch.copy_(batch + batch.mT)
    return torch.addmm(slope.sum(1, keepdim=True) * anchor, slope, points, alpha=-1)


def _squares(x: Tensor) -> Tensor:
    return torch.linalg.vector_norm(x, dim=1).square_()


def _by(slope: Tensor, distance: Tensor) -> Tensor:
    """Return slopes in half the squared distance, of those in the distance: 0 where that is 0."""
    return slope.div_(distance.clamp_min(torch.finfo(slope.dtype).tiny)).mul_(distance > 0)
