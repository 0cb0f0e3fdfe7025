"""The Student-t densities of a class, and class priors for them. All in float64."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from bayestriplet.errors import InputError, InputTypeError, StateError
from bayestriplet.posterior.priors import NIWPosterior

SINGULAR = (
    "the scatter of a class is singular, so the improper prior has no density: "
    "its items lie in a subspace; use the empirical prior"
)


def definite_factor(scale: Tensor, repair: bool) -> Tensor:
    """Return the lower Cholesky factors (P, D, D), in float64, of scale matrices (P, D, D).

    A proper prior keeps every scale positive definite, but statistics kept in float32 can lose
    that to rounding: with ``repair`` such a matrix has its eigenvalues lifted to the size of
    that rounding. Without it a singular matrix has no density, which is an error.
    """
    matrix = scale.double()
    factor, info = torch.linalg.cholesky_ex(matrix)
    failed = info > 0
    if failed.any():
        if not repair:
            raise StateError(SINGULAR)
        values, vectors = torch.linalg.eigh(matrix[failed])
        least = values.amax(-1, keepdim=True) * scale.shape[-1] * torch.finfo(scale.dtype).eps
        lifted = (vectors * torch.maximum(values, least).unsqueeze(-2)) @ vectors.mT
        factor[failed] = torch.linalg.cholesky(lifted)
    return factor


@dataclass(frozen=True)
class StudentClasses:
    """One multivariate t a class, with scale matrix spread * factor factor^T (docs/method.md, eqs. 6-7)."""

    mean: Tensor  # (P, D)
    factor: Tensor  # (P, D, D), lower triangular
    spread: Tensor  # (P,)
    freedom: Tensor  # (P,)

    @classmethod
    def of(
        cls, niw: NIWPosterior, scatter: Tensor, next_item: bool = True, repair: bool = True
    ) -> "StudentClasses":
        """Return the distributions of the next item, or of the mean, of every class of ``niw``."""
        freedom = niw.nu - niw.mean.shape[1] + 1
        factor = definite_factor(niw.scale(scatter), repair)
        return cls(niw.mean.double(), factor, (next_item + 1 / niw.kappa) / freedom, freedom)

    @property
    def log_normaliser(self) -> Tensor:
        """The log densities (P,) at the means."""
        dim = self.mean.shape[1]
        log_volume = self.factor.diagonal(dim1=-2, dim2=-1).log().sum(1) + dim / 2 * self.spread.log()
        return log_peak(log_volume, self.freedom, dim)

    @property
    def whitening(self) -> Tensor:
        """W (P, D, D), lower triangular, with (W (x - mean))^2 summed the squared Mahalanobis distance."""
        identity = torch.eye(self.mean.shape[1], dtype=self.factor.dtype, device=self.factor.device)
        inverse = torch.linalg.solve_triangular(self.factor, identity.expand_as(self.factor), upper=False)
        return inverse / self.spread.sqrt()[:, None, None]

    def log_density(self, x: Tensor) -> Tensor:
        """Log density (N, P) of x (N, D)."""
        shift = x.unsqueeze(0) - self.mean.unsqueeze(1)  # (P, N, D)
        white = torch.linalg.solve_triangular(self.factor, shift.mT, upper=False)  # (P, D, N)
        distance = white.square().sum(1) / self.spread.unsqueeze(1)  # (P, N) Mahalanobis, squared
        log_volume = self.factor.diagonal(dim1=-2, dim2=-1).log().sum(1)
        log_volume = log_volume + x.shape[1] / 2 * self.spread.log()
        return log_student(distance, log_volume, self.freedom, x.shape[1])


def log_peak(log_volume: Tensor, freedom: Tensor, dim: int) -> Tensor:
    """Return the log densities (P,) of t distributions at their means, given log |scale|^(1/2) (P,)."""
    tail, half = (freedom + dim) / 2, freedom / 2
    return torch.lgamma(tail) - torch.lgamma(half) - dim / 2 * (freedom * math.pi).log() - log_volume


def log_student(distance: Tensor, log_volume: Tensor, freedom: Tensor, dim: int) -> Tensor:
    """Return the log densities (N, P) at squared Mahalanobis distances (P, N), given log |scale|^(1/2)."""
    tail = (freedom + dim).unsqueeze(1) / 2
    decay = tail * torch.log1p(distance / freedom.unsqueeze(1))  # (P, N)
    return (log_peak(log_volume, freedom, dim).unsqueeze(1) - decay).mT


def class_log_probabilities(weights: Tensor, num_classes: int) -> Tensor:
    """Return the log shares (K,) of non-negative weights (K,); -inf where a weight is 0."""
    if not isinstance(weights, Tensor):
        raise InputTypeError(f"class_prior must be a torch.Tensor; got {type(weights).__name__}")
    if weights.shape != (num_classes,):
        raise InputError(f"class_prior must have shape ({num_classes},); got {tuple(weights.shape)}")
    weights = weights.double()
    if not (torch.isfinite(weights).all() and (weights >= 0).all() and weights.sum() > 0):
        raise InputError("class_prior must be finite, at least 0, and not 0 everywhere")
    return (weights / weights.sum()).log()
