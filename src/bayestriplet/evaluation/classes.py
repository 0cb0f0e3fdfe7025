"""Which classes are close: confusion of nearest neighbours, and distances between class posteriors."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bayestriplet.errors import InputError, reason_of
from bayestriplet.posterior.posterior import ClassPosterior
from bayestriplet.posterior.predictive import definite_factor
from bayestriplet.runs.folder import RunFolder
from bayestriplet.runs.posterior import read_posterior


def open_posterior(run: RunFolder) -> ClassPosterior:
    """Return the posterior of a run."""
    saved = read_posterior(run.posterior)
    posterior = ClassPosterior(len(saved.classes), saved.dim, dtype=torch.float64)
    try:
        posterior.load_state_dict({name: torch.from_numpy(value) for name, value in saved.state.items()})
    except (RuntimeError, TypeError) as error:
        raise InputError(
            f"{run.posterior} is not a posterior of {len(saved.classes)} classes ({reason_of(error)[:200]}): "
            f"train again with --config {run.config}"
        ) from None
    return posterior


def confusion(
    labels: NDArray[np.int64], nearest_labels: NDArray[np.int64], classes: int
) -> NDArray[np.float64]:
    """Return percent (K, K) of a class's items by their nearest neighbour's class; NaN without items."""
    table = np.zeros((classes, classes))
    np.add.at(table, (labels, nearest_labels), 1)
    with np.errstate(invalid="ignore"):
        return 100 * table / table.sum(1, keepdims=True)


@torch.no_grad()
def bhattacharyya(mean: Tensor, covariance: Tensor) -> Tensor:
    """Return the Bhattacharyya distances (K, K) between normals with mean (K, D) and covariance (K, D, D).

    With d = mu_a - mu_b and S = (Sigma_a + Sigma_b) / 2 it is
    d^T S^-1 d / 8 + ln(det S / sqrt(det Sigma_a det Sigma_b)) / 2.
    exp(-distance) is the overlap of two classes: 1 if they coincide, 0 if they are apart.
    """
    covariance = covariance.double()
    log_volume = _log_volume(definite_factor(covariance, repair=True))  # (K,) half the log determinants
    rows = []
    for a in range(len(mean)):
        factor = definite_factor((covariance[a] + covariance) / 2, repair=True)  # (K, D, D)
        shift = (mean[a] - mean).double().unsqueeze(-1)  # (K, D, 1)
        white = torch.linalg.solve_triangular(factor, shift, upper=False)
        rows.append(white.square().sum((1, 2)) / 8 + _log_volume(factor) - (log_volume[a] + log_volume) / 2)
    return torch.stack(rows).clamp_min(0)


def _log_volume(factor: Tensor) -> Tensor:
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def posterior_distances(posterior: ClassPosterior, classes: int) -> NDArray[np.float64]:
    """Return the distances (classes, classes) of N(E[mu], E[Sigma]); NaN for classes without items."""
    seen = posterior.seen.nonzero().squeeze(1)
    table = np.full((classes, classes), np.nan)
    rows = seen.numpy()
    distances = bhattacharyya(posterior.mean[seen], posterior.covariance[seen])
    table[np.ix_(rows, rows)] = distances.numpy()
    return table
