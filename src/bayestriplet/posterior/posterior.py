"""The distribution of every class: updated batch by batch, read with a prior."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from bayestriplet.checks import check_choice, check_number, check_whole
from bayestriplet.errors import BayesTripletError, InputError, StateError
from bayestriplet.posterior.checks import check_classes, check_embeddings, read_items
from bayestriplet.posterior.chosen import Chosen, take
from bayestriplet.posterior.distributed import agree_on_sizes, gather_items, is_distributed
from bayestriplet.posterior.draws import Drawer
from bayestriplet.posterior.grouping import group_rows
from bayestriplet.posterior.host import read
from bayestriplet.posterior.nearest import nearest_rows
from bayestriplet.posterior.precision import full_precision
from bayestriplet.posterior.predictive import StudentClasses, class_log_probabilities
from bayestriplet.posterior.priors import where_of
from bayestriplet.posterior.reading import PosteriorReading
from bayestriplet.posterior.separation import remember_, separation_of, share_of_vertices
from bayestriplet.posterior.statistics import add_to_means_
from bayestriplet.posterior.tied import TiedStructure

EVERYWHERE = slice(None)
FEW = 128  # classes up to which all are read in a step, rather than those of the batch
DISTRIBUTIONS = ("normal", "student_t")
BLOCK_CELLS = 4_000_000  # numbers that a block of densities may hold


class ClassPosterior(PosteriorReading):
    """A normal distribution a class with unknown mean and covariance, known through its items.

    Its state is in buffers: it is saved, loaded and moved with the module, and never loses
    precision to ``.half()``, ``.bfloat16()`` or autocast. Priors are added when reading.

    Args:
        num_classes: K, at least 2.
        dim: D, the length of an embedding.
        prior: "empirical" (from the current statistics), "improper" (the paper's), or an NIWPrior.
        memory: the effective number of items that a class remembers; None remembers all alike.
        dtype: of the mean and the scatter, torch.float32 or torch.float64.
        structure: of the covariances: "full", "tied" (one for all classes), "lowrank" (rank 8 plus
            diagonal) or "diagonal"; "auto" is full while the state takes up to 64 MB, else lowrank.

    >>> posterior = ClassPosterior(num_classes=2, dim=1)
    >>> posterior.update(torch.tensor([[1.0], [3.0]]), torch.tensor([0, 0]))
    >>> posterior.seen.tolist()
    [2, 0]

    """

    # Updating

    def update(self, embeddings: Tensor, labels: Tensor) -> None:
        """Add a batch: embeddings (B, D), labels (B,). No gradient; over all ranks of a distributed run.

        Bad input raises before anything changes, and then on every rank.

        >>> posterior.update(torch.tensor([[9.0, 9.0]]), torch.tensor([2]))
        >>> posterior.seen.tolist()
        [2, 2, 1]
        """
        embeddings, labels, sizes, numbers = self.agree(embeddings, labels)
        self.absorb(embeddings, labels, sizes, numbers)

    def agree(
        self, embeddings: object, labels: object
    ) -> tuple[Tensor, Tensor, list[int], NDArray[np.int64]]:
        """Check a batch together with the other ranks: items, items per rank, own labels on the host.

        >>> items, classes, sizes, numbers = posterior.agree(embeddings, labels)
        >>> items.shape, sizes, numbers.tolist()
        (torch.Size([4, 2]), [4], [0, 0, 1, 1])
        """
        if not is_distributed():
            items = read_items(embeddings, labels, self.num_classes, self.dim)
            sizes = [len(items[0])]
        else:
            try:
                items = read_items(embeddings, labels, self.num_classes, self.dim)
            except BayesTripletError as error:
                agree_on_sizes(error, self.item_mean.device)
                raise
            sizes = agree_on_sizes(len(items[0]), self.item_mean.device)
        if not any(sizes):
            raise InputError("embeddings must hold at least one item; got an empty batch")
        return items[0], items[1], sizes, items[2]

    @torch.no_grad()
    def absorb(
        self, embeddings: Tensor, labels: Tensor, sizes: list[int], numbers: NDArray[np.int64] | None = None
    ) -> None:
        """Add items that :meth:`agree` has checked; ``numbers`` are the labels on the host.

        >>> posterior.absorb(*posterior.agree(embeddings, labels))
        >>> posterior.count.tolist()
        [4.0, 4.0, 0.0]
        """
        items = embeddings.detach().to(self.item_mean.dtype)
        if len(sizes) > 1:
            items, labels = gather_items(items, labels, sizes)
        if numbers is None or len(sizes) > 1:
            (numbers,) = read(labels)
        groups = group_rows(numbers, like=labels)
        chosen, classes = groups.chosen, groups.chosen.classes
        # In place: DistributedDataParallel and optimisers hold on to the buffers themselves.
        with full_precision(items):
            self.refresh()
            everyone = len(chosen) == self.num_classes
            count, seen = self.numbers()
            if self._is_empty:
                self.origin.copy_(items.mean(0))
                self._is_empty = False
            total = float(count.sum()) + len(items) if self.structure.pooled else 0.0
            before = None if everyone else self._sums(classes)
            old, more = count[chosen.numbers], seen[chosen.numbers] + groups.size
            if self.judges:
                means = take(self.item_mean, classes)
                remember_(self.separation, separation_of(items, means, groups.line, old > 0))
            addition = add_to_means_(old, self.item_mean, items, groups, self.memory, self.mean_rest)
            self.structure.add_(addition, total)
            self._mirror.write((self.count, self.seen), chosen, addition.count, more)
            after = self._sums(classes)
            self.sums.copy_(after if before is None else self.sums + (after - before))
            if self.num_classes > FEW:
                self.note_squares(classes)
            self.note()

    # Drawing

    @torch.no_grad()
    def sample(
        self, classes: Tensor, num: int, generator: Generator | None = None, *,
        distribution: str = "normal", noise: float = 1.0,
    ) -> Tensor:  # fmt: skip
        """Draw ``num`` points from each of ``classes`` (N,): (N, num, D), without gradient.

        "normal" is N(E[mu], E[Sigma]); "student_t" the posterior predictive, whose tails are
        heavier the fewer items there are of a class. ``noise`` scales the deviation from the mean.

        >>> posterior.sample(torch.tensor([0, 1]), num=5).shape
        torch.Size([2, 5, 2])
        >>> posterior.sample(torch.tensor([1]), num=1, noise=0).round(decimals=1)
        tensor([[[5., 0.]]])
        """
        classes = check_classes(classes, self.num_classes)
        num = check_whole("num", num, 0)
        check_choice("distribution", distribution, DISTRIBUTIONS)
        noise = check_number("noise", noise, least=0)
        self.check_generator(generator)
        unseen = self.seen[classes] == 0
        if unseen.any():
            raise InputError(f"classes holds {int(classes[unseen][0])}, of which no item was ever seen")
        if not len(classes) or not num:
            return self.item_mean.new_zeros(len(classes), num, self.dim)
        groups = group_rows(read(classes)[0].repeat(num), like=classes)
        table = self.draw(groups.chosen, groups.width, generator, distribution=distribution, noise=noise)
        return groups.collect(table).view(len(classes), num, self.dim)

    def check_generator(self, generator: Generator | None) -> None:
        """Raise unless the generator, if any, draws where the posterior is.

        >>> posterior.check_generator(torch.Generator())
        """
        if generator is not None and generator.device.type != self.item_mean.device.type:
            raise InputError(f"generator must be on {self.item_mean.device}; got {generator.device}")

    @torch.no_grad()
    def draw(
        self, chosen: Chosen, num: int, generator: Generator | None, *, distribution: str, noise: float,
        toward: Tensor | None = None, spread: float = 0.0, handover: bool = False, mirrored: bool = False,
    ) -> Tensor:  # fmt: skip
        """Draw (P, num, D) from classes (P,); :meth:`sample` without its checks.

        Points of a class without items mean nothing, but are finite. The means are moved by ``spread``
        of the way to the points ``toward`` (P, D), or with ``handover`` by what of it is needed. Where
        ``mirrored``, the second half of a class's points are the first ones across their centre.

        >>> posterior.draw(posterior.everyone(), 4, None, distribution="normal", noise=0.5).shape
        torch.Size([3, 4, 2])
        """
        with full_precision(self.item_mean):
            if distribution == "normal" and chosen.known is not None:
                count: Any = self.numbers()[0][chosen.known]
            else:
                count = take(self.count, chosen.classes)
            niw = self._conditioned(chosen.classes, count)
            centre = niw.mean
            if toward is not None:
                share: Tensor | float = spread
                if handover:
                    share = share_of_vertices(spread, self.separation, niw.shift, toward)
                centre = centre.lerp(toward, share)
            if isinstance(self.structure, TiedStructure):
                seen = self.numbers()[1]
                rows = int(seen.sum()) - int(np.count_nonzero(seen))  # the first item of a class has none
                self.structure.is_thin = rows < self.dim
            drawer = Drawer(niw, centre, self.structure, chosen, self._share(chosen.classes), mirrored)
            if distribution == "student_t":
                known = count > 0
                freedom = self._freedom(niw, known)
                kappa = torch.where(known, niw.kappa, 1.0) if self.prior == "improper" else niw.kappa
                return replace(drawer, niw=replace(niw, kappa=kappa)).student(freedom, noise, num, generator)
            divisor = self._divisor(niw)
            if self.prior == "given":
                divisor = where_of(count)(count > 0, divisor, 1.0)
                if (divisor != divisor).any():
                    raise StateError("prior.nu + n must exceed D + 1 for normal draws; use student_t")
            return drawer.normal(noise * divisor**-0.5, num, generator)

    def nearest(self, classes: Tensor, num: int, within: slice = EVERYWHERE) -> Tensor:
        """Return the classes (P, num) with items whose means are nearest to each of ``classes`` (P,).

        Nearest first, without ``classes`` themselves. Where there are fewer, others fill up. Only
        classes ``within`` a stretch of them are looked at.

        >>> posterior.nearest(torch.tensor([0]), num=1)
        tensor([[1]])
        """
        if self.num_classes <= FEW:
            self.note_squares(self.everyone().classes)
        square = self.mean_square.index_fill(0, classes, torch.inf)
        with full_precision(self.item_mean):
            found = nearest_rows(self.item_mean[classes], self.item_mean[within], square[within], num)[1]
            return found + within.start if within.start else found

    # Predicting

    def log_predictive(self, x: Tensor) -> Tensor:
        """Log density (N, K) of x (N, D) as the next item of each class; -inf for a class never seen.

        Student-t, computed in float64 (docs/method.md, eq. 7); without gradient.

        >>> posterior.log_predictive(torch.tensor([[0.0, 2.0]])).argmax(1)
        tensor([0])
        >>> posterior.log_predictive(torch.tensor([[0.0, 2.0]]))[0, 2]
        tensor(-inf)
        """
        return self._log_density(x, next_item=True)

    def log_mean_density(self, x: Tensor) -> Tensor:
        """Log posterior density (N, K) of x (N, D) as the class mean, no gradient (docs/method.md, eq. 6).

        >>> posterior.log_mean_density(torch.tensor([[0.0, 2.0]])).argmax(1)
        tensor([0])
        """
        return self._log_density(x, next_item=False)

    @torch.no_grad()
    def _log_density(self, x: Tensor, next_item: bool) -> Tensor:
        x = check_embeddings(x, self.dim, "x").double()
        out = torch.full((len(x), self.num_classes), -math.inf, dtype=self.item_mean.dtype, device=x.device)
        seen = self.seen.nonzero().squeeze(1)  # (P,)
        together = max(1, BLOCK_CELLS // (self.dim * max(self.dim, len(x))))
        with full_precision(x):
            self._freedom(self._conditioned(seen), seen >= 0)  # raises where there is no density
            for classes in torch.split(seen, together):
                out[:, classes] = self._log_density_of(classes, x, next_item).to(out.dtype)
        return out

    def _log_density_of(self, classes: Tensor, x: Tensor, next_item: bool) -> Tensor:
        """Return the log densities (N, P) of x (N, D) in a block of classes (P,)."""
        niw, share, repair = self._conditioned(classes), self._share(classes), self.prior != "improper"
        if isinstance(niw.prior_scale, Tensor) and niw.prior_scale.ndim == 2:  # of no structure
            scatter = self.structure.dense(classes, share)
            return StudentClasses.of(niw, scatter, next_item, repair).log_density(x)
        return self.structure.log_density(x, niw, classes, share, next_item, repair)

    def class_probabilities(
        self, x: Tensor, class_prior: Tensor | None = None, temperature: float = 1.0
    ) -> Tensor:
        """Probability (N, K) of each class for x (N, D), without gradient (docs/method.md, eq. 8).

        ``class_prior`` (K,) defaults to the shares of items seen; ``temperature`` flattens the
        densities, which saturate in many dimensions. A class never seen has probability 0.

        >>> posterior.class_probabilities(torch.tensor([[0.0, 2.0], [5.0, 0.0]])).round(decimals=2)
        tensor([[1., 0., 0.],
                [0., 1., 0.]])
        """
        temperature = check_number("temperature", temperature, above=0)
        if not self.seen.any():
            raise StateError("no item was ever seen, so no class has a probability: call update first")
        if class_prior is None:
            class_prior = self.seen
        log_prior = class_log_probabilities(class_prior, self.num_classes).to(self.seen.device)
        scores = self.log_predictive(x).double() / temperature + log_prior
        if (scores.amax(1) == -math.inf).any():
            raise InputError("class_prior gives no weight to any class that was seen")
        return scores.softmax(1).to(self.item_mean.dtype)
