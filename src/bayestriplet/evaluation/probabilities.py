"""Class probabilities of a run's queries in three ways, and how honest each of them is."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayestriplet.evaluation.bootstrap import Score, bootstrap
from bayestriplet.evaluation.calibration import (
    Floats,
    Labels,
    auroc,
    fit_temperature,
    log_losses,
    log_softmax,
    reliability,
)
from bayestriplet.evaluation.embeddings import Embedded
from bayestriplet.evaluation.neighbours import nearest_neighbours

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


def compare_ways(vectors: RunVectors, classes: int, posterior: LogProbabilities) -> dict[str, Floats]:
    """Return the log probabilities (n, K) of the test items by each of the WAYS.

    ``posterior`` gives those of any vectors. What the other two leave open is chosen for the
    least log loss on the validation items, as the posterior's own options were.
    """
    prior = np.bincount(vectors.train.labels, minlength=classes) / len(vectors.train.labels)
    with np.errstate(divide="ignore"):
        log_prior = np.log(prior)
    ways = (
        posterior(vectors.test.vectors),
        vote_log_probabilities(vectors, classes),
        distance_log_probabilities(vectors, log_prior),
    )
    return dict(zip(WAYS, ways, strict=True))


def vote_log_probabilities(vectors: RunVectors, classes: int) -> Floats:
    """Let the k nearest training items vote: (votes + a) / (k + a K), k and a chosen on validation items."""
    train, most = vectors.train, min(max(NEIGHBOURS), len(vectors.train.labels))
    sizes = [k for k in NEIGHBOURS if k <= most]

    def near_labels(items: Embedded) -> Labels:
        return train.labels[nearest_neighbours(items.vectors, most, train.vectors)]  # (n, most)

    right, best = near_labels(vectors.val) == vectors.val.labels[:, None], (np.inf, 1, 1.0)
    for k in sizes:
        votes = right[:, :k].sum(1)  # for the true class, which is all that the loss looks at
        for smoothing in SMOOTHING:
            loss = -np.log((votes + smoothing) / (k + smoothing * classes)).mean()
            best = min(best, (float(loss), k, smoothing))
    _, k, smoothing = best
    votes = count_votes(near_labels(vectors.test)[:, :k], classes)
    return np.log((votes + smoothing) / (k + smoothing * classes))


def count_votes(near: Labels, classes: int) -> Floats:
    """Return how many of the neighbours' labels (n, k) are of each class, (n, K)."""
    votes = np.zeros((len(near), classes))
    np.add.at(votes, (np.arange(len(near))[:, None], near), 1)
    return votes


def distance_log_probabilities(vectors: RunVectors, log_prior: Floats) -> Floats:
    """Return the log softmax of -|x - mean_k|^2 / T + log prior_k, T fitted on validation items."""
    known = np.flatnonzero(np.isfinite(log_prior))
    train = vectors.train
    means = np.stack([train.vectors[train.labels == k].mean(0, dtype=np.float64) for k in known])
    center = means.mean(0)  # differences of large squares would round
    means -= center

    def scores(items: Embedded) -> Floats:
        x = items.vectors - center
        out = np.full((len(x), len(log_prior)), -np.inf)
        out[:, known] = 2 * x @ means.T - np.square(means).sum(1) - np.square(x).sum(1, keepdims=True)
        return out

    temperature, _ = fit_temperature(scores(vectors.val), vectors.val.labels, log_prior)
    return log_softmax(scores(vectors.test) / temperature + log_prior)


def measure(
    log_probabilities: Floats, labels: Labels, seed: int = 0, clusters: NDArray[Any] | None = None
) -> Honesty:
    """Return the accuracy, log loss and calibration error of log probabilities (n, K) for labels (n,).

    The intervals resample items of a cluster (n,) together.
    """
    right = (log_probabilities.argmax(1) == labels).astype(np.float64)
    means = bootstrap({"accuracy": right, "loss": log_losses(log_probabilities, labels)}, seed, clusters)
    error = reliability(np.exp(log_probabilities), labels).error
    return Honesty(means["accuracy"], means["loss"], error)


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
