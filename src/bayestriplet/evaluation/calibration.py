"""How honest probabilities are, and the temperature that makes them so."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
LEAST, MOST = 1e-3, 1e6  # temperatures that are searched


def log_softmax(scores: Floats) -> Floats:
    """Return the logarithm of the softmax over the last axis; -inf scores keep probability 0."""
    shifted = scores - scores.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def log_loss(log_probabilities: Floats, labels: Labels) -> float:
    """Return the mean of -log P(label) over items: log_probabilities (n, K), labels (n,)."""
    return float(-log_probabilities[np.arange(len(labels)), labels].mean())


def fit_temperature(scores: Floats, labels: Labels, log_prior: Floats) -> float:
    """Return the T with the least log loss of softmax(scores / T + log_prior), scores (n, K).

    The loss is convex in 1 / T, so it has one minimum; it is searched on a logarithmic scale.
    """
    return minimise_log(lambda t: log_loss(log_softmax(scores / t + log_prior), labels), LEAST, MOST)


def minimise_log(loss: Callable[[float], float], least: float, most: float) -> float:
    """Return where a loss with one minimum between two positive bounds is least, to four digits or so."""
    from scipy.optimize import minimize_scalar

    bounds = float(np.log(least)), float(np.log(most))
    found = minimize_scalar(lambda t: loss(float(np.exp(t))), bounds=bounds, method="bounded")
    return float(np.exp(found.x))
