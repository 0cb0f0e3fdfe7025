"""Drawing from, and densities of, scale matrices that are a diagonal and a few rows: d + F^T F."""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from bayestriplet.errors import StateError
from bayestriplet.posterior.predictive import SINGULAR, log_student
from bayestriplet.posterior.priors import NIWPosterior


def deviate(variance: Tensor, rows: Tensor, num: int, generator: Generator | None) -> Tensor:
    """Draw (P, num, D) of covariance diag(variance) + rows^T rows, from (P, D) and (P, r, D)."""
    shape = len(rows), num, rows.shape[1] + rows.shape[2]
    standard = torch.randn(shape, generator=generator, dtype=rows.dtype, device=rows.device)
    first, rest = torch.split(standard, list(rows.shape[1:]), 2)
    return torch.baddbmm(rest * variance.sqrt().unsqueeze(1), first, rows)


@dataclass(frozen=True)
class StudentRows:
    """One multivariate t a class, with scale matrix spread * (d + F^T F), never formed.

    By the matrix inversion lemma: with C = I + F d^-1 F^T, the inverse is
    d^-1 - d^-1 F^T C^-1 F d^-1 and the determinant |C| times the product of d.
    """

    mean: Tensor  # (P, D) all float64
    variance: Tensor  # d, (P, D)
    rows: Tensor  # F, (P, r, D)
    spread: Tensor  # (P,)
    freedom: Tensor  # (P,)

    @classmethod
    def of(cls, niw: NIWPosterior, variance: Tensor, rows: Tensor, next_item: bool) -> "StudentRows":
        """Return the distributions of the next item, or of the mean, of every class of ``niw``."""
        freedom = niw.nu - niw.mean.shape[1] + 1
        spread = (next_item + 1 / niw.kappa) / freedom
        if not bool((variance > 0).all()):
            raise StateError(SINGULAR)
        return cls(niw.mean.double(), variance.double(), rows.double(), spread, freedom)

    def log_density(self, x: Tensor) -> Tensor:
        """Log density (N, P) of x (N, D)."""
        white = self.rows / self.variance.sqrt().unsqueeze(1)  # (P, r, D)
        capacity = white @ white.mT  # (P, r, r)
        capacity.diagonal(dim1=-2, dim2=-1).add_(1)
        factor = torch.linalg.cholesky(capacity)
        shift = (x.unsqueeze(0) - self.mean.unsqueeze(1)) / self.variance.sqrt().unsqueeze(1)  # (P, N, D)
        inside = torch.linalg.solve_triangular(factor, white @ shift.mT, upper=False)  # (P, r, N)
        distance = (shift.square().sum(2) - inside.square().sum(1)).clamp_min(0)  # (P, N)
        log_volume = self.variance.log().sum(1) / 2 + factor.diagonal(dim1=-2, dim2=-1).log().sum(1)
        log_volume = log_volume + x.shape[1] / 2 * self.spread.log()
        return log_student(distance / self.spread.unsqueeze(1), log_volume, self.freedom, x.shape[1])
