"""What taught examples say of how new classes are read, each as if it had not been taught. NumPy alone."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bayestriplet.runs.adapting import MOST_ASKED, MOST_LEFT_OUT, Adapted
from bayestriplet.runs.folder import RunFolder
from bayestriplet.runs.kept_examples import KeptExamples
from bayestriplet.runs.lessons import MOST_FULL, Lessons, new_scale
from bayestriplet.runs.predictive import Predictive
from bayestriplet.runs.rescoring import kept_evidence
from bayestriplet.runs.statistics import Prior, Statistics
from bayestriplet.runs.students import Floats, entropies, peaks
from bayestriplet.runs.taught import Taught
from bayestriplet.runs.teaching import Teaching, spread_rows


def adapt(trained: Predictive, run: RunFolder, teaching: Teaching, taught: Taught) -> Taught:
    """Return what was taught with the reading of new classes that suits its examples.

    That takes validation items, and an example that is not the only one of its class. With more than 32
    taught classes the constants hold.
    """
    taught = replace(taught, adapted=None)
    predictive = trained.taught(run, teaching, taught)
    lessons = predictive.lessons
    if lessons is None or len(lessons.columns) > MOST_FULL or not len(teaching.validation):
        return taught
    examples = _usable(taught, lessons)
    if not len(examples.rows):
        return taught
    rows, x = spread_rows(len(teaching.validation), MOST_ASKED), examples.vectors.astype(np.float64)
    asked = teaching.validation[rows].astype(np.float64)
    new = lessons.columns[lessons.new]
    old = np.setdiff1d(np.flatnonzero(np.isfinite(predictive.log_prior)), new)
    of_examples, scores = _evidence_and_scores(predictive, x, old, new)
    explained = kept_evidence(predictive, teaching, trained)
    if explained is None:
        of_asked, among = _evidence_and_scores(predictive, asked, old, new)
    else:
        of_asked, among = explained[rows], lessons.log_scores(asked)  # all of them are new
    own = np.searchsorted(np.flatnonzero(lessons.new), examples.rows)
    scores[np.arange(len(x)), own] = _left_out_scores(trained, teaching, taught, lessons, examples)
    level = np.log(len(new)) - np.logaddexp.reduce(predictive.log_prior[old])
    odds = tuple(
        np.logaddexp.reduce(of_new, 1) - of_old - level
        for of_new, of_old in ((among, of_asked), (scores, of_examples))
    )
    prior = float(np.log(len(new) / len(old)))
    contrast = float(lessons.contrast[lessons.new].mean())
    found = Adapted.fit(scores, own, (odds[0], odds[1]), prior, contrast, teaching.new.bias)
    return replace(taught, adapted=found)


def _evidence_and_scores(
    predictive: Predictive, x: Floats, old: NDArray[np.int64], new: NDArray[np.int64]
) -> tuple[Floats, Floats]:
    """Return the log evidence (N,) of old classes, and the terms (N, P) of new ones without their prior."""
    joint = predictive.log_joint(x)
    return np.logaddexp.reduce(joint[:, old], 1), joint[:, new] - predictive.log_prior[new]


def _usable(taught: Taught, lessons: Lessons) -> KeptExamples:
    """Return the examples of new classes that are not alone, evenly spread where they are many."""
    kept = taught.kept.asked
    able = lessons.new & (taught.statistics.count > 1)
    kept = kept.take(able[kept.rows] & kept.single)
    return kept.take(spread_rows(len(kept.rows), MOST_LEFT_OUT))


def _left_out_scores(
    trained: Predictive, teaching: Teaching, taught: Taught, lessons: Lessons, examples: KeptExamples
) -> Floats:
    """Return the terms of eq. (19) (S,) of examples in their own classes without them."""
    entropy = float(trained.students.entropy[np.isfinite(trained.log_prior)].mean())
    found = np.empty(len(examples.rows))
    for k in np.unique(examples.rows):
        rows = np.flatnonzero(examples.rows == k)
        x = examples.vectors[rows].astype(np.float64)
        density, own = left_out(taught.statistics, k, x, teaching.new_prior, teaching.memory)
        count = np.full(len(rows), taught.statistics.count[k])
        level = new_scale(teaching.new, count, own, entropy)[1]
        found[rows] = density * lessons.power[k] + level / trained.temperature
    return found


def left_out(statistics: Statistics, k: int, x: Floats, prior: Prior, memory: float) -> tuple[Floats, Floats]:
    """Return the log density (n,) of examples (n, D) of class k without each, and that class's entropy.

    Leaving an example out changes the scale matrix by two rows, so that one factorisation serves all:
    with S = R R^T the scale without any cross term, it is R (I + U diag(w) U^T) R^T, U of two columns.
    """
    dim, number = x.shape[1], statistics.count[k]
    left = number - 1
    keep = min(1.0, memory / left)
    count = left * keep
    kappa, freedom = prior.kappa + count, prior.weight + 2 + count
    root = np.linalg.cholesky(prior.weight * prior.covariance + keep * statistics.scatter[k])
    shift = np.linalg.solve(root, statistics.mean[k] - prior.mean)  # (D,)
    own = np.linalg.solve(root, (x - statistics.mean[k]).T).T  # (n, D)
    moved = shift - own / left  # from the prior's mean to that of the others
    gap = own + shift - count / kappa * moved  # from the predictive's centre to the example
    weights = np.array([-keep * number / left, prior.kappa * count / kappa])
    sides = np.stack([own, moved], 1)  # (n, 2, D), the columns of U
    inner = np.eye(2) + weights[:, None] * (sides @ sides.transpose(0, 2, 1))  # (n, 2, 2)
    along = (sides @ gap[:, :, None])[:, :, 0]
    taken = np.linalg.solve(inner, (weights * along)[:, :, None])[:, :, 0]
    spread = (1 + 1 / kappa) / freedom
    distance = np.maximum(np.square(gap).sum(1) - (along * taken).sum(1), 0.0) / spread
    log_volume = np.log(root.diagonal()).sum() + np.log(np.linalg.det(inner)) / 2 + dim / 2 * np.log(spread)
    many = np.full(len(x), freedom)
    peak = peaks(log_volume, many, dim)
    return peak - (freedom + dim) / 2 * np.log1p(distance / freedom), entropies(peak, many, dim)
