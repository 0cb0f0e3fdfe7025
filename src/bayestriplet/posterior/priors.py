"""Normal-inverse-Wishart distributions: the priors, and conditioning them on statistics."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bayestriplet.errors import InputError, InputTypeError
from bayestriplet.posterior.host import kind_of, send
from bayestriplet.posterior.latest import Latest
from bayestriplet.posterior.statistics import TINY

Numbers = Tensor | NDArray[np.float64]
EMPIRICAL_KAPPA = 0.01


@dataclass(frozen=True)
class NIWPrior:
    """Parameters of NIW(mean, kappa, scale, nu) over the mean and covariance of one class.

    Shapes (D,), (), (D, D), (); a scale of shape () stands for that multiple of the identity.
    The same prior serves every class. It is proper for kappa > 0, nu > D - 1 and a positive
    definite scale; E[Sigma] exists for nu > D + 1.

    >>> prior = bt.NIWPrior(mean=torch.zeros(2), kappa=1.0, scale=1.0, nu=5.0)
    >>> bt.ClassPosterior(num_classes=3, dim=2, prior=prior).covariance[0]
    tensor([[0.5000, 0.0000],
            [0.0000, 0.5000]])
    """

    mean: Tensor
    kappa: Tensor | float
    scale: Tensor | float
    nu: Tensor | float


@dataclass(frozen=True)
class NIWPosterior:
    """Parameters of one NIW a class: (K, D), (K,), (K,) (docs/method.md, eq. 4).

    Its scale is scale0 + L + c c^T, in parts: a training step draws from it without forming it.
    """

    mean: Tensor
    kappa: Any  # a tensor, or an array where the numbers of each class are on the host
    nu: Any
    prior_scale: Tensor | float  # scale0, (D, D), or a multiple of the identity
    cross: Tensor  # c, (K, D)
    shift: Tensor  # (K, D) of the items' mean from the prior's

    def scale(self, scatter: Tensor) -> Tensor:
        """Return the scale matrices (K, D, D), given the scatter L (K, D, D) of the items."""
        scale = torch.baddbmm(scatter, self.cross.unsqueeze(2), self.cross.unsqueeze(1))
        is_matrix = isinstance(self.prior_scale, Tensor) and self.prior_scale.ndim == 2
        (scale if is_matrix else scale.diagonal(dim1=-2, dim2=-1)).add_(self.prior_scale)
        return scale


def check_prior(prior: NIWPrior, dim: int) -> None:
    """Raise unless the prior is a proper NIW in ``dim`` dimensions."""
    allowed: dict[str, tuple[tuple[int, ...], ...]]
    allowed = {"mean": ((dim,),), "kappa": ((),), "scale": ((dim, dim), ()), "nu": ((),)}
    for name, shapes in allowed.items():
        value = getattr(prior, name)
        if not isinstance(value, Tensor | float | int):
            raise InputTypeError(f"prior.{name} must be a tensor; got {type(value).__name__}")
        tensor = torch.as_tensor(value)
        if tensor.shape not in shapes:
            raise InputError(f"prior.{name} must have shape {shapes[0]}; got {tuple(tensor.shape)}")
        if not torch.isfinite(tensor).all():
            raise InputError(f"prior.{name} must be finite")
    if not prior.kappa > 0:
        raise InputError(f"prior.kappa must be above 0; got {float(prior.kappa):g}")
    if not prior.nu > dim - 1:
        raise InputError(f"prior.nu must be above D - 1 = {dim - 1}; got {float(prior.nu):g}")
    scale = torch.as_tensor(prior.scale, dtype=torch.float64)
    matrix = scale if scale.ndim else scale.reshape(1, 1)
    if not torch.allclose(matrix, matrix.mT) or torch.linalg.cholesky_ex(matrix).info > 0:
        raise InputError("prior.scale must be symmetric and positive definite")


def improper_prior(like: Tensor) -> NIWPrior:
    """Return the paper's prior in the D dimensions of ``like`` (K, D): no pseudo-items, no scale."""
    return NIWPrior(like.new_zeros(like.shape[1]), 0.0, 0.0, 0.0)


def condition(prior: NIWPrior, count: Numbers, mean: Tensor) -> NIWPosterior:
    """Add items of the given count (K,) and mean (K, D) to the prior (docs/method.md, eq. 4).

    Numbers per class stay where the counts are: in tensors, or in arrays on the host.
    """
    shift = mean - prior.mean  # (K, D)
    if isinstance(count, np.ndarray) and isinstance(prior.kappa, float):
        key = count.tobytes(), prior.kappa, prior.nu, shift.dtype, shift.device
        kappa, nu, along, across = _weights.get(key, lambda: _weigh(prior, count, shift))
    else:
        kappa, nu, along, across = _weigh(prior, count, shift)
    centre = torch.addcmul(prior.mean, along, shift)
    return NIWPosterior(centre, kappa, nu, prior.scale, shift * across, shift)


_weights: Latest[tuple[Any, Any, Tensor, Tensor]] = Latest()


def _weigh(prior: NIWPrior, count: Numbers, like: Tensor) -> tuple[Any, Any, Tensor, Tensor]:
    """Return kappa_n (K,), nu_n (K,), and columns (K, 1) of the weights of shift and cross."""
    kappa, nu = prior.kappa + count, prior.nu + count  # (K,), (K,) float64
    share = count / (kappa + TINY)  # n / kappa_n
    along, across = columns(like, share, (prior.kappa * share) ** 0.5)
    return kappa, nu, along, across


def where_of(numbers: Numbers) -> Any:
    """Return the function ``where`` for tensors, or for arrays."""
    return np.where if isinstance(numbers, np.ndarray) else torch.where


def columns(like: Tensor, *numbers: Numbers) -> list[Tensor]:
    """Return numbers (K,) as columns (K, 1), of the type and on the device of ``like``."""
    arrays = [one[:, None].astype(kind_of(like)) for one in numbers if isinstance(one, np.ndarray)]
    if arrays:
        return send(like, *arrays)
    return [one.to(like.dtype).unsqueeze(1) for one in numbers if isinstance(one, Tensor)]
