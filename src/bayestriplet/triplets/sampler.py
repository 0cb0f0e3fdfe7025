"""Drawing positives and negatives for every item of a batch from the class distributions."""

import torch
from torch import Generator, Tensor, nn

from bayestriplet.checks import check_choice, check_flag, check_number, check_whole
from bayestriplet.errors import InputError, InputTypeError
from bayestriplet.posterior.checks import check_items
from bayestriplet.posterior.grouping import group_rows
from bayestriplet.posterior.posterior import DISTRIBUTIONS, ClassPosterior
from bayestriplet.triplets.sphere import simplex_vertices, to_sphere
from bayestriplet.triplets.triplets import Triplets

DRAWS = ("own", "shared", "joined")
DRAWS_A_CLASS = 9  # of "joined", where a draw is a negative of every anchor


class TripletSampler(nn.Module):
    """Draws, for every anchor, S positives of its class and one negative of each of S other classes.

    In train mode a call first updates the posterior with the batch; in eval mode it only draws.

    Args:
        posterior: the class distributions.
        num_negatives: S, the number of other classes an anchor meets, the nearest by mean among those
            seen; None means all K - 1.
        draws: "own" draws 2 S points for every anchor; with "shared" every class draws S points
            a step and the anchors share them, for a fraction of the cost. Within an anchor's
            triplets the points are independent either way. "joined" adds the batch's own items to
            shared draws: every point of another class is a negative, each with a positive of the
            anchor's class picked at random, so that S is the number of points.
        distribution: "normal" or "student_t", as in ``ClassPosterior.sample``.
        noise: scales the deviation of a draw from its class mean.
        normalize: embeddings are put on the unit sphere before the update, and draws after it.
        spread: moves the centre of a class's draws this share of the way to the class's own vertex
            of a regular simplex, so that classes lie apart from the first step on; 0 leaves
            it at the posterior's mean. Only on the sphere.

    """

    vertices: Tensor  # (K, D)

    def __init__(
        self,
        posterior: ClassPosterior,
        *,
        num_negatives: int | None = None,
        draws: str = "own",
        distribution: str = "normal",
        noise: float = 1.0,
        normalize: bool = False,
        spread: float = 0.0,
    ) -> None:
        super().__init__()
        if not isinstance(posterior, ClassPosterior):
            raise InputTypeError(f"posterior must be a ClassPosterior; got {type(posterior).__name__}")
        most = posterior.num_classes - 1
        if num_negatives is not None and check_whole("num_negatives", num_negatives, 1) > most:
            raise InputError(f"num_negatives must be at most K - 1 = {most}; got {num_negatives}")
        self.posterior = posterior
        self.num_negatives = num_negatives
        self.draws = check_choice("draws", draws, DRAWS)
        self.distribution = check_choice("distribution", distribution, DISTRIBUTIONS)
        self.noise = check_number("noise", noise, least=0)
        self.normalize = check_flag("normalize", normalize)
        self.spread = check_number("spread", spread, least=0)
        if spread > 1:
            raise InputError(f"spread must be at most 1; got {spread!r}")
        if spread and not normalize:
            raise InputError("spread needs normalize=True: its vertices are on the unit sphere")
        vertices = simplex_vertices(posterior.num_classes, posterior.dim).to(posterior.item_mean)
        self.register_buffer("vertices", vertices, persistent=False)

    def extra_repr(self) -> str:
        names = ("num_negatives", "draws", "distribution", "noise", "normalize", "spread")
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in names)

    def forward(self, embeddings: Tensor, labels: Tensor, generator: Generator | None = None) -> Triplets:
        """Draw triplets for embeddings (B, D) with labels (B,)."""
        posterior = self.posterior
        posterior.check_generator(generator)
        if self.training:
            anchor, labels, sizes = posterior.agree(embeddings, labels)
        else:
            anchor, labels = check_items(embeddings, labels, posterior.num_classes, posterior.dim)
        if self.normalize:
            anchor = to_sphere(anchor)
        if self.training:
            posterior.absorb(anchor, labels, sizes)
        if self.draws == "joined":
            return self._join(anchor, labels, generator)
        negative_labels, mask = self._choose_negatives(labels)  # (B, S), (B, S)
        wanted = torch.stack([labels.unsqueeze(1).expand_as(mask), negative_labels])  # (2, B, S)
        points, index = self._draw(wanted, mask.expand_as(wanted), generator)
        points = self._finish(points, anchor)  # (P, D)
        return Triplets(anchor, points, index, labels, negative_labels, mask)

    def _finish(self, points: Tensor, like: Tensor) -> Tensor:
        """Place points (P, D) on the sphere, in the precision of ``like``: constants of the loss."""
        points = points.to(like.dtype)
        return to_sphere(points) if self.normalize else points

    def _join(self, anchor: Tensor, labels: Tensor, generator: Generator | None) -> Triplets:
        """Pair every point of another class, drawn or in the batch, with a positive picked at random."""
        posterior = self.posterior
        seen = posterior.seen > 0  # (K,)
        distinct = seen.nonzero().squeeze(1)
        num = min(DRAWS_A_CLASS, posterior.num_classes - 1)
        drawn = self._draw_classes(distinct, num, generator).flatten(0, 1)  # (P - B, D)
        classes = distinct.repeat_interleave(num)
        points = torch.cat([self._finish(drawn, anchor), anchor])  # (P, D)
        point_labels = torch.cat([classes, labels])  # (P,)
        mask = (point_labels != labels.unsqueeze(1)) & seen[labels].unsqueeze(1)  # (B, P)
        if self.num_negatives is not None:
            negatives, _ = self._choose_negatives(labels)
            chosen = torch.zeros(len(labels), posterior.num_classes, dtype=torch.bool, device=labels.device)
            chosen.scatter_(1, negatives, True)  # the classes whose draws an anchor meets
            mask[:, : len(classes)] &= chosen[:, classes]
        positive = _pick_positives(point_labels, labels, generator)  # (B, P)
        index = torch.stack([positive, torch.arange(len(points), device=labels.device).expand_as(mask)])
        return Triplets(
            anchor, points, index.mul_(mask), labels, point_labels.expand_as(mask), mask
        )  # fmt: skip

    def _choose_negatives(self, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the negatives' classes (B, S) and where anchor and negative were both seen (B, S)."""
        seen = self.posterior.seen > 0  # (K,)
        if self.num_negatives is None:
            other = torch.arange(self.posterior.num_classes - 1, device=labels.device)
            negative_labels = other + (other >= labels.unsqueeze(1))  # (B, K - 1), skips the own class
            return negative_labels, seen[negative_labels] & seen[labels].unsqueeze(1)
        mean = self.posterior.mean
        rank = torch.cdist(mean[labels], mean)  # (B, K)
        rank = rank.masked_fill(~seen, torch.inf).scatter(1, labels.unsqueeze(1), torch.inf)
        rank, negative_labels = rank.topk(self.num_negatives, largest=False)
        return negative_labels, rank.isfinite() & seen[labels].unsqueeze(1)

    def _draw_classes(self, classes: Tensor, num: int, generator: Generator | None) -> Tensor:
        """Draw (P, num, D) from distinct, ascending ``classes`` (P,)."""
        toward = self.vertices[classes].to(self.posterior.item_mean.dtype) if self.spread else None
        return self.posterior.draw(
            classes, num, generator, distribution=self.distribution, noise=self.noise,
            toward=toward, share=self.spread,
        )  # fmt: skip

    def _draw(self, wanted: Tensor, mask: Tensor, generator: Generator | None) -> tuple[Tensor, Tensor]:
        """Draw for a table of wanted classes (2, B, S): points (P, D), and their rows (2, B, S)."""
        posterior = self.posterior
        if not mask.any():
            return posterior.item_mean.new_zeros(1, posterior.dim), torch.zeros_like(wanted)
        if self.draws == "own":
            classes = wanted[mask]  # (P,), each of them seen
            index = torch.zeros_like(wanted)
            index[mask] = torch.arange(len(classes), device=classes.device)
            groups = group_rows(classes, posterior.num_classes)
            table = self._draw_classes(groups.classes, groups.width, generator)
            return groups.collect(table), index
        num = wanted.shape[2]
        if self.num_negatives is None and mask.all():  # every class was seen and is wanted
            distinct = torch.arange(posterior.num_classes, device=wanted.device)
            points = self._draw_classes(distinct, num, generator)  # (K, S, D)
            index = wanted * num + distinct[:num]
            return points.flatten(0, 1), index
        if self.num_negatives is None:
            present = posterior.seen > 0  # (K,): with an anchor and a negative, all of them are wanted
        else:
            present = torch.zeros_like(posterior.seen, dtype=torch.bool).index_fill_(0, wanted[mask], True)
        distinct = present.nonzero().squeeze(1)
        points = self._draw_classes(distinct, num, generator)  # (classes, S, D)
        line = (present.cumsum(0) - 1) * num  # (K,) row of a class's first point
        index = line[wanted] + torch.arange(num, device=wanted.device)
        return points.flatten(0, 1), index.masked_fill_(~mask, 0)


def _pick_positives(point_labels: Tensor, labels: Tensor, generator: Generator | None) -> Tensor:
    """Pick, P times for each anchor, a point of its class with equal chances: rows (B, P) of the points.

    The points (P,) end with the anchors (B,) themselves; none is its own positive. A class without
    another point gets any row.
    """
    size = torch.bincount(point_labels)  # (K,)
    order = point_labels.argsort(stable=True)  # (P,) the points, class by class
    start = (size.cumsum(0) - size)[labels].unsqueeze(1)  # (B, 1) where the anchor's class begins in there
    position = torch.empty_like(order).index_copy_(0, order, torch.arange(len(order), device=labels.device))
    others = size[labels].unsqueeze(1) - 1  # (B, 1)
    dice = torch.rand(len(labels), len(order), generator=generator, device=labels.device)
    spot = (dice * others).long().add_(start)  # (B, P)
    spot += spot >= position[len(order) - len(labels) :].unsqueeze(1)  # past the anchor itself
    return order[spot.clamp_(max=len(order) - 1)]
