"""The distribution of every class: updated batch by batch, read with a prior."""

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Generator, Tensor

from bayestriplet.checks import check_choice, check_number, check_whole
from bayestriplet.errors import BayesTripletError, InputError, InputTypeError, StateError
from bayestriplet.posterior.checks import check_classes, check_embeddings, check_items
from bayestriplet.posterior.distributed import agree_on_sizes, gather_items, is_distributed
from bayestriplet.posterior.draws import draw_normal, draw_student
from bayestriplet.posterior.grouping import group_rows
from bayestriplet.posterior.precision import full_precision
from bayestriplet.posterior.predictive import StudentClasses, class_log_probabilities
from bayestriplet.posterior.priors import (
    NIWPosterior,
    NIWPrior,
    check_prior,
    condition,
    empirical_prior,
    improper_prior,
)
from bayestriplet.posterior.root import HasScatterRoot, ScatterRoot
from bayestriplet.posterior.statistics import ClassStatistics

PRIORS = ("empirical", "improper")
DISTRIBUTIONS = ("normal", "student_t")


class ClassPosterior(HasScatterRoot):
    """A normal distribution a class with unknown mean and covariance, known through its items.

    Its state is in buffers: it is saved, loaded and moved with the module, and never loses
    precision to ``.half()``, ``.bfloat16()`` or autocast. Priors are added when reading.

    Args:
        num_classes: K, at least 2.
        dim: D, the length of an embedding.
        prior: "empirical" (from the current statistics), "improper" (the paper's), or an NIWPrior.
        memory: the effective number of items a class remembers; None remembers all alike.
        dtype: of the mean and the scatter, torch.float32 or torch.float64.

    >>> posterior = ClassPosterior(num_classes=2, dim=1)
    >>> posterior.update(torch.tensor([[1.0], [3.0]]), torch.tensor([0, 0]))
    >>> posterior.seen.tolist()
    [2, 0]

    """

    count: Tensor  # (K,) effective count, float64
    seen: Tensor  # (K,) items ever seen, int64
    item_mean: Tensor  # (K, D)
    prior_mean: Tensor  # these four only with a given prior
    prior_kappa: Tensor
    prior_scale: Tensor
    prior_nu: Tensor

    def __init__(
        self,
        num_classes: int,
        dim: int,
        *,
        prior: str | NIWPrior = "empirical",
        memory: float | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        self.num_classes = check_whole("num_classes", num_classes, 2)
        self.dim = check_whole("dim", dim, 1)
        self.memory = None if memory is None else check_number("memory", memory, above=0)
        if dtype not in (torch.float32, torch.float64):
            raise InputTypeError(f"dtype must be torch.float32 or torch.float64; got {dtype}")
        self.register_buffer("count", torch.zeros(num_classes, dtype=torch.float64))
        self.register_buffer("seen", torch.zeros(num_classes, dtype=torch.int64))
        self.register_buffer("item_mean", torch.zeros(num_classes, dim, dtype=dtype))
        self.register_buffer("item_scatter", torch.zeros(num_classes, dim, dim, dtype=dtype))
        self.root = ScatterRoot(num_classes, dim, dtype)
        if isinstance(prior, NIWPrior):
            self.prior = "given"
            check_prior(prior, dim)
            for name in ("mean", "kappa", "scale", "nu"):
                value = torch.as_tensor(getattr(prior, name), dtype=dtype)
                self.register_buffer(f"prior_{name}", value.detach().clone())
        else:
            self.prior = check_choice("prior", prior, PRIORS)

    def extra_repr(self) -> str:
        return f"{self.num_classes}, {self.dim}, prior={self.prior!r}, memory={self.memory}"

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "ClassPosterior":
        """Move the buffers, but refuse any conversion to a lower precision."""

        def keep_precision(buffer: Tensor) -> Tensor:
            moved = fn(buffer)
            better = torch.promote_types(moved.dtype, buffer.dtype) == moved.dtype
            return moved if better else buffer.to(moved.device)

        super()._apply(keep_precision, recurse)
        return self

    # Updating

    def update(self, embeddings: Tensor, labels: Tensor) -> None:
        """Add a batch: embeddings (B, D), labels (B,). No gradient; over all ranks of a distributed run.

        Bad input raises before anything changes, and then on every rank.
        """
        self.absorb(*self.agree(embeddings, labels))

    def agree(self, embeddings: object, labels: object) -> tuple[Tensor, Tensor, list[int]]:
        """Check a batch together with the other ranks: the items, and how many each rank has."""
        if not is_distributed():
            items = check_items(embeddings, labels, self.num_classes, self.dim)
            sizes = [len(items[0])]
        else:
            try:
                items = check_items(embeddings, labels, self.num_classes, self.dim)
            except BayesTripletError as error:
                agree_on_sizes(error, self.item_mean.device)
                raise
            sizes = agree_on_sizes(len(items[0]), self.item_mean.device)
        if not any(sizes):
            raise InputError("embeddings must hold at least one item; got an empty batch")
        return *items, sizes

    @torch.no_grad()
    def absorb(self, embeddings: Tensor, labels: Tensor, sizes: list[int]) -> None:
        """Add items that :meth:`agree` has checked."""
        items = embeddings.detach().to(self.item_mean.dtype)
        if len(sizes) > 1:
            items, labels = gather_items(items, labels, sizes)
        # In place: DistributedDataParallel and optimisers hold on to the buffers themselves.
        with full_precision(items):
            self.root.check(self.item_scatter)
            addition = self.statistics.add_items_(items, labels, self.memory)
            self.root.add_(addition)
            self.root.note(self.item_scatter)
            self.seen.add_(addition.size)

    # Reading

    @property
    def statistics(self) -> ClassStatistics:
        """Count, mean and scatter of the items alone, without the prior; they are the buffers themselves."""
        return ClassStatistics(self.count, self.item_mean, self.item_scatter)

    @property
    @torch.no_grad()
    def mean(self) -> Tensor:
        """E[mu] of every class (K, D). A class never seen has the prior's mean."""
        with full_precision(self.item_mean):
            return self._conditioned().mean

    @property
    @torch.no_grad()
    def covariance(self) -> Tensor:
        """E[Sigma] of every class (K, D, D); NaN where a given prior's nu + n <= D + 1 leaves it undefined.

        With the improper prior a class never seen reads as zeros, and L / n stands in up to
        n = D + 1 items, as in the paper.
        """
        with full_precision(self.item_mean):
            niw = self._conditioned()
            return (
                niw.scale(self.item_scatter) / self._divisor(niw).to(self.item_scatter.dtype)[:, None, None]
            )

    def _conditioned(self, classes: Tensor | None = None) -> NIWPosterior:
        """Condition the prior on the statistics of all classes, or of ascending ``classes`` (P,)."""
        statistics = self.statistics
        if self.prior == "empirical":
            prior = empirical_prior(statistics)
        elif self.prior == "improper":
            prior = improper_prior(self.item_mean)
        else:
            prior = NIWPrior(self.prior_mean, self.prior_kappa, self.prior_scale, self.prior_nu)
        if classes is None or len(classes) == self.num_classes:
            return condition(prior, self.count, self.item_mean)
        return condition(prior, self.count[classes], self.item_mean[classes])

    def _divisor(self, niw: NIWPosterior) -> Tensor:
        """Return what the scale is divided by to give E[Sigma], (P,): nu_n - D - 1, or NaN."""
        divisor = niw.nu - self.dim - 1
        if self.prior == "improper":
            divisor = torch.where(divisor > 0, divisor, torch.where(niw.nu > 0, niw.nu, 1.0))
        elif self.prior == "given":
            divisor = torch.where(divisor > 0, divisor, torch.nan)
        return divisor

    # Drawing

    @torch.no_grad()
    def sample(
        self, classes: Tensor, num: int, generator: Generator | None = None, *,
        distribution: str = "normal", noise: float = 1.0,
    ) -> Tensor:  # fmt: skip
        """Draw ``num`` points from each of ``classes`` (N,): (N, num, D), without gradient.

        "normal" is N(E[mu], E[Sigma]); "student_t" the posterior predictive, whose tails are
        heavier the fewer items a class has. ``noise`` scales the deviation from the mean.
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
        groups = group_rows(classes.repeat_interleave(num), self.num_classes)
        table = self.draw(groups.classes, groups.width, generator, distribution=distribution, noise=noise)
        return groups.collect(table).view(len(classes), num, self.dim)

    def check_generator(self, generator: Generator | None) -> None:
        """Raise unless the generator, if any, draws where the posterior is."""
        if generator is not None and generator.device.type != self.item_mean.device.type:
            raise InputError(f"generator must be on {self.item_mean.device}; got {generator.device}")

    @torch.no_grad()
    def draw(
        self, classes: Tensor, num: int, generator: Generator | None, *, distribution: str, noise: float,
        toward: Tensor | None = None, share: float = 0.0,
    ) -> Tensor:  # fmt: skip
        """Draw (P, num, D) from distinct ``classes`` (P,), ascending, of which each has items.

        One batched product, and now and then a batched factorisation; :meth:`sample` without its
        checks. The means are moved by ``share`` of the way to the points ``toward`` (P, D).
        """
        with full_precision(self.item_mean):
            niw = self._conditioned(classes)
            if toward is not None:
                niw = replace(niw, mean=niw.mean.lerp(toward, share))
            self.root.renew(self.item_scatter)
            if distribution == "student_t":
                return draw_student(niw, self.root, classes, self._freedom(niw), noise, num, generator)
            divisor = self._divisor(niw)
            if self.prior == "given" and divisor.isnan().any():
                raise StateError("prior.nu + n must exceed D + 1 for normal draws; use student_t")
            return draw_normal(niw, self.root, classes, noise * divisor.rsqrt(), num, generator)

    def _freedom(self, niw: NIWPosterior) -> Tensor:
        """Return the predictive's degrees of freedom, (P,); the improper prior has none up to D + 1 items."""
        if self.prior == "improper" and (niw.nu <= self.dim + 1).any():
            raise StateError(
                f"the improper prior has no predictive density up to D + 1 = {self.dim + 1} items "
                f"a class; got a class with {int(niw.nu.min())}"
            )
        return niw.nu - self.dim + 1

    # Predicting

    def log_predictive(self, x: Tensor) -> Tensor:
        """Log density (N, K) of x (N, D) as the next item of each class; -inf for a class never seen.

        Student-t, computed in float64 (docs/method.md, eq. 7); without gradient.
        """
        return self._log_density(x, next_item=True)

    def log_mean_density(self, x: Tensor) -> Tensor:
        """Log posterior density (N, K) of x (N, D) as the class mean, no gradient (docs/method.md, eq. 6)."""
        return self._log_density(x, next_item=False)

    def _log_density(self, x: Tensor, next_item: bool) -> Tensor:
        x = check_embeddings(x, self.dim, "x").double()
        out = x.new_full((len(x), self.num_classes), -math.inf)
        seen = self.seen.nonzero().squeeze(1)  # (P,)
        with torch.no_grad(), full_precision(x):
            niw = self._conditioned(seen)
            self._freedom(niw)  # raises where there is no density
            scatter = self.statistics.rows(seen).scatter
            students = StudentClasses.of(niw, scatter, next_item, repair=self.prior != "improper")
            out[:, seen] = students.log_density(x)
        return out.to(self.item_mean.dtype)

    def class_probabilities(
        self, x: Tensor, class_prior: Tensor | None = None, temperature: float = 1.0
    ) -> Tensor:
        """Probability (N, K) of each class for x (N, D), without gradient (docs/method.md, eq. 8).

        ``class_prior`` (K,) defaults to the shares of items seen; ``temperature`` flattens the
        densities, which saturate in many dimensions. A class never seen has probability 0.
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
