"""Which classes are close: confusion of nearest neighbours, and distances between class posteriors."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bayestriplet.errors import InputError, StateError, reason_of
from bayestriplet.posterior.posterior import ClassPosterior
from bayestriplet.posterior.predictive import definite_factor
from bayestriplet.posterior.structures import structure_of
from bayestriplet.runs.folder import RunFolder
from bayestriplet.runs.posterior import read_posterior


def open_posterior(run: RunFolder) -> ClassPosterior:
    """Return the posterior of a run."""
    saved = read_posterior(run.posterior)
    try:
        posterior = ClassPosterior(
            len(saved.classes), saved.dim, dtype=torch.float64, structure=structure_of(saved.state)
        )
        posterior.load_state_dict({name: torch.from_numpy(value) for name, value in saved.state.items()})
    except (RuntimeError, TypeError, StateError) as error:
        raise InputError(
            f"{run.posterior} is not a posterior of {len(saved.classes)} classes ({reason_of(error)[:200]}): "
            f"train again with --config {run.config}"
        ) from None
    return posterior


def most_confused(
    labels: NDArray[np.int64], nearest_labels: NDArray[np.int64], classes: int, most: int
) -> NDArray[np.int64]:
    """Return up to ``most`` of the classes, ascending: all, or those of the pairs most often confused.

    Pairs are taken from the most frequent on, whichever of the two is the query's. Where there are too
    few of them, the classes with most items fill up.
    """
    if classes <= most:
        return np.arange(classes)
    wrong = labels != nearest_labels
    pairs = np.sort(np.stack([labels[wrong], nearest_labels[wrong]], 1), 1)
    found, counts = np.unique(pairs, axis=0, return_counts=True)
    ranked = found[np.argsort(-counts, kind="stable")].ravel()
    largest = np.argsort(-np.bincount(labels, minlength=classes), kind="stable")
    chosen = list(dict.fromkeys([*ranked.tolist(), *largest.tolist()]))[:most]
    return np.sort(np.array(chosen, np.int64))


def confusion(
    labels: NDArray[np.int64], nearest_labels: NDArray[np.int64], classes: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return percent (P, P) of the items of ``classes`` (P,) by their nearest neighbour's class.

    Of all items of a class: a row does not add up to 100 where others are nearest. NaN without items.
    """
    place = np.full(max(labels.max(), nearest_labels.max(), classes.max()) + 1, -1)
    place[classes] = np.arange(len(classes))
    rows, columns = place[labels], place[nearest_labels]
    table, shown = np.zeros((len(classes), len(classes))), (rows >= 0) & (columns >= 0)
    np.add.at(table, (rows[shown], columns[shown]), 1)
    total = np.bincount(rows[rows >= 0], minlength=len(classes))[:, None]
    with np.errstate(invalid="ignore"):
        return 100 * table / total


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


def posterior_distances(posterior: ClassPosterior, classes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the distances (P, P) of N(E[mu], E[Sigma]) of ``classes`` (P,); NaN for those without items."""
    table = np.full((len(classes), len(classes)), np.nan)
    inside = np.flatnonzero(classes < posterior.num_classes)  # others were never trained on
    places = inside[(posterior.seen[classes[inside]] > 0).numpy()]
    chosen = torch.from_numpy(classes[places])
    distances = bhattacharyya(posterior.mean[chosen], posterior.covariance_of(chosen))
    table[np.ix_(places, places)] = distances.numpy()
    return table
