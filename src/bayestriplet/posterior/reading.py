"""Reading a class posterior: the prior is conditioned on the statistics."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from bayestriplet.errors import StateError
from bayestriplet.posterior.checks import check_classes
from bayestriplet.posterior.chosen import take
from bayestriplet.posterior.precision import full_precision
from bayestriplet.posterior.priors import NIWPosterior, NIWPrior, Numbers, condition, improper_prior, where_of
from bayestriplet.posterior.root import ScatterRoot
from bayestriplet.posterior.state import PosteriorState
from bayestriplet.posterior.statistics import TINY, ClassStatistics
from bayestriplet.posterior.structures import DENSE_UP_TO, in_units
from bayestriplet.posterior.sums import empirical_prior


class PosteriorReading(PosteriorState):
    """The expectations of a posterior, and the parameters that draws and densities are made of."""

    @property
    def item_scatter(self) -> Tensor:
        """The scatters (K, D, D) of the items, of structure="full": the buffer itself.

        >>> posterior.item_scatter[0]
        tensor([[0.0000, 0.0000],
                [0.0000, 2.0000]])
        """
        if self.structure.name != "full":
            raise StateError(f"structure={self.structure.name!r} keeps no scatters; use covariance_of")
        scatter: Tensor = self.structure.item_scatter  # type: ignore[assignment]
        return scatter

    @property
    def root(self) -> ScatterRoot:
        """The root that structure="full" draws from.

        >>> type(posterior.root).__name__
        'ScatterRoot'
        """
        root: ScatterRoot = self.structure.root  # type: ignore[assignment]
        return root

    @property
    def statistics(self) -> ClassStatistics:
        """Count, mean and scatter of the items alone, without the prior.

        With structure="full" they are the buffers themselves; else the scatters are made, as the
        structure has them.

        >>> posterior.statistics.mean[:2]
        tensor([[0., 2.],
                [5., 0.]])
        """
        everyone = self.everyone().classes
        scatter = self._dense(everyone)
        return ClassStatistics(self.count, self.item_mean, scatter)

    @property
    @torch.no_grad()
    def mean(self) -> Tensor:
        """E[mu] of every class (K, D). A class never seen has the prior's mean.

        >>> posterior.mean.shape
        torch.Size([3, 2])
        >>> posterior.mean[1].round(decimals=1)
        tensor([5., 0.])
        """
        with full_precision(self.item_mean):
            return self._conditioned(self.everyone().classes).mean

    @property
    def covariance(self) -> Tensor:
        """E[Sigma] of every class (K, D, D); NaN where a given prior's nu + n <= D + 1 leaves it undefined.

        With the improper prior a class never seen reads as zeros, and L / n stands in up to
        n = D + 1 items, as in the paper.

        >>> posterior.covariance.shape
        torch.Size([3, 2, 2])
        """
        return self._covariance(self.everyone().classes)

    def covariance_of(self, classes: Tensor) -> Tensor:
        """Return E[Sigma] (N, D, D) of some classes (N,), as :attr:`covariance` has them.

        >>> posterior.covariance_of(torch.tensor([1])).shape
        torch.Size([1, 2, 2])
        """
        checked = check_classes(classes, self.num_classes)
        distinct, line = torch.unique(checked, return_inverse=True)
        return self._covariance(distinct)[line]

    @torch.no_grad()
    def _covariance(self, classes: Tensor) -> Tensor:
        with full_precision(self.item_mean):
            niw = self._conditioned(classes)
            scale = niw.scale(self._dense(classes))
            return scale / self._divisor(niw).to(scale.dtype)[:, None, None]

    def _dense(self, classes: Tensor) -> Tensor:
        """Return the scatters of classes (P,), (P, D, D), if they fit."""
        size = len(classes) * self.dim**2 * self.item_mean.dtype.itemsize
        if self.structure.name != "full" and size > DENSE_UP_TO:
            raise StateError(
                f"{len(classes)} covariances take {in_units(size)}; ask for those of some classes: "
                "covariance_of(classes)"
            )
        return self.structure.dense(classes, self._share(classes))

    def _share(self, classes: Tensor) -> Tensor:
        """Return each class's part of the count of all (P,); where nothing is pooled, just the counts."""
        count = take(self.count, classes)
        return count / self.count.sum().clamp_min(TINY) if self.structure.pooled else count

    def _conditioned(self, classes: Tensor, count: Numbers | None = None) -> NIWPosterior:
        """Condition the prior on the statistics of ascending ``classes`` (P,); their counts may be arrays."""
        if count is None:
            count = take(self.count, classes)
        if self.prior == "empirical":
            self.refresh()
            prior = empirical_prior(self.sums, self.origin, self.item_mean.dtype)
        elif self.prior == "improper":
            prior = improper_prior(self.item_mean)
        else:
            kappa: Any = self.prior_kappa
            nu: Any = self.prior_nu
            if isinstance(count, np.ndarray):
                kappa, nu = self._given.read(kappa, nu)
            prior = NIWPrior(self.prior_mean, kappa, self.prior_scale, nu)
        return condition(prior, count, take(self.item_mean, classes))

    def _divisor(self, niw: NIWPosterior) -> Any:
        """Return what the scale is divided by to give E[Sigma], (P,): nu_n - D - 1, or NaN."""
        where = where_of(niw.nu)
        divisor = niw.nu - self.dim - 1
        if self.prior == "improper":
            divisor = where(divisor > 0, divisor, where(niw.nu > 0, niw.nu, 1.0))
        elif self.prior == "given":
            divisor = where(divisor > 0, divisor, torch.nan)
        return divisor

    def _freedom(self, niw: NIWPosterior, known: Tensor) -> Tensor:
        """Return the predictive's degrees of freedom, (P,); the improper prior has none up to D + 1 items."""
        if self.prior != "improper":
            return niw.nu - self.dim + 1
        nu = torch.where(known, niw.nu, self.dim + 2.0)
        if (nu <= self.dim + 1).any():
            raise StateError(
                f"the improper prior has no predictive density up to D + 1 = {self.dim + 1} items "
                f"a class; got a class with {int(nu.min())}"
            )
        return nu - self.dim + 1
