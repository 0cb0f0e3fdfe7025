"""Losses of draws joined with the batch: value and gradient at once, from one table of B x P distances."""

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from bayestriplet.posterior.precision import full_precision
from bayestriplet.triplets.joined import Joined, OwnPoints
from bayestriplet.triplets.slopes import LOW, hinges, lowest, negative_log_shares
from bayestriplet.triplets.sphere import before_sphere, refuse_second_derivative


class JoinedLoss(Protocol):
    """A loss of anchors (B, D) and points (P, D), which end with the anchors."""

    def __call__(
        self, anchor: Tensor, points: Tensor, joined: Joined, own: OwnPoints
    ) -> tuple[Tensor, Tensor, float]:
        """Return its value (), and slopes (B, P) and a factor of them: in half the squared distances."""


@dataclass(frozen=True)
class AllPositives:
    """The NCA loss with all positives of an anchor alike: its mean over all ways to pick them (eq. 12a).

    Positives of the batch within ``positive_margin`` of the anchor count as if they were that far (eq. 12b).
    """

    temperature: float
    include_positive: bool
    reduction: str
    positive_margin: float = 0.0

    def __call__(
        self, anchor: Tensor, points: Tensor, joined: Joined, own: OwnPoints
    ) -> tuple[Tensor, Tensor, float]:
        scale = 2 / self.temperature
        # -|a - p|^2 / temperature, but for |a|^2, which is the same for all points of an anchor: it cancels.
        squares = _squares(points)
        length = squares[len(points) - len(anchor) :].unsqueeze(1)  # (B, 1) of the anchors, squared
        bounded = joined.length is not None and -2 * scale >= LOW
        if bounded:
            length = torch.zeros_like(length)
            squares.add_(1)
        logit = torch.addmm(squares, anchor, points.mT, beta=-scale / 2, alpha=scale)  # (B, P)
        near = logit.gather(1, own.rows)  # (B, R)
        pulls = None
        if self.positive_margin:
            nearest = (length - self.positive_margin).mul_(scale / 2)  # (B, 1)
            pulls = (near <= nearest) | (own.rows < len(points) - len(anchor))
            near = near.where(pulls, nearest)
        own.leave_out_(logit, -torch.inf if bounded else lowest(logit))
        weight = own.weight if self.reduction == "mean" else own.weight * own.triplets
        value, of_near, of_far = negative_log_shares(near, logit, weight, self.include_positive, bounded)
        if pulls is not None:
            of_near = of_near.mul_(pulls)
        return value, of_far.scatter_(1, own.rows, of_near), -scale


@dataclass(frozen=True)
class PickedHinge:
    """The triplet loss of every negative with the positive picked for it."""

    margin: float
    reduction: str
    squared: bool
    terms: int

    def __call__(
        self, anchor: Tensor, points: Tensor, joined: Joined, own: OwnPoints
    ) -> tuple[Tensor, Tensor, float]:
        squares = _squares(points)
        distance = torch.addmm(squares, anchor, points.mT, alpha=-2)  # (B, P)
        distance.add_(squares[len(points) - len(anchor) :].unsqueeze(1)).clamp_min_(0)
        if not self.squared:
            distance.sqrt_()
        near = distance.gather(1, own.rows)  # (B, R)
        own.leave_out_(distance, torch.finfo(distance.dtype).max / 4)
        gap = near.gather(1, joined.columns).sub_(distance)
        value, slope = hinges(gap, self.margin, self.reduction, self.terms)
        of_near = torch.zeros_like(near).scatter_add_(1, joined.columns, slope)
        of_far = slope.neg_()
        if self.squared:
            return value, of_far.scatter_(1, own.rows, of_near), 2.0
        return value, _by(of_far, distance).scatter_(1, own.rows, _by(of_near, near)), 1.0


def of_joined(joined: Joined, loss: JoinedLoss) -> Tensor:
    """Return a loss of joined draws, connected to the embeddings."""
    with full_precision(joined.rows):
        value: Tensor = _OfJoined.apply(joined.source, joined, loss)  # type: ignore[no-untyped-call]
    return value


class _OfJoined(torch.autograd.Function):
    """From embeddings to the value; the gradient is ready before it is asked for.

    Anchors and points are centred off the sphere, because |a|^2 + |p|^2 - 2 a p cancels badly far
    from the origin.
    """

    @staticmethod
    def forward(ctx: Any, source: Tensor, joined: Joined, loss: JoinedLoss) -> Tensor:
        del source  # whose values ``joined`` holds, on the sphere or not
        own, points, unit = joined.own, joined.rows, joined.unit
        if own is None:
            raise AttributeError("own")
        anchor = unit
        if joined.length is None:
            center = points.mean(0)
            anchor, points = anchor - center, points - center
        value, slope, factor = loss(anchor, points, joined, own)
        if ctx.needs_input_grad[0]:
            gradient = gradient_of(slope, factor, anchor, points, radial=joined.length is None)
            if joined.length is not None:
                gradient = before_sphere(gradient, unit, joined.length)
            ctx.save_for_backward(gradient)
        return value

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        refuse_second_derivative()
        return ctx.saved_tensors[0] * gradient, None, None


def gradient_of(slope: Tensor, factor: float, anchor: Tensor, points: Tensor, radial: bool) -> Tensor:
    """Return the gradient (B, D) in the anchors, of factor times slopes (B, P) in half the squared distances.

    An anchor moves as one, and as a point that others meet: the slopes of both add up. They are
    overwritten. What is not ``radial`` lacks a multiple of the anchor, which the sphere takes out anyway.
    """
    batch = slope[:, points.shape[0] - anchor.shape[0] :]  # (B, B)
    batch.copy_(batch + batch.mT)
    if not radial:
        return torch.addmm(anchor, slope, points, beta=0, alpha=-factor)
    return torch.addmm(slope.sum(1, keepdim=True) * anchor, slope, points, beta=factor, alpha=-factor)


def _squares(x: Tensor) -> Tensor:
    return torch.linalg.vector_norm(x, dim=1).square_()


def _by(slope: Tensor, distance: Tensor) -> Tensor:
    """Return slopes in half the squared distance, of those in the distance: 0 where that is 0."""
    return slope.div_(distance.clamp_min(torch.finfo(slope.dtype).tiny)).mul_(distance > 0)
