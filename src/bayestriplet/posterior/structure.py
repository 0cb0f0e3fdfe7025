"""What a structure of the covariance has to do, whatever it keeps of the scatters."""

from typing import ClassVar

import torch
from torch import Generator, Tensor, nn

from bayestriplet.posterior.chosen import Chosen
from bayestriplet.posterior.priors import NIWPosterior
from bayestriplet.posterior.statistics import Addition

Level = Tensor | float  # a multiple of the identity


class Structure(nn.Module):
    """The scatters L of K classes in D dimensions, kept in full or in less than K D D numbers.

    ``share`` (P,) is each class's part of the count of all classes; only "tied" needs it. Classes
    (P,) are distinct and ascending; all K of them are taken without a copy.
    """

    name: ClassVar[str]
    own_state: ClassVar[str]  # the tensor that only this structure saves
    pooled: ClassVar[bool] = False  # whether the traces of the classes depend on each other
    scatter_rest: Tensor | None  # what rounding took from the sums, where it is kept

    def __init__(self, *_: object) -> None:
        super().__init__()
        self.register_buffer("scatter_rest", None)

    def compensate(self) -> None:
        """Keep what rounding takes from the sums from now on; only for those that forget nothing."""
        self.scatter_rest = torch.zeros_like(self.watched()[0])

    @staticmethod
    def numbers(num_classes: int, dim: int) -> int:
        """Return how many numbers it keeps, count and mean apart."""
        raise NotImplementedError

    @staticmethod
    def sums(num_classes: int, dim: int) -> int:
        """Return how many of these are sums over items, whose remainders can be kept."""
        return num_classes * dim

    def note(self) -> None:
        """Remember that all it keeps belongs together as it is now."""

    def watched(self) -> list[Tensor]:
        """Return the tensors that the sums of all classes depend on."""
        raise NotImplementedError

    def add_(self, addition: Addition, total: float) -> None:
        """Add a batch; ``total`` is the count of all classes with it, before forgetting, if pooled."""
        raise NotImplementedError

    def trace(self, classes: Tensor) -> Tensor:
        """Return the sum of the traces of classes (P,), () float64; of all where they are pooled."""
        raise NotImplementedError

    def deviate(
        self, chosen: Chosen, share: Tensor, cross: Tensor, level: Level, num: int,
        generator: Generator | None,
    ) -> Tensor:  # fmt: skip
        """Draw (P, num, D) of covariance L + c c^T + level I, with c (P, D)."""
        raise NotImplementedError

    def dense(self, classes: Tensor, share: Tensor) -> Tensor:
        """Return the scatters of classes (P,) as matrices (P, D, D)."""
        raise NotImplementedError

    def log_density(
        self, x: Tensor, niw: NIWPosterior, classes: Tensor, share: Tensor, next_item: bool, repair: bool
    ) -> Tensor:
        """Return the log densities (N, P), float64, of x (N, D) (docs/method.md, eqs. 6-7)."""
        raise NotImplementedError


def noise(level: Level, shape: tuple[int, ...], like: Tensor, generator: Generator | None) -> Tensor | None:
    """Draw a deviation of covariance level I; None at level 0."""
    if not isinstance(level, Tensor) and level == 0:
        return None
    standard = torch.randn(shape, generator=generator, dtype=like.dtype, device=like.device)
    return standard.mul_(level**0.5)


def along(cross: Tensor, num: int, generator: Generator | None) -> tuple[Tensor, Tensor]:
    """Return factors (P, num, 1) and (P, 1, D) of a deviation of covariance c c^T."""
    size = len(cross), num, 1
    standard = torch.randn(size, generator=generator, dtype=cross.dtype, device=cross.device)
    return standard, cross.unsqueeze(1)
