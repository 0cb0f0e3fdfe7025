"""Drawing positives and negatives for every item of a batch from the class distributions."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor, nn

from bayestriplet.checks import check_choice, check_flag, check_number, check_whole
from bayestriplet.errors import InputError, InputTypeError
from bayestriplet.methods import DRAW_CLASSES
from bayestriplet.posterior.checks import read_items
from bayestriplet.posterior.chosen import Chosen
from bayestriplet.posterior.grouping import group_rows
from bayestriplet.posterior.host import read, send
from bayestriplet.posterior.latest import Latest
from bayestriplet.posterior.posterior import DISTRIBUTIONS, EVERYWHERE, ClassPosterior
from bayestriplet.triplets.joined import Joined, OwnPoints, own_points
from bayestriplet.triplets.sphere import Vertices, length_of, to_sphere
from bayestriplet.triplets.triplets import Triplets

DRAWS = ("own", "shared", "joined")
DRAWS_A_CLASS = 8  # of "joined", where a draw is a negative of every anchor; so many at the most
DRAWS_IN_ALL = 512  # of "joined": with many classes, each has fewer draws, but at least
FEWEST_DRAWS = 2
LOOKED_AT = 2048  # classes among which a step looks for the nearest, about so many at the most


_of_all_classes: Latest[OwnPoints] = Latest()


class TripletSampler(nn.Module):
    """Draws, for every anchor, S positives of its class and one negative of each of S other classes.

    In train mode a call first updates the posterior with the batch; in eval mode it only draws.

    Args:
        posterior: the class distributions.
        draw_classes: how many classes a step draws from at most: all K up to so many, else the classes
            of the batch (in any case) and those nearest to them by mean.
        draws: "own" draws 2 S points for every anchor; with "shared" every class draws S points
            a step and the anchors share them, for a fraction of the cost. Within an anchor's
            triplets the points are independent either way. "joined" adds the batch's own items to
            shared draws: every point of another class is a negative, so that S is the number of points.
            Each has a positive of the anchor's class picked at random; ``nca_loss`` takes them all alike.
        distribution: "normal" or "student_t", as in ``ClassPosterior.sample``.
        noise: scales the deviation of a draw from its class mean.
        normalize: embeddings are put on the unit sphere before the update, and draws after it.
        spread: moves the centre of a class's draws this share of the way to the class's own vertex
            of a regular simplex, so that classes lie apart from the first step on; 0 leaves
            it at the posterior's mean. Only on the sphere.
        handover: lets the spread fall as classes come to lie apart elsewhere than at their vertices
            (docs/method.md, eq. 9c).

    >>> sampler = bt.TripletSampler(posterior, noise=0.5)
    >>> triplets = sampler(embeddings, labels)
    >>> triplets.anchor.shape, triplets.mask.shape
    (torch.Size([4, 2]), torch.Size([4, 2]))

    """

    def __init__(
        self,
        posterior: ClassPosterior,
        *,
        draw_classes: int = DRAW_CLASSES,
        draws: str = "own",
        distribution: str = "normal",
        noise: float = 1.0,
        normalize: bool = False,
        spread: float = 0.0,
        handover: bool = False,
    ) -> None:
        super().__init__()
        if not isinstance(posterior, ClassPosterior):
            raise InputTypeError(f"posterior must be a ClassPosterior; got {type(posterior).__name__}")
        self.posterior = posterior
        self.draw_classes = check_whole("draw_classes", draw_classes, 2)
        self.draws = check_choice("draws", draws, DRAWS)
        self.distribution = check_choice("distribution", distribution, DISTRIBUTIONS)
        self.noise = check_number("noise", noise, least=0)
        self.normalize = check_flag("normalize", normalize)
        self.spread = check_number("spread", spread, least=0)
        if spread > 1:
            raise InputError(f"spread must be at most 1; got {spread!r}")
        if spread and not normalize:
            raise InputError("spread needs normalize=True: its vertices are on the unit sphere")
        self.handover = check_flag("handover", handover) and spread > 0
        posterior.judges = posterior.judges or self.handover
        self.vertex = Vertices(posterior.num_classes, posterior.dim, posterior.item_mean.dtype)

    def extra_repr(self) -> str:
        """Return what ``print`` shows beside the name.

        >>> "noise=1.0" in bt.TripletSampler(posterior).extra_repr()
        True
        """
        names = ("draw_classes", "draws", "distribution", "noise", "normalize", "spread", "handover")
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in names)

    def forward(
        self, embeddings: Tensor, labels: Tensor, generator: Generator | None = None, pick: bool = True
    ) -> Triplets:
        """Draw triplets for embeddings (B, D) with labels (B,).

        Losses of "joined" triplets that take all positives of an anchor alike need none to be picked:
        without ``pick`` they come in turn, if anybody asks.

        >>> sampler = bt.TripletSampler(posterior).eval()  # the posterior stays as it is
        >>> sampler(embeddings, labels, generator=torch.Generator().manual_seed(0)).labels
        tensor([0, 0, 1, 1])
        """
        posterior = self.posterior
        posterior.check_generator(generator)
        if self.training:
            source, labels, sizes, numbers = posterior.agree(embeddings, labels)
        else:
            source, labels, numbers = read_items(embeddings, labels, posterior.num_classes, posterior.dim)
        with torch.no_grad():
            length = length_of(source) if self.normalize else None
            unit = source.detach() if length is None else source / length
            if self.training:
                posterior.absorb(unit, labels, sizes, numbers)
            chosen = self._choose_classes(numbers, labels)  # (C,)
            if self.draws == "joined":
                return self._join(source, unit, length, labels, numbers, chosen, generator, pick)
            chosen = chosen.sorted()
            negative_labels, mask = self._pair_classes(labels, chosen.classes)  # (B, S), (B, S)
            wanted = torch.stack([labels.unsqueeze(1).expand_as(mask), negative_labels])  # (2, B, S)
            points, index = self._draw(wanted, mask.expand_as(wanted), chosen, generator)
            points = self._finish(points, unit)  # (P, D)
        return Triplets(
            to_sphere(source) if self.normalize else source, points, index, labels, negative_labels, mask
        )

    def _finish(self, points: Tensor, like: Tensor) -> Tensor:
        """Place points (P, D) on the sphere, in the precision of ``like``: constants of the loss."""
        points = points.to(like.dtype)
        return points / length_of(points) if self.normalize else points

    def _choose_classes(self, numbers: NDArray[np.int64], labels: Tensor) -> Chosen:
        """Return the classes (C,) to draw from.

        All K, ascending, or those of the batch followed by the nearest of each in turn that have items; a
        class that is near to several of the batch may come several times.
        """
        posterior = self.posterior
        if posterior.num_classes <= self.draw_classes:
            return posterior.everyone()
        own = np.unique(numbers)  # (P,)
        (classes,) = send(labels, own)
        more = self.draw_classes - len(own)
        if more <= 0:
            return Chosen(classes, own)
        # Not read from the device, where they are found: a step would wait for it.
        number = min(-(-more // len(own)), max(1, self._others(own)))
        near = posterior.nearest(classes, number, self._stretch(own, number))
        return Chosen(torch.cat([classes, near.T.flatten()[:more]]), None)

    def _stretch(self, own: NDArray[np.int64], number: int) -> slice:
        """Return where near classes are looked for: everywhere, or among many in a part of them.

        Another part every time, so that what a step costs does not grow with the classes. Which one
        follows from the batch and what was seen of its classes, so that a resumed training finds the same.
        """
        seen = self.posterior.numbers()[1]
        parts = -(-len(seen) // LOOKED_AT)
        if parts > 1:
            part = int(own.sum() + seen[own].sum()) % parts
            stretch = slice(part * len(seen) // parts, (part + 1) * len(seen) // parts)
            if np.count_nonzero(seen[stretch]) >= number + len(own):
                return stretch
        return EVERYWHERE

    def _others(self, own: NDArray[np.int64]) -> int:
        """Return how many classes with items there are beside ``own`` (P,)."""
        seen = self.posterior.numbers()[1]
        return int(np.count_nonzero(seen)) - int(np.count_nonzero(seen[own]))

    def _join(
        self, source: Tensor, unit: Tensor, length: Tensor | None, labels: Tensor,
        numbers: NDArray[np.int64], chosen: Chosen, generator: Generator | None, pick: bool,
    ) -> Joined:  # fmt: skip
        """Join draws and batch: every point of another class is a negative."""
        num = draws_per_class(len(chosen), self.posterior.num_classes)
        drawn = self._draw_classes(chosen, num, generator).flatten(0, 1)  # (P - B, D)
        rows = torch.cat([self._finish(drawn, unit), unit])  # (P, D)
        own = self._own_points(numbers, chosen, num, unit)
        picked = own.pick(len(rows), generator) if pick else None
        return Joined.of(
            source=source,
            length=length,
            rows=rows,
            labels=labels,
            drawn=chosen.classes,
            own=own,
            picked=picked,
        )

    def _own_points(self, numbers: NDArray[np.int64], chosen: Chosen, num: int, like: Tensor) -> OwnPoints:
        """Return which points are of the class of each anchor; of all classes, the same for equal labels."""
        if len(chosen) < self.posterior.num_classes or not self.posterior.numbers()[1].all():
            return own_points(*self._point_numbers(numbers, chosen, num), len(numbers), like)
        key = numbers.tobytes(), len(chosen), num, like.dtype, like.device
        return _of_all_classes.get(
            key, lambda: own_points(*self._point_numbers(numbers, chosen, num), len(numbers), like)
        )

    def _point_numbers(
        self, numbers: NDArray[np.int64], chosen: Chosen, num: int
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the class numbers (P,) of draws and batch on the host, and whether they were seen (P,).

        Classes near to those of the batch, which only the device knows, are -1: they are others.
        """
        seen = self.posterior.numbers()[1]
        if chosen.known is not None:
            every = np.concatenate([chosen.known.repeat(num), numbers])
            return every, seen[every] > 0
        own = np.unique(numbers)
        drawn = np.concatenate([own, np.full(len(chosen) - len(own), -1)]).repeat(num)
        every = np.concatenate([drawn, numbers])
        return every, np.where(every < 0, self._others(own) > 0, seen[every] > 0)

    def _pair_classes(self, labels: Tensor, classes: Tensor) -> tuple[Tensor, Tensor]:
        """Return the negatives' classes (B, S) and where anchor and negative were both seen (B, S)."""
        other = torch.arange(len(classes) - 1, device=labels.device)
        place = torch.searchsorted(classes, labels).unsqueeze(1)  # (B, 1)
        chosen = classes[other + (other >= place)]  # (B, S), skips the own class
        seen = self.posterior.seen > 0  # (K,)
        return chosen, seen[chosen] & seen[labels].unsqueeze(1)

    def _draw_classes(self, chosen: Chosen, num: int, generator: Generator | None) -> Tensor:
        """Draw (C, num, D) from classes (C,)."""
        toward = self.vertex(chosen.classes) if self.spread else None
        return self.posterior.draw(
            chosen, num, generator, distribution=self.distribution, noise=self.noise,
            toward=toward, spread=self.spread, handover=self.handover, mirrored=self.draws == "joined",
        )  # fmt: skip

    def _draw(
        self, wanted: Tensor, mask: Tensor, chosen: Chosen, generator: Generator | None
    ) -> tuple[Tensor, Tensor]:
        """Draw for a table of wanted classes (2, B, S): points (P, D), and their rows (2, B, S)."""
        if self.draws == "shared":
            num = wanted.shape[2]
            points = self._draw_classes(chosen, num, generator)  # (C, S, D)
            line = torch.searchsorted(chosen.classes, wanted) * num
            index = line + torch.arange(num, device=wanted.device)
            return points.flatten(0, 1), index.masked_fill_(~mask, 0)
        drawn = wanted[mask]  # (P,), each of them seen
        index = torch.zeros_like(wanted)
        if not len(drawn):
            return self.posterior.item_mean.new_zeros(1, self.posterior.dim), index
        index[mask] = torch.arange(len(drawn), device=drawn.device)
        groups = group_rows(read(drawn)[0], like=drawn)
        table = self._draw_classes(groups.chosen, groups.width, generator)
        return groups.collect(table), index


def draws_per_class(classes: int, num_classes: int) -> int:
    """Return how many points "joined" draws of each of so many classes: 8, and fewer above 64."""
    bounded = max(FEWEST_DRAWS, min(DRAWS_A_CLASS, DRAWS_IN_ALL // classes))
    return min(bounded, num_classes - 1)
