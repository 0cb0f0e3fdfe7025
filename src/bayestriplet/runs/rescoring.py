"""The kept validation items scored anew with what was taught, so that percentages stay true. NumPy alone."""

import numpy as np

from bayestriplet.runs.predictive import Predictive, check_vectors
from bayestriplet.runs.students import Floats
from bayestriplet.runs.teaching import Teaching


def rescore(predictive: Predictive, teaching: Teaching, trained: Predictive) -> tuple[Floats, Floats]:
    """Return the novelty scores (V,) of the kept validation items, ascending, without and with looks.

    ``trained`` is the predictive before it was taught.
    """
    looks = None if teaching.looks is None else teaching.looks.astype(np.float64)
    scores, misfit = _by_what_is_kept(predictive, teaching, trained, looks)
    if predictive.appearance is None or looks is None:
        return np.sort(scores), np.empty(0)
    return np.sort(scores), np.sort(predictive.appearance.score(scores, looks, misfit))


def _by_what_is_kept(
    predictive: Predictive, teaching: Teaching, trained: Predictive, looks: Floats | None
) -> tuple[Floats, Floats | None]:
    """Return scores (V,) and misfits; of trained classes by what the file keeps, unless one has changed."""
    lessons, old = predictive.lessons, np.isfinite(trained.log_prior)
    shift = predictive.log_prior[: len(old)][old] - trained.log_prior[old]
    new = lessons is not None and not np.isin(lessons.columns, np.flatnonzero(old)).any()
    if lessons is None or not new or teaching.explained is None or np.ptp(shift) > 1e-9:
        _, scores, explained = predictive.explain(teaching.validation)
        return scores, _misfit(predictive, looks, np.exp(explained))
    x = check_vectors(teaching.validation, predictive.dim)
    taught = lessons.log_scores(x) + predictive.log_prior[lessons.columns]  # (V, P)
    of_old = teaching.explained + shift[0]
    evidence = np.logaddexp(of_old, np.logaddexp.reduce(taught, 1))
    scores = -evidence
    if predictive.background is not None:
        surprise = predictive.background.surprise(x, predictive.temperature)
        scores = predictive.background.score(scores, surprise)
    shares = np.zeros((len(x), len(predictive.classes)))
    shares[:, lessons.columns] = np.exp(taught - evidence[:, None])
    misfit = _misfit(predictive, looks, shares)
    if misfit is not None and teaching.misfit is not None:
        misfit = misfit + np.exp(of_old - evidence) * teaching.misfit
    return scores, misfit


def _misfit(predictive: Predictive, looks: Floats | None, shares: Floats) -> Floats | None:
    if predictive.appearance is None or looks is None:
        return None
    return predictive.appearance.misfit(looks, shares)
