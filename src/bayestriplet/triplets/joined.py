"""Draws joined with the batch: every point of another class is a negative of an anchor."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from bayestriplet.posterior.host import send
from bayestriplet.triplets.triplets import Triplets


@dataclass(frozen=True)
class OwnPoints:
    """Which of P points are of the class of each of B anchors, and how many others it meets."""

    rows: Tensor  # (B, R) the positives, then the anchor itself until the line is full
    positives: Tensor  # (B, 1) how many, as the anchors are
    weight: Tensor  # (B, R) triplets of each positive, if all have the same number; 0 behind them
    triplets: int  # of all anchors
    unseen: Tensor  # (U,) points of classes never seen: negatives of no anchor
    strangers: Tensor  # (V,) anchors of such classes, which have no triplets

    def leave_out_(self, table: Tensor, value: float) -> None:
        """Set what is no negative of its anchor, in a table (B, P)."""
        table.scatter_(1, self.rows, value)
        if len(self.unseen):
            table.index_fill_(1, self.unseen, value)
        if len(self.strangers):
            table.index_fill_(0, self.strangers, value)

    def pick(self, number: int, generator: Generator | None) -> Tensor:
        """Return a column of ``rows`` for each of so many points: a positive, picked with equal chances."""
        size, like = (len(self.rows), number), self.positives
        dice = torch.rand(size, generator=generator, dtype=like.dtype, device=like.device)
        return dice.mul_(like).long().clamp_(max=self.rows.shape[1] - 1)


def own_points(
    point_labels: NDArray[np.int64], size: int, seen: NDArray[np.bool_], like: Tensor
) -> OwnPoints:
    """Return the own points of ``size`` anchors, which are the last of the points (P,).

    ``seen`` (P,) tells which points are of classes with items. Tensors are as the embeddings ``like``.
    """
    number = len(point_labels)
    labels, itself = point_labels[number - size :], np.arange(number - size, number)  # (B,), (B,)
    order = np.argsort(point_labels, kind="stable")  # (P,) the points, class by class
    place = np.empty_like(order)
    place[order] = np.arange(number)
    ordered = point_labels[order]
    begin = np.searchsorted(ordered, labels)
    positives = np.searchsorted(ordered, labels, side="right") - begin - 1
    slot = np.arange(positives.max(initial=0) + 1)  # (R,)
    rows = order[np.minimum(begin[:, None] + slot, number - 1)]
    line = np.arange(size)
    rows[line, place[itself] - begin] = rows[line, positives]  # the last takes the place of the anchor
    is_positive = slot < positives[:, None]
    rows = np.where(is_positive, rows, itself[:, None])
    negatives = np.where(seen[itself], np.count_nonzero(seen) - positives - 1, 0)  # (B,)
    weight = is_positive * (negatives / np.maximum(positives, 1))[:, None]
    kind = np.float64 if like.dtype == torch.float64 else np.float32
    sent = send(
        like, rows, positives[:, None].astype(kind), weight.astype(kind), np.flatnonzero(~seen),
        np.flatnonzero(~seen[itself]),
    )  # fmt: skip
    return OwnPoints(sent[0], sent[1], sent[2], int(negatives.sum()), sent[3], sent[4])


class Joined(Triplets):
    """Triplets of B anchors and P points, of which the last B are the anchors themselves.

    Negative s of every anchor is point s. Its positive is the one of ``picked``; losses that can do so
    take all positives of the anchor alike instead. Tables that no loss needs are made when asked for.
    """

    own: OwnPoints | None = None  # None in a copy made by ``dataclasses.replace``
    point_labels: Tensor  # (P,)
    picked: Tensor | None  # (B, P) columns of own.rows; None takes them in turn
    on_sphere: bool

    @classmethod
    def of(
        cls, anchor: Tensor, points: Tensor, labels: Tensor, point_labels: Tensor, own: OwnPoints,
        picked: Tensor | None, on_sphere: bool,
    ) -> "Joined":  # fmt: skip
        """Return the triplets of anchors (B, D) and points (P, D), without an index."""
        return cls._with(
            anchor=anchor, points=points, labels=labels, point_labels=point_labels, own=own, picked=picked,
            on_sphere=on_sphere,
        )  # fmt: skip

    @classmethod
    def _with(cls, **values: Any) -> "Joined":
        made = object.__new__(cls)
        made.__dict__.update(values)
        return made

    def detach(self) -> "Joined":
        values = {**self.__dict__, "anchor": self.anchor.detach(), "points": self.points.detach()}
        return self._with(**values)

    @cached_property
    def columns(self) -> Tensor:
        """The columns (B, P) of own.rows that the positives stand in."""
        if self.picked is not None:
            return self.picked
        positives = self._own.positives.long()
        return torch.arange(len(self.points), device=positives.device) % positives.clamp_min(1)

    @cached_property
    def index(self) -> Tensor:  # type: ignore[override]
        rows = self._own.rows
        negatives = torch.arange(len(self.points), device=rows.device).expand(len(rows), -1)
        return torch.stack([rows.gather(1, self.columns), negatives])

    @cached_property
    def mask(self) -> Tensor:  # type: ignore[override]
        mask = torch.ones(len(self.anchor), len(self.points), dtype=torch.bool, device=self.anchor.device)
        self._own.leave_out_(mask, False)
        return mask

    @cached_property
    def negative_labels(self) -> Tensor:  # type: ignore[override]
        return self.point_labels.expand(len(self.anchor), -1)

    @property
    def _own(self) -> OwnPoints:
        if self.own is None:
            raise AttributeError("own")
        return self.own
