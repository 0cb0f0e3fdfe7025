"""Draws joined with the batch: every point of another class is a negative of an anchor."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from bayestriplet.posterior.host import kind_of, send
from bayestriplet.triplets.sphere import to_sphere
from bayestriplet.triplets.triplets import Triplets


@dataclass(frozen=True)
class OwnPoints:
    """Which of P points are of the class of each of B anchors, and how many others it meets."""

    rows: Tensor  # (B, R) the positives, then the anchor itself until the line is full
    positives: Tensor  # (B, 1) how many, as the anchors are
    weight: Tensor  # (B, R) share of all triplets, if an anchor's positives have the same; 0 behind them
    triplets: int  # of all anchors
    unseen: Tensor | None  # (U,) points of classes never seen: negatives of no anchor
    strangers: Tensor | None  # (V,) anchors of such classes, which have no triplets

    def leave_out_(self, table: Tensor, value: float) -> None:
        """Set what is no negative of its anchor, in a table (B, P)."""
        table.scatter_(1, self.rows, value)
        if self.unseen is not None:
            table.index_fill_(1, self.unseen, value)
        if self.strangers is not None:
            table.index_fill_(0, self.strangers, value)

    def pick(self, number: int, generator: Generator | None) -> Tensor:
        """Return a column of ``rows`` for each of so many points: a positive, picked with equal chances."""
        size, like = (len(self.rows), number), self.positives
        dice = torch.rand(size, generator=generator, dtype=like.dtype, device=like.device)
        return dice.mul_(like).long().clamp_(max=self.rows.shape[1] - 1)


def own_points(
    point_labels: NDArray[np.int64], seen: NDArray[np.bool_], size: int, like: Tensor
) -> OwnPoints:
    """Return the own points of ``size`` anchors, which are the last of the points (P,).

    ``seen`` (P,) tells which points are of classes with items. Tensors are as the embeddings ``like``.
    """
    number = len(point_labels)
    labels, itself = point_labels[number - size :], np.arange(number - size, number)  # (B,), (B,)
    order = point_labels.argsort(kind="stable")  # (P,) the points, class by class
    place = np.empty_like(order)
    place[order] = np.arange(number)
    ordered = point_labels[order]
    begin = ordered.searchsorted(labels)
    positives = ordered.searchsorted(labels, "right") - begin - 1
    slot = np.arange(positives.max(initial=0) + 1)  # (R,)
    rows = order[np.minimum(begin[:, None] + slot, number - 1)]
    line = np.arange(size)
    rows[line, place[itself] - begin] = rows[line, positives]  # the last takes the place of the anchor
    is_positive = slot < positives[:, None]
    rows = np.where(is_positive, rows, itself[:, None])
    negatives = (np.count_nonzero(seen) - positives - 1) * seen[itself]  # (B,)
    kind = kind_of(like)
    triplets = int(negatives.sum())
    weight = is_positive * (negatives / np.maximum(positives * max(1, triplets), 1)).astype(kind)[:, None]
    sent = send(like, rows, positives[:, None].astype(kind), weight)
    unseen = strangers = None
    if not seen.all():
        unseen, strangers = send(like, np.flatnonzero(~seen), np.flatnonzero(~seen[itself]))
    return OwnPoints(sent[0], sent[1], sent[2], triplets, unseen, strangers)


class Joined(Triplets):
    """Triplets of B anchors and P points, of which the last B are the anchors themselves.

    Negative s of every anchor is point s. Its positive is the one of ``picked``; losses that can do so
    take all positives of the anchor alike instead. What no loss needs is made when it is asked for.
    """

    own: OwnPoints | None = None  # None in a copy made by ``dataclasses.replace``
    source: Tensor  # (B, D) the embeddings, in the graph
    length: Tensor | None  # (B, 1) of the embeddings, where they are put on the sphere
    rows: Tensor  # (P, D) the points, outside the graph
    drawn: Tensor  # (C,) the classes of the draws, each of which has the same number
    picked: Tensor | None  # (B, P) columns of own.rows; None takes them in turn

    @classmethod
    def of(cls, **values: Any) -> "Joined":
        """Return triplets with these attributes, without making any other."""
        made = object.__new__(cls)
        made.__dict__.update(values)
        return made

    @property
    def unit(self) -> Tensor:
        """The anchors (B, D) outside the graph."""
        return self.rows[self.rows.shape[0] - self.source.shape[0] :]

    @cached_property
    def anchor(self) -> Tensor:
        return self.source if self.length is None else to_sphere(self.source)

    @cached_property
    def points(self) -> Tensor:
        return torch.cat([self.rows[: len(self.rows) - len(self.source)], self.anchor])

    def detach(self) -> "Joined":
        kept = {**self.__dict__, "source": self.unit, "length": None}
        kept.pop("anchor", None)
        kept.pop("points", None)
        return self.of(**kept)

    @cached_property
    def columns(self) -> Tensor:
        """The columns (B, P) of own.rows that the positives stand in."""
        if self.picked is not None:
            return self.picked
        positives = self._own.positives.long()
        return torch.arange(len(self.rows), device=positives.device) % positives.clamp_min(1)

    @cached_property
    def index(self) -> Tensor:
        rows = self._own.rows
        negatives = torch.arange(len(self.rows), device=rows.device).expand(len(rows), -1)
        return torch.stack([rows.gather(1, self.columns), negatives])

    @cached_property
    def mask(self) -> Tensor:
        mask = torch.ones(len(self.source), len(self.rows), dtype=torch.bool, device=self.rows.device)
        self._own.leave_out_(mask, False)
        return mask

    @cached_property
    def point_labels(self) -> Tensor:
        """The classes (P,) of the points."""
        number = len(self.rows) - len(self.source)
        drawn = self.drawn.unsqueeze(1).expand(-1, number // len(self.drawn)).flatten()
        return torch.cat([drawn, self.labels])

    @cached_property
    def negative_labels(self) -> Tensor:
        return self.point_labels.expand(len(self.source), -1)

    @property
    def _own(self) -> OwnPoints:
        if self.own is None:
            raise AttributeError("own")
        return self.own
