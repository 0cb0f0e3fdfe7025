"""Drawing points around class means, batched over classes."""

import torch
from torch import Generator, Tensor

from bayestriplet.posterior.priors import NIWPosterior
from bayestriplet.posterior.root import ScatterRoot, square_root


def draw_normal(
    niw: NIWPosterior, root: ScatterRoot, classes: Tensor, size: Tensor, num: int, generator: Generator | None
) -> Tensor:
    """Draw (P, num, D) from N(E[mu], size^2 scale) of P ``classes`` with parameters ``niw`` and size (P,)."""
    return _draw_around(niw, root, classes, size.unsqueeze(1), num, generator)


def draw_student(
    niw: NIWPosterior,
    root: ScatterRoot,
    classes: Tensor,
    freedom: Tensor,
    noise: float,
    num: int,
    generator: Generator | None,
) -> Tensor:
    """Draw (P, num, D) from the posterior predictive of P classes; ``noise`` scales the deviation.

    A Student-t deviation is a normal one stretched by sqrt(nu / chi^2_nu), one factor a draw.
    """
    half = (freedom / 2).unsqueeze(1).expand(-1, num)  # (P, num)
    stretch = (half / torch._standard_gamma(half, generator=generator)).sqrt()
    size = noise * ((niw.kappa + 1) / (niw.kappa * freedom)).sqrt()  # (P,)
    return _draw_around(niw, root, classes, stretch * size.unsqueeze(1), num, generator)


def _draw_around(
    niw: NIWPosterior,
    root: ScatterRoot,
    classes: Tensor,
    size: Tensor,
    num: int,
    generator: Generator | None,
) -> Tensor:
    """Draw deviations of covariance scale0 + L + c c^T, times size (P, 1) or (P, num), around the means.

    A sum of independent deviations, one for each part of the scale (docs/method.md, eq. 9).
    """
    deviation = root.deviate(classes, niw.cross, num, generator)  # (P, num, D)
    scale = niw.prior_scale
    if isinstance(scale, Tensor) or scale > 0:
        standard = torch.empty_like(deviation).normal_(generator=generator)
        if isinstance(scale, Tensor) and scale.ndim == 2:
            standard = standard @ square_root(scale.unsqueeze(0))
        else:
            standard.mul_(scale**0.5)
        deviation.add_(standard)
    return torch.addcmul(niw.mean.unsqueeze(1), deviation, size.to(deviation.dtype).unsqueeze(2))
