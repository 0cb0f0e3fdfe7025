"""Low rank plus diagonal: the leading directions of each class's scatter, and its diagonal exactly."""

import torch
from torch import Generator, Tensor

from bayestriplet.posterior.chosen import Chosen, put_, take
from bayestriplet.posterior.compensated import add_rows_
from bayestriplet.posterior.priors import NIWPosterior
from bayestriplet.posterior.rows_plus_diagonal import StudentRows, deviate
from bayestriplet.posterior.statistics import Addition
from bayestriplet.posterior.structure import Level, Structure

RANK = 8
ROWS_AT_A_TIME = 56  # of one class: the matrices to be decomposed stay small


class LowRankStructure(Structure):
    """U (K, 8, D) and the diagonal v (K, D) of L, which stands for U^T U + diag(v - diag(U^T U)).

    The diagonal is exact. U has the eight leading directions of the old U and the new rows; what is
    cut off stays in the diagonal, as a remainder of at least 0. So L is exact where its rank
    is 8 or less, and else off by no more than the mass cut off (docs/method.md, eq. 8a).
    """

    name = "lowrank"
    own_state = "item_factor"
    item_factor: Tensor  # (K, R, D)
    item_diagonal: Tensor  # (K, D)

    def __init__(self, num_classes: int, dim: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.register_buffer("item_factor", torch.zeros(num_classes, min(RANK, dim), dim, dtype=dtype))
        self.register_buffer("item_diagonal", torch.zeros(num_classes, dim, dtype=dtype))

    @staticmethod
    def numbers(num_classes: int, dim: int) -> int:
        return num_classes * dim * (min(RANK, dim) + 1)

    def watched(self) -> list[Tensor]:
        return [self.item_diagonal]

    def add_(self, addition: Addition, total: float) -> None:
        del total
        classes, rows, keep = addition.chosen.classes, addition.rows, addition.factor
        squares = rows.square().sum(1)  # (P, D)
        if self.scatter_rest is not None:
            add_rows_(
                self.item_diagonal, self.scatter_rest, classes, take(self.scatter_rest, classes) + squares
            )
        else:
            diagonal = take(self.item_diagonal, classes) + squares
            put_(self.item_diagonal, classes, diagonal * keep.unsqueeze(1))
        factor = take(self.item_factor, classes)
        for part in torch.split(rows, ROWS_AT_A_TIME, 1):
            factor = leading_rows(torch.cat([factor, part], 1), self.item_factor.shape[1])
        put_(self.item_factor, classes, factor * keep.sqrt().view(-1, 1, 1))

    def trace(self, classes: Tensor) -> Tensor:
        return take(self.item_diagonal, classes).double().sum()

    def _parts(self, classes: Tensor) -> tuple[Tensor, Tensor]:
        """Return the remainder on the diagonal (P, D), at least 0, and the factor (P, 8, D)."""
        factor = take(self.item_factor, classes)
        return (take(self.item_diagonal, classes) - factor.square().sum(1)).clamp_min_(0), factor

    def deviate(
        self, chosen: Chosen, share: Tensor, cross: Tensor, level: Level, num: int,
        generator: Generator | None,
    ) -> Tensor:  # fmt: skip
        del share
        remainder, factor = self._parts(chosen.classes)
        return deviate(remainder + level, torch.cat([factor, cross.unsqueeze(1)], 1), num, generator)

    def dense(self, classes: Tensor, share: Tensor) -> Tensor:
        del share
        remainder, factor = self._parts(classes)
        return torch.baddbmm(torch.diag_embed(remainder), factor.mT, factor)

    def log_density(
        self, x: Tensor, niw: NIWPosterior, classes: Tensor, share: Tensor, next_item: bool, repair: bool
    ) -> Tensor:
        del share, repair
        remainder, factor = self._parts(classes)
        rows = torch.cat([factor, niw.cross.unsqueeze(1)], 1)
        return StudentRows.of(niw, remainder.double() + niw.prior_scale, rows, next_item).log_density(x)


def leading_rows(rows: Tensor, rank: int) -> Tensor:
    """Return U (P, rank, D), the truncated singular value decomposition of rows (P, n, D): sigma v^T.

    The left singular vectors are eigenvectors of the small matrix of products rows rows^T (n, n);
    no D x D matrix is formed or decomposed.
    """
    if rows.shape[1] <= rank:
        return rows
    vectors = torch.linalg.eigh(rows @ rows.mT).eigenvectors  # ascending
    return vectors[:, :, -rank:].mT @ rows
