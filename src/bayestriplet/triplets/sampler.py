"""Drawing positives and negatives for every item of a batch from the class distributions."""

from typing import Any

import torch
from torch import Generator, Tensor, nn

from bayestriplet.errors import InputError, InputTypeError
from bayestriplet.options import check_choice, check_flag, check_number, check_whole
from bayestriplet.posterior.checks import check_items
from bayestriplet.posterior.posterior import DISTRIBUTIONS, ClassPosterior
from bayestriplet.triplets.sphere import to_sphere
from bayestriplet.triplets.triplets import Triplets

DRAWS = ("own", "shared")
GRADIENTS = ("anchor", "means")
NEGATIVES = ("nearest", "random")


class TripletSampler(nn.Module):
    """Draws, for every anchor, S positives of its class and one negative of each of S other classes.

    In train mode a call first updates the posterior with the batch; in eval mode it only draws.

    Args:
        posterior: the class distributions.
        num_negatives: S, the number of other classes an anchor meets; None means all K - 1.
        negatives: which ones: "nearest" by mean, or "random", among the classes seen.
        draws: "own" draws 2 S points for every anchor; with "shared" every class draws S points
            a step and the anchors share them, for a fraction of the cost. Within an anchor's
            triplets the points are independent either way.
        distribution: "normal" or "student_t", as in ``ClassPosterior.sample``.
        noise: scales the deviation of a draw from its class mean.
        gradient: "anchor" treats draws as constants; with "means" a draw of class k also moves
            with the batch's own mean of class k, so positives and negatives learn too.
        normalize: embeddings are put on the unit sphere before the update, and draws after it.

    """

    def __init__(
        self,
        posterior: ClassPosterior,
        *,
        num_negatives: int | None = None,
        negatives: str = "nearest",
        draws: str = "own",
        distribution: str = "normal",
        noise: float = 1.0,
        gradient: str = "anchor",
        normalize: bool = False,
    ) -> None:
        super().__init__()
        if not isinstance(posterior, ClassPosterior):
            raise InputTypeError(f"posterior must be a ClassPosterior; got {type(posterior).__name__}")
        most = posterior.num_classes - 1
        if num_negatives is not None and check_whole("num_negatives", num_negatives, 1) > most:
            raise InputError(f"num_negatives must be at most K - 1 = {most}; got {num_negatives}")
        self.posterior = posterior
        self.num_negatives = num_negatives
        self.negatives = check_choice("negatives", negatives, NEGATIVES)
        self.draws = check_choice("draws", draws, DRAWS)
        self.distribution = check_choice("distribution", distribution, DISTRIBUTIONS)
        self.noise = check_number("noise", noise, least=0)
        self.gradient = check_choice("gradient", gradient, GRADIENTS)
        self.normalize = check_flag("normalize", normalize)

    def extra_repr(self) -> str:
        names = ("num_negatives", "negatives", "draws", "distribution", "noise", "gradient", "normalize")
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in names)

    def forward(self, embeddings: Tensor, labels: Tensor, generator: Generator | None = None) -> Triplets:
        """Draw triplets for embeddings (B, D) with labels (B,)."""
        posterior = self.posterior
        if self.training:
            anchor, labels, sizes = posterior.agree(embeddings, labels)
        else:
            anchor, labels = check_items(embeddings, labels, posterior.num_classes, posterior.dim)
        if self.normalize:
            anchor = to_sphere(anchor)
        if self.training:
            posterior.absorb(anchor, labels, sizes)
        negative_labels, mask = self._choose_negatives(labels, generator)  # (B, S), (B, S)
        wanted = torch.stack([labels.unsqueeze(1).expand_as(mask), negative_labels])  # (2, B, S)
        points, classes, index = self._draw(wanted, mask.expand_as(wanted), generator)
        points = points.to(anchor.dtype)  # (P, D)
        if self.gradient == "means":
            points = _CarryMeans.apply(points, classes, anchor, labels, posterior.num_classes)  # type: ignore[no-untyped-call]
        if self.normalize:
            points = to_sphere(points)
        return Triplets(anchor, points, index, labels, negative_labels, mask)

    def _choose_negatives(self, labels: Tensor, generator: Generator | None) -> tuple[Tensor, Tensor]:
        """Return the negatives' classes (B, S) and where anchor and negative were both seen (B, S)."""
        seen = self.posterior.seen > 0  # (K,)
        if self.num_negatives is None:
            other = torch.arange(self.posterior.num_classes - 1, device=labels.device)
            negative_labels = other + (other >= labels.unsqueeze(1))  # (B, K - 1), skips the own class
            return negative_labels, seen[negative_labels] & seen[labels].unsqueeze(1)
        if self.negatives == "nearest":
            mean = self.posterior.mean
            rank = torch.cdist(mean[labels], mean)  # (B, K)
        else:
            shape = len(labels), self.posterior.num_classes
            rank = torch.rand(shape, generator=generator, device=labels.device)
        rank = rank.masked_fill(~seen, torch.inf).scatter(1, labels.unsqueeze(1), torch.inf)
        rank, negative_labels = rank.topk(self.num_negatives, largest=False)
        return negative_labels, rank.isfinite() & seen[labels].unsqueeze(1)

    def _draw(
        self, wanted: Tensor, mask: Tensor, generator: Generator | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Draw for a table of wanted classes (2, B, S): points (P, D), their classes (P,), rows (2, B, S)."""
        posterior = self.posterior
        options: dict[str, Any] = {"distribution": self.distribution, "noise": self.noise}
        if not mask.any():
            return (
                posterior.item_mean.new_zeros(1, posterior.dim),
                wanted.new_zeros(1),
                torch.zeros_like(wanted),
            )
        if self.draws == "own":
            classes = wanted[mask]  # (P,), each of them seen
            index = torch.zeros_like(wanted)
            index[mask] = torch.arange(len(classes), device=classes.device)
            return posterior.sample(classes, 1, generator, **options).squeeze(1), classes, index
        num = wanted.shape[2]
        if self.num_negatives is None and mask.all():  # every class was seen and is wanted
            distinct = torch.arange(posterior.num_classes, device=wanted.device)
            points = posterior.draw(distinct, num, generator, **options)  # (K, S, D)
            index = wanted * num + distinct[:num]
            return points.flatten(0, 1), distinct.repeat_interleave(num), index
        if self.num_negatives is None:
            present = posterior.seen > 0  # (K,): with an anchor and a negative, all of them are wanted
        else:
            present = torch.zeros_like(posterior.seen, dtype=torch.bool).index_fill_(0, wanted[mask], True)
        distinct = present.nonzero().squeeze(1)
        points = posterior.draw(distinct, num, generator, **options)  # (classes, S, D)
        line = (present.cumsum(0) - 1) * num  # (K,) row of a class's first point
        index = line[wanted] + torch.arange(num, device=wanted.device)
        return points.flatten(0, 1), distinct.repeat_interleave(num), index.masked_fill_(~mask, 0)


class _CarryMeans(torch.autograd.Function):
    """points + m'[classes] - stopgrad(m'[classes]), m' the embeddings' class means (docs/method.md, eq. 10).

    The values are the points; an embedding of class k gets 1 / n'_k of the gradient of every
    point of class k. A class absent from the batch carries none.
    """

    @staticmethod
    def forward(
        ctx: Any, points: Tensor, classes: Tensor, embeddings: Tensor, labels: Tensor, num_classes: int
    ) -> Tensor:
        ctx.save_for_backward(classes, labels)
        ctx.num_classes = num_classes
        del embeddings  # here only to receive a gradient
        return points.view_as(points)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None, Tensor, None, None]:
        classes, labels = ctx.saved_tensors
        total = gradient.new_zeros(ctx.num_classes, gradient.shape[1]).index_add_(0, classes, gradient)
        count = torch.bincount(labels, minlength=ctx.num_classes).clamp_min(1).to(total.dtype)
        return None, None, (total / count.unsqueeze(1)).index_select(0, labels), None, None
