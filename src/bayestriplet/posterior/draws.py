"""Factorising scale matrices and drawing deviations from them, batched over classes."""

import torch
from torch import Generator, Tensor

from bayestriplet.posterior.priors import NIWPosterior


def square_root(matrix: Tensor) -> Tensor:
    """Return R (P, D, D) with R^T R = matrix, for symmetric positive semi-definite matrices.

    Cholesky where it exists (the upper factor is the faster one on CPUs). A matrix that is
    singular, or that rounding made slightly indefinite, goes through its eigenvalues, clamped
    at 0: the nearest positive semi-definite matrix is factorised instead.
    """
    factor, info = torch.linalg.cholesky_ex(matrix, upper=True)
    failed = info > 0
    if failed.any():
        values, vectors = torch.linalg.eigh(matrix[failed])
        factor[failed] = (vectors * values.clamp_min(0).sqrt().unsqueeze(-2)).mT
    return factor


def draw_normal(
    niw: NIWPosterior, divisor: Tensor, num: int, noise: float, generator: Generator | None
) -> Tensor:
    """Draw (P, num, D) from N(E[mu], noise^2 E[Sigma]) of P classes, E[Sigma] = scale / divisor (P,)."""
    size = noise * divisor.rsqrt()  # (P,)
    return _draw_around(niw, size.unsqueeze(1), num, generator)


def draw_student(
    niw: NIWPosterior, freedom: Tensor, num: int, noise: float, generator: Generator | None
) -> Tensor:
    """Draw (P, num, D) from the posterior predictive of P classes; ``noise`` scales the deviation.

    A Student-t deviation is a normal one stretched by sqrt(nu / chi^2_nu), one factor a draw.
    """
    half = (freedom / 2).unsqueeze(1).expand(-1, num)  # (P, num)
    stretch = (half / torch._standard_gamma(half, generator=generator)).sqrt()
    size = noise * ((niw.kappa + 1) / (niw.kappa * freedom)).sqrt()  # (P,)
    return _draw_around(niw, stretch * size.unsqueeze(1), num, generator)


def _draw_around(niw: NIWPosterior, size: Tensor, num: int, generator: Generator | None) -> Tensor:
    """Draw deviations of covariance scale, times size (P, 1) or (P, num), around the means."""
    mean = niw.mean
    shape = len(mean), num, mean.shape[1]
    standard = torch.randn(shape, generator=generator, dtype=mean.dtype, device=mean.device)
    standard.mul_(size.to(mean.dtype).unsqueeze(2))
    return torch.baddbmm(mean.unsqueeze(1), standard, square_root(niw.scale))
