"""Class probabilities of a run's queries in three ways, and how honest each of them is."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayestriplet.evaluation.bootstrap import Score, bootstrap
from bayestriplet.evaluation.calibration import (
    CELLS,
    Floats,
    Judged,
    Labels,
    auroc,
    fit_temperature,
    in_bins,
    log_softmax,
)
from bayestriplet.evaluation.embeddings import Embedded
from bayestriplet.evaluation.neighbours import nearest_neighbours
from bayestriplet.runs.teaching import spread_rows

NEIGHBOURS = (1, 2, 5, 10, 20, 50, 100, 200)
SMOOTHING = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
WAYS = ("posterior", "kNN vote", "distance to means")

LogProbabilities = Callable[[NDArray[np.float32]], Floats]


@dataclass(frozen=True)
class RunVectors:
    """The embedded splits of a run: statistics from training, choices on validation, figures on test."""

    train: Embedded
    val: Embedded
    test: Embedded


@dataclass(frozen=True)
class Honesty:
    """What probabilities are worth: how often the likeliest class is right, and two errors of them."""

    accuracy: Score
    log_loss: Score
    ece: float


def compare_ways(
    vectors: RunVectors, classes: int, posterior: LogProbabilities
) -> dict[str, LogProbabilities]:
    """Return the WAYS to the log probabilities (n, K) of vectors (n, D).

    ``posterior`` is the first of them. What the other two leave open is chosen for the least log loss
    on the validation items, as the posterior's own options were.
    """
    prior = np.bincount(vectors.train.labels, minlength=classes) / len(vectors.train.labels)
    with np.errstate(divide="ignore"):
        log_prior = np.log(prior)
    ways = posterior, vote_by(vectors, classes), distance_by(vectors, log_prior)
    return dict(zip(WAYS, ways, strict=True))


def vote_by(vectors: RunVectors, classes: int) -> LogProbabilities:
    """Let the k nearest training items vote: (votes + a) / (k + a K), k and a chosen on validation items."""
    train, most = vectors.train, min(max(NEIGHBOURS), len(vectors.train.labels))
    sizes = [k for k in NEIGHBOURS if k <= most]

    def near_labels(vectors: NDArray[np.float32], k: int) -> Labels:
        return train.labels[nearest_neighbours(vectors, k, train.vectors)]  # (n, k)

    right = near_labels(vectors.val.vectors, most) == vectors.val.labels[:, None]
    best = (np.inf, 1, 1.0)
    for k in sizes:
        votes = right[:, :k].sum(1)  # for the true class, which is all that the loss looks at
        for smoothing in SMOOTHING:
            loss = -np.log((votes + smoothing) / (k + smoothing * classes)).mean()
            best = min(best, (float(loss), k, smoothing))
    _, k, smoothing = best

    def log_probabilities(x: NDArray[np.float32]) -> Floats:
        votes = count_votes(near_labels(x, k), classes)
        return np.log((votes + smoothing) / (k + smoothing * classes))

    return log_probabilities


def count_votes(near: Labels, classes: int) -> Floats:
    """Return how many of the neighbours' labels (n, k) are of each class, (n, K)."""
    votes = np.zeros((len(near), classes))
    np.add.at(votes, (np.arange(len(near))[:, None], near), 1)
    return votes


def distance_by(vectors: RunVectors, log_prior: Floats) -> LogProbabilities:
    """Take the log softmax of -|x - mean_k|^2 / T + log prior_k, T fitted on validation items."""
    known = np.flatnonzero(np.isfinite(log_prior))
    train = vectors.train
    means = np.stack([train.vectors[train.labels == k].mean(0, dtype=np.float64) for k in known])
    center = means.mean(0)  # differences of large squares would round
    means -= center

    def scores(vectors: NDArray[np.float32]) -> Floats:
        x = vectors - center
        out = np.full((len(x), len(log_prior)), -np.inf)
        out[:, known] = 2 * x @ means.T - np.square(means).sum(1) - np.square(x).sum(1, keepdims=True)
        return out

    items = vectors.val.take(spread_rows(len(vectors.val.labels), max(1, CELLS // len(log_prior))))
    temperature, _ = fit_temperature(scores(items.vectors), items.labels, log_prior)
    return lambda x: log_softmax(scores(x) / temperature + log_prior)


def measure(judged: Judged, seed: int = 0, clusters: NDArray[Any] | None = None) -> Honesty:
    """Return the accuracy, log loss and calibration error of probabilities of n items.

    The intervals resample items of a cluster (n,) together.
    """
    values = {"accuracy": judged.right.astype(np.float64), "loss": judged.loss}
    means = bootstrap(values, seed, clusters)
    return Honesty(means["accuracy"], means["loss"], in_bins(judged.confidence, judged.right).error)


def nearest_distances(vectors: NDArray[np.float32], gallery: NDArray[np.float32]) -> Floats:
    """Return the distance (n,) of every vector to the nearest of the gallery."""
    nearest = nearest_neighbours(vectors, 1, gallery)[:, 0]
    return np.linalg.norm(vectors.astype(np.float64) - gallery[nearest], axis=1)


def novelty_aurocs(
    novel: NDArray[np.float32], vectors: RunVectors, scores: Callable[[NDArray[np.float32]], Floats]
) -> dict[str, float]:
    """Return the AUROC of novel items against test items: by the posterior, and by the nearest item."""
    test, train = vectors.test.vectors, vectors.train.vectors
    nearest = (nearest_distances(items, train) for items in (novel, test))
    return {"posterior": auroc(scores(novel), scores(test)), "nearest training item": auroc(*nearest)}
