"""Log joints under class means that are drawn from their posterior. NumPy alone."""

import numpy as np
from numpy.typing import ArrayLike

from bayestriplet.runs.predictive import Predictive, check_vectors
from bayestriplet.runs.row_statistics import KAPPA
from bayestriplet.runs.students import Floats


def draw_log_joint(
    predictive: Predictive, vectors: ArrayLike, draws: int, rng: np.random.Generator
) -> Floats:
    """Return log pi_k + log p_k(x | mean) / T (S, N, K), the means drawn from their posterior (6).

    A mean lies off its expectation by 1 / (kappa_n + 1) of the predictive's spread: of that, the part
    along x - m_n and the length of the rest are drawn, which is all that a density depends on.
    """
    dim = predictive.dim
    joint = predictive.log_joint(check_vectors(vectors, dim))  # (N, K)
    power, peak, freedom, count = _parts(predictive)
    known = np.isfinite(joint).all(0)
    out = np.full((draws, *joint.shape), -np.inf)
    nu, size = freedom[known], 1 + KAPPA + count[known]  # kappa_n + 1
    decay = (peak[known] - joint[:, known]) / power[known]
    distance = nu * np.expm1(np.maximum(2 * decay / (nu + dim), 0.0))  # (N, P)
    spread = np.sqrt(nu / rng.chisquare(nu, (draws, 1, len(nu))) / size)
    along = np.sqrt(distance) - spread * rng.standard_normal((draws, *distance.shape))
    across = spread**2 * rng.chisquare(max(dim - 1, 1e-9), (draws, *distance.shape))
    shifted = (np.square(along) + across) * size / (size - 1)
    lost = (nu + dim) / 2 * np.log1p(shifted / nu) - dim / 2 * np.log(size / (size - 1))
    out[:, :, known] = peak[known] - power[known] * lost
    return out


def _parts(predictive: Predictive) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the power, log joint at the mean, freedom and count (K,) of every class."""
    students, number = predictive.students, len(predictive.classes)
    trained = len(students.freedom)
    power, peak = np.full(number, 1 / predictive.temperature), np.full(number, -np.inf)
    freedom, count = np.ones(number), np.ones(number)
    freedom[:trained] = students.freedom
    peak[:trained] = students.peak / predictive.temperature
    count[:trained] = students.freedom - predictive.reading.get("weight", 0.0) - 2
    if predictive.lessons is not None:
        own, columns = predictive.lessons, predictive.lessons.columns
        power[columns], freedom[columns] = own.power, own.students.freedom
        peak[columns] = own.students.peak * own.power + own.shift
        count[columns] = own.count
    return power, peak + predictive.log_prior, freedom, np.maximum(count, KAPPA)
