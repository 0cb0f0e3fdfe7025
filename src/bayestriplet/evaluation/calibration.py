"""How honest probabilities are: log loss, calibration error, and the temperature that lessens both."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.stats import rankdata

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]

BINS = 15
COLDEST, HOTTEST = 1e-3, 1e6  # temperatures that are searched
CELLS = 2**24  # probabilities of items by classes that are held at a time


def log_softmax(scores: Floats) -> Floats:
    """Return the logarithm of the softmax over the last axis; -inf scores keep probability 0."""
    shifted = scores - scores.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def log_losses(log_probabilities: Floats, labels: Labels) -> Floats:
    """Return -log P(label) of every item (n,): log_probabilities (n, K), labels (n,)."""
    return -log_probabilities[np.arange(len(labels)), labels]


@dataclass(frozen=True)
class Judged:
    """What probabilities made of n items: nothing here grows with the number of classes."""

    confidence: Floats  # (n,) the probability of the likeliest class
    right: NDArray[np.bool_]  # (n,) whether that is the item's own
    loss: Floats  # (n,) -log P(label)

    @classmethod
    def of(cls, log_probabilities: Floats, labels: Labels) -> "Judged":
        """Judge log probabilities (n, K) by labels (n,)."""
        right = log_probabilities.argmax(1) == labels
        return cls(np.exp(log_probabilities.max(1)), right, log_losses(log_probabilities, labels))

    @classmethod
    def by(
        cls, way: Callable[[NDArray[Any]], Floats], vectors: NDArray[Any], labels: Labels, classes: int
    ) -> "Judged":
        """Judge the log probabilities that ``way`` gives vectors (n, D), never all n x K at a time."""
        rows = max(1, CELLS // classes)
        parts = [slice(start, start + rows) for start in range(0, max(1, len(vectors)), rows)]
        found = [cls.of(way(vectors[part]), labels[part]) for part in parts]
        names = [one.name for one in fields(cls)]
        return cls(**{name: np.concatenate([getattr(one, name) for one in found]) for name in names})


def fit_temperature(scores: Floats, labels: Labels, log_prior: Floats) -> tuple[float, float]:
    """Return the T with the least log loss of softmax(scores / T + log_prior), scores (n, K), and that loss.

    A label counts as certain only up to 1 - 1 / (n + 2), and the rest is shared out by the
    prior: so T stays finite, and above 0, where a few items are all classified well. The loss
    is convex in 1 / T, so its one minimum is found on a logarithmic scale.
    """
    doubt = 1 / (len(labels) + 2)
    prior = np.exp(log_prior)
    known = prior > 0

    def loss(log_temperature: float) -> float:
        found = log_softmax(scores / np.exp(log_temperature) + log_prior)
        certain = log_losses(found, labels).mean()
        return float((1 - doubt) * certain - doubt * (found[:, known] @ prior[known]).mean())

    bounds = float(np.log(COLDEST)), float(np.log(HOTTEST))
    best = minimize_scalar(loss, bounds=bounds, method="bounded")
    return float(np.exp(best.x)), float(best.fun)


@dataclass(frozen=True)
class Reliability:
    """Items by the confidence they were classified with, in equal bins of 0 .. 1."""

    number: Labels  # (bins,) items
    confidence: Floats  # (bins,) their mean confidence; NaN without items
    accuracy: Floats  # (bins,) the share of them that is classified right; NaN without items

    @property
    def error(self) -> float:
        """The expected calibration error (docs/method.md, eq. 16)."""
        gaps = np.abs(self.accuracy - self.confidence)
        return float(np.nansum(gaps * self.number) / self.number.sum())


def reliability(probabilities: Floats, labels: Labels, bins: int = BINS) -> Reliability:
    """Sort items into bins by the probability of their likeliest class: probabilities (n, K), labels (n,).

    Bin b holds confidences from b / bins up to below (b + 1) / bins, the last one 1 as well.
    """
    return in_bins(probabilities.max(1), probabilities.argmax(1) == labels, bins)


def in_bins(confidence: Floats, right: NDArray[np.bool_], bins: int = BINS) -> Reliability:
    """Sort items into bins by their confidence (n,), which were classified right (n,) or not."""
    bin_of = np.minimum((confidence * bins).astype(np.int64), bins - 1)
    number = np.bincount(bin_of, minlength=bins)
    with np.errstate(invalid="ignore"):
        mean, share = (np.bincount(bin_of, values, bins) / number for values in (confidence, right))
    return Reliability(number, mean, share)


def wilson_interval(right: Floats, number: Labels) -> tuple[Floats, Floats]:
    """Return the ends of Wilson's 95% intervals of shares right / number."""
    z = 1.959964
    share = right / number
    center = (share + z**2 / (2 * number)) / (1 + z**2 / number)
    half = z / (1 + z**2 / number) * np.sqrt(share * (1 - share) / number + z**2 / (4 * number**2))
    return np.maximum(center - half, 0), np.minimum(center + half, 1)


def selective_accuracy(confidence: Floats, right: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Return the shares of items answered, most confident first, and the accuracy among them."""
    order = np.argsort(-confidence, kind="stable")
    number = np.arange(1, len(order) + 1)
    return number / len(order), right[order].cumsum() / number


def auroc(novel: Floats, known: Floats) -> float:
    """Return the chance that a novel item scores above a known one, ties counting half."""
    ranks = rankdata(np.concatenate([novel, known]))[: len(novel)]
    return float((ranks.mean() - (len(novel) + 1) / 2) / len(known))
