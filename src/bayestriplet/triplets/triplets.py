"""What a triplet sampler returns."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from bayestriplet.posterior.precision import full_precision
from bayestriplet.triplets.sphere import refuse_second_derivative


@dataclass(frozen=True)
class Triplets:
    """B anchors with S positives and S negatives each, rows of P drawn points.

    Entry (i, s) exists where ``mask`` is true: where the anchor's class and the negative's
    class were both seen. The indices of a masked entry mean nothing.

    >>> triplets = bt.TripletSampler(posterior, draws="own")(embeddings, labels)
    >>> triplets.anchor.shape, triplets.points.shape, triplets.index.shape
    (torch.Size([4, 2]), torch.Size([8, 2]), torch.Size([2, 4, 2]))
    """

    anchor: Tensor  # (B, D)
    points: Tensor  # (P, D)
    index: Tensor  # (2, B, S) rows of points: the positives, then the negatives
    labels: Tensor  # (B,)
    negative_labels: Tensor  # (B, S)
    mask: Tensor  # (B, S) bool

    @classmethod
    def from_points(
        cls, anchor: Tensor, positive: Tensor, negative: Tensor, labels: Tensor, negative_labels: Tensor
    ) -> "Triplets":
        """Return the triplets of anchors (B, D) with positives and negatives (B, S, D) of their own.

        >>> triplets = bt.Triplets.from_points(
        ...     embeddings[:1], embeddings[None, 1:2], embeddings[None, 2:3], labels[:1], labels[None, 2:3]
        ... )
        >>> triplets.positive.tolist(), triplets.negative.tolist()
        ([[[0.0, 3.0]]], [[[4.0, 0.0]]])
        """
        rows = torch.arange(2 * negative_labels.numel(), device=labels.device)
        points = torch.cat([positive.flatten(0, 1), negative.flatten(0, 1)])
        mask = torch.ones_like(negative_labels, dtype=torch.bool)
        return cls(anchor, points, rows.view(2, *mask.shape), labels, negative_labels, mask)

    def detach(self) -> "Triplets":
        """Return the same triplets outside the graph.

        >>> bt.TripletSampler(posterior)(embeddings, labels).detach().anchor.requires_grad
        False
        """
        return replace(self, anchor=self.anchor.detach(), points=self.points.detach())

    @property
    def positive(self) -> Tensor:
        """The positives (B, S, D).

        >>> bt.TripletSampler(posterior, draws="own")(embeddings, labels).positive.shape
        torch.Size([4, 2, 2])
        """
        return self.points[self.index[0]]

    @property
    def negative(self) -> Tensor:
        """The negatives (B, S, D).

        >>> bt.TripletSampler(posterior, draws="own")(embeddings, labels).negative.shape
        torch.Size([4, 2, 2])
        """
        return self.points[self.index[1]]

    @property
    def share_points(self) -> bool:
        """Whether all B x P distances are fewer numbers than the 2 B S differences of the triplets.

        >>> bt.TripletSampler(posterior, draws="own")(embeddings, labels).share_points
        True
        """
        return len(self.points) <= 2 * self.mask.shape[1] * self.anchor.shape[1]

    def distances(self, squared: bool = True) -> tuple[Tensor, Tensor]:
        """Return the distances of anchors to their positives and to their negatives, both (B, S).

        Where anchors share points, all B x P distances are one matrix product and the entries
        are picked from it; where that would hold more numbers than the 2 B S differences, those
        are taken one by one. A distance of 0 has slope 0, squared or not.

        >>> near, far = bt.TripletSampler(posterior, draws="own")(embeddings, labels).distances()
        >>> near.shape, far.shape
        (torch.Size([4, 2]), torch.Size([4, 2]))
        """
        with full_precision(self.anchor):
            if self.share_points:
                both = _PickedDistances.apply(self.anchor, self.points, self.index, squared)  # type: ignore[no-untyped-call]
            else:
                both = _ListedDistances.apply(self.anchor, self.points[self.index])  # type: ignore[no-untyped-call]
                if not squared:
                    both = both.clamp_min(torch.finfo(both.dtype).tiny).sqrt()
        near, far = both
        return near, far

    def for_pml(self) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor, Tensor], Tensor, Tensor]:
        """Return (embeddings, labels, indices_tuple, ref_emb, ref_labels) for a loss of PML.

        The anchors are the embeddings, the drawn points the references, and the indices list
        the unmasked triplets: ``loss(*triplets.for_pml())``.

        >>> from pytorch_metric_learning.losses import TripletMarginLoss
        >>> triplets = bt.TripletSampler(posterior)(embeddings, labels)
        >>> TripletMarginLoss()(*triplets.for_pml()).shape
        torch.Size([])
        """
        anchor_index = self.mask.nonzero()[:, 0]  # (T,)
        positive_index, negative_index = (rows[self.mask] for rows in self.index)
        labels = self.labels.new_full((len(self.points),), -1)
        labels[positive_index] = self.labels[anchor_index]
        labels[negative_index] = self.negative_labels[self.mask]
        return self.anchor, self.labels, (anchor_index, positive_index, negative_index), self.points, labels


@dataclass(frozen=True)
class DistanceTable:
    """All distances of B anchors to P points, by one matrix product, and their gradients.

    Anchors and points are centred first, because |a|^2 + |p|^2 - 2 a p cancels badly far from
    the origin.
    """

    anchor: Tensor  # (B, D) centred
    points: Tensor  # (P, D) centred
    matrix: Tensor  # (B, P)
    squared: bool

    @classmethod
    def of(cls, anchor: Tensor, points: Tensor, squared: bool) -> "DistanceTable":
        center = points.mean(0)
        anchor, points = anchor - center, points - center
        lengths = torch.linalg.vector_norm(anchor, dim=1, keepdim=True).square_()
        matrix = torch.addmm(torch.linalg.vector_norm(points, dim=1).square_(), anchor, points.mT, alpha=-2)
        matrix.add_(lengths).clamp_min_(0)
        return cls(anchor, points, matrix if squared else matrix.sqrt_(), squared)

    def pick(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Return the distances at an index (2, B, S): to the positives, to the negatives."""
        return self.matrix.gather(1, index[0]), self.matrix.gather(1, index[1])

    def gradients(self, index: Tensor, near: Tensor, far: Tensor) -> tuple[Tensor, Tensor]:
        """Return those of anchors and points, given those of the distances (B, S) at an index (2, B, S)."""
        weight = torch.zeros_like(self.matrix).scatter_add_(1, index[1], far).scatter_add_(1, index[0], near)
        if self.squared:
            weight.mul_(2)
        else:  # the slope of a root is 1 / (2 d), and 0 at 0
            weight.div_(self.matrix.clamp_min(torch.finfo(weight.dtype).tiny)).mul_(self.matrix > 0)
        with full_precision(weight):
            own_anchor = weight.sum(1, keepdim=True) * self.anchor
            own_points = weight.sum(0).unsqueeze(1) * self.points
            to_anchor = torch.addmm(own_anchor, weight, self.points, alpha=-1)
            to_points = torch.addmm(own_points, weight.mT, self.anchor, alpha=-1)
        return to_anchor, to_points


class _PickedDistances(torch.autograd.Function):
    """Distances (B, S), squared or not, of anchors (B, D) to the points (P, D) at an index (2, B, S)."""

    @staticmethod
    def forward(
        ctx: Any, anchor: Tensor, points: Tensor, index: Tensor, squared: bool
    ) -> tuple[Tensor, Tensor]:
        table = DistanceTable.of(anchor, points, squared)
        ctx.squared = squared
        ctx.save_for_backward(table.anchor, table.points, table.matrix, index)
        return table.pick(index)

    @staticmethod
    def backward(ctx: Any, near: Tensor, far: Tensor) -> tuple[Tensor, Tensor, None, None]:
        refuse_second_derivative()
        anchor, points, matrix, index = ctx.saved_tensors
        table = DistanceTable(anchor, points, matrix, ctx.squared)
        return *table.gradients(index, near, far), None, None


class _ListedDistances(torch.autograd.Function):
    """Squared distances (2, B, S) of anchors (B, D) to points (2, B, S, D) of their own."""

    @staticmethod
    def forward(ctx: Any, anchor: Tensor, points: Tensor) -> Tensor:
        difference = points - anchor.unsqueeze(1)  # (2, B, S, D)
        ctx.save_for_backward(difference)
        return torch.linalg.vector_norm(difference, dim=3).square()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        refuse_second_derivative()
        (difference,) = ctx.saved_tensors
        to_points = difference * (2 * gradient).unsqueeze(3)
        return -to_points.sum((0, 2)), to_points
