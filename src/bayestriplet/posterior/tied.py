"""A tied covariance: one pooled scatter for all classes."""

from dataclasses import replace

import torch
from torch import Generator, Tensor

from bayestriplet.posterior.chosen import Chosen
from bayestriplet.posterior.compensated import sum_of
from bayestriplet.posterior.priors import NIWPosterior
from bayestriplet.posterior.root import symmetric_root
from bayestriplet.posterior.rows_plus_diagonal import StudentRows
from bayestriplet.posterior.statistics import TINY, Addition
from bayestriplet.posterior.structure import Level, Structure, along, noise


class TiedStructure(Structure):
    """The sum S (D, D) of all classes' scatters; a class has the share n_k / N of it.

    Without a memory S is exact. A class that forgets takes its share of S along. S ``is_thin`` while it has
    rows of fewer items than D: it is singular then, and no Cholesky factor is tried.
    """

    name = "tied"
    own_state = "pooled_scatter"
    pooled = True
    pooled_scatter: Tensor  # (D, D)

    def __init__(self, num_classes: int, dim: int, dtype: torch.dtype) -> None:
        super().__init__()
        del num_classes
        self.register_buffer("pooled_scatter", torch.zeros(dim, dim, dtype=dtype))
        self.is_thin = False

    @staticmethod
    def numbers(num_classes: int, dim: int) -> int:
        del num_classes
        return dim * dim

    @staticmethod
    def sums(num_classes: int, dim: int) -> int:
        del num_classes
        return dim * dim

    def watched(self) -> list[Tensor]:
        return [self.pooled_scatter]

    def add_(self, addition: Addition, total: float) -> None:
        rows = addition.rows.flatten(0, 1)  # (P n, D)
        if self.scatter_rest is not None:
            more = torch.addmm(self.scatter_rest, rows.mT, rows)
            total_scatter, left = sum_of(self.pooled_scatter, more)
            self.pooled_scatter.copy_(total_scatter)
            self.scatter_rest.copy_(left)
            return
        gone = float(((1 - addition.keep) * addition.total).sum()) / max(total, TINY)
        self.pooled_scatter.addmm_(rows.mT, rows).mul_(1 - gone)

    def trace(self, classes: Tensor) -> Tensor:
        del classes
        return self.pooled_scatter.diagonal().double().sum()

    def deviate(
        self, chosen: Chosen, share: Tensor, cross: Tensor, level: Level, num: int,
        generator: Generator | None,
    ) -> Tensor:  # fmt: skip
        root = self._root()
        shape = len(chosen), num, len(root)
        standard = torch.randn(shape, generator=generator, dtype=root.dtype, device=root.device)
        deviation = standard.mul_(share.sqrt().to(root.dtype)[:, None, None]) @ root
        deviation.addcmul_(*along(cross, num, generator))
        rest = noise(level, shape, deviation, generator)
        return deviation if rest is None else deviation.add_(rest)

    def _root(self) -> Tensor:
        """Return R (D, D) with R^T R = S, waiting for the device once."""
        if not self.is_thin:
            factor, info = torch.linalg.cholesky_ex(self.pooled_scatter, upper=True)
            if not info:
                return factor
        return symmetric_root(self.pooled_scatter)

    def dense(self, classes: Tensor, share: Tensor) -> Tensor:
        del classes
        return self.pooled_scatter * share.to(self.pooled_scatter.dtype)[:, None, None]

    def log_density(
        self, x: Tensor, niw: NIWPosterior, classes: Tensor, share: Tensor, next_item: bool, repair: bool
    ) -> Tensor:
        """In the coordinates of S's eigenvectors every scale matrix is a diagonal and the cross row."""
        del classes
        values, vectors = torch.linalg.eigh(self.pooled_scatter.double())
        # Below this, an eigenvalue is rounding: 0, which has no density unless the prior adds to it.
        least = values[-1] * len(values) * torch.finfo(self.pooled_scatter.dtype).eps
        values = values.clamp_min(least) if repair else values.where(values > least, 0.0)
        turned = replace(niw, mean=niw.mean.double() @ vectors, cross=niw.cross.double() @ vectors)
        variance = share.unsqueeze(1) * values + niw.prior_scale  # (P, D)
        return StudentRows.of(turned, variance, turned.cross.unsqueeze(1), next_item).log_density(x @ vectors)
