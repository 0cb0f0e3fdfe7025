"""Drawing points around class means, batched over classes."""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from bayestriplet.posterior.chosen import Chosen
from bayestriplet.posterior.priors import NIWPosterior, Numbers, columns
from bayestriplet.posterior.root import square_root
from bayestriplet.posterior.structure import Structure


@dataclass(frozen=True)
class Drawer:
    """What points of P classes are drawn from: their parameters, and the structure of their scatters."""

    niw: NIWPosterior
    centre: Tensor  # (P, D) of the points
    structure: Structure
    chosen: Chosen  # (P,)
    share: Tensor  # (P,)
    mirrored: bool = False  # whether points come in pairs, one on either side of the centre

    def normal(self, size: Numbers, num: int, generator: Generator | None) -> Tensor:
        """Draw (P, num, D) from N(centre, size^2 scale), with size (P,)."""
        (column,) = columns(self.niw.mean, size)
        return self._around(column, num, generator)

    def student(self, freedom: Tensor, noise: float, num: int, generator: Generator | None) -> Tensor:
        """Draw (P, num, D) from the posterior predictive around the centre; ``noise`` scales the deviation.

        A Student-t deviation is a normal one stretched by sqrt(nu / chi^2_nu), one factor a draw.
        """
        half = (freedom / 2).unsqueeze(1).expand(-1, num)  # (P, num)
        stretch = (half / torch._standard_gamma(half, generator=generator)).sqrt()
        size = noise * ((self.niw.kappa + 1) / (self.niw.kappa * freedom)).sqrt()  # (P,)
        return self._around(stretch * size.unsqueeze(1), num, generator)

    def _around(self, size: Tensor, num: int, generator: Generator | None) -> Tensor:
        """Draw deviations of covariance scale0 + L + c c^T, times size (P, 1) or (P, num).

        A sum of independent deviations, one for each part of the scale (docs/method.md, eq. 9a).
        """
        niw, scale = self.niw, self.niw.prior_scale
        is_matrix = isinstance(scale, Tensor) and scale.ndim == 2
        level = 0.0 if is_matrix else scale
        half = -(-num // 2) if self.mirrored else num
        deviation = self.structure.deviate(self.chosen, self.share, niw.cross, level, half, generator)
        if isinstance(scale, Tensor) and is_matrix:
            standard = torch.empty_like(deviation).normal_(generator=generator)
            deviation.add_(standard @ square_root(scale.unsqueeze(0)))
        centre, stretch = self.centre.unsqueeze(1), size.to(deviation.dtype).unsqueeze(2)
        if not self.mirrored:
            return torch.addcmul(centre, deviation, stretch)
        stretch = stretch.expand(-1, num, -1)
        points = deviation.new_empty(len(deviation), num, deviation.shape[2])
        torch.addcmul(centre, deviation, stretch[:, :half], out=points[:, :half])
        torch.addcmul(centre, deviation[:, : num - half], stretch[:, half:], value=-1, out=points[:, half:])
        return points
