"""A diagonal covariance: the variances of each class alone."""

import torch
from torch import Generator, Tensor

from bayestriplet.posterior.chosen import Chosen, put_, take
from bayestriplet.posterior.compensated import add_rows_
from bayestriplet.posterior.priors import NIWPosterior
from bayestriplet.posterior.rows_plus_diagonal import StudentRows, deviate
from bayestriplet.posterior.statistics import Addition
from bayestriplet.posterior.structure import Level, Structure


class DiagonalStructure(Structure):
    """The diagonal v (K, D) of the scatters, exact; what lies beside it is taken as 0."""

    name = "diagonal"
    own_state = "item_variance"
    item_variance: Tensor  # (K, D)

    def __init__(self, num_classes: int, dim: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.register_buffer("item_variance", torch.zeros(num_classes, dim, dtype=dtype))

    @staticmethod
    def numbers(num_classes: int, dim: int) -> int:
        return num_classes * dim

    def watched(self) -> list[Tensor]:
        return [self.item_variance]

    def add_(self, addition: Addition, total: float) -> None:
        del total
        classes = addition.chosen.classes
        squares = addition.rows.square().sum(1)  # (P, D)
        if self.scatter_rest is not None:
            add_rows_(
                self.item_variance, self.scatter_rest, classes, take(self.scatter_rest, classes) + squares
            )
            return
        more = take(self.item_variance, classes) + squares
        put_(self.item_variance, classes, more * addition.factor.unsqueeze(1))

    def trace(self, classes: Tensor) -> Tensor:
        return take(self.item_variance, classes).double().sum()

    def deviate(
        self, chosen: Chosen, share: Tensor, cross: Tensor, level: Level, num: int,
        generator: Generator | None,
    ) -> Tensor:  # fmt: skip
        del share
        return deviate(take(self.item_variance, chosen.classes) + level, cross.unsqueeze(1), num, generator)

    def dense(self, classes: Tensor, share: Tensor) -> Tensor:
        del share
        return torch.diag_embed(take(self.item_variance, classes))

    def log_density(
        self, x: Tensor, niw: NIWPosterior, classes: Tensor, share: Tensor, next_item: bool, repair: bool
    ) -> Tensor:
        del share, repair
        variance = take(self.item_variance, classes).double() + niw.prior_scale
        return StudentRows.of(niw, variance, niw.cross.unsqueeze(1), next_item).log_density(x)
