"""The distributions of taught classes, on one scale with those that were trained on (eqs. 17-19)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayestriplet.runs.adapting import Adapted
from bayestriplet.runs.folder import RunFolder
from bayestriplet.runs.row_statistics import KAPPA
from bayestriplet.runs.statistics import Prior, Statistics
from bayestriplet.runs.students import Floats, FullStudents, RowStudents
from bayestriplet.runs.taught import Taught
from bayestriplet.runs.teaching import GROWTH, NewClasses, Teaching, read_statistics

MOST_FULL = 32  # taught classes up to which each has a whole covariance


@dataclass(frozen=True, eq=False)
class Lessons:
    """Taught classes as columns of the probabilities: log scores are power * log density + shift."""

    columns: NDArray[np.int64]  # (P,) of the classes
    students: FullStudents | RowStudents
    power: Floats  # (P,)
    shift: Floats  # (P,)
    count: Floats  # (P,) items that each counts for
    contrast: Floats  # (P,) of the odds of new classes; NaN for trained ones
    bias: Floats  # (P,) of these odds
    sharpness: float = 1.0  # power of the densities among new classes

    def log_scores(self, x: Floats) -> Floats:
        """Return what stands in place of log p / T (N, P) for vectors (N, D)."""
        density = self.students.log_density(x, np.arange(len(self.columns)))
        return density * self.power + self.shift

    def weigh(self, joint: Floats, log_prior: Floats) -> Floats:
        """Return log joints (N, K) with the odds of new classes as eqs. (19a) and (19b) say.

        Ratios among old classes stay.
        """
        new = self.columns[self.new]
        if not len(new):
            return joint
        old = np.setdiff1d(np.flatnonzero(np.isfinite(log_prior)), new)
        odds = _odds(joint, new, old) - _odds(log_prior[None], new, old)  # (N,), by the densities alone
        out = joint.copy()
        if self.sharpness != 1.0:
            out[:, new] = _sharpened(joint[:, new], log_prior[new], self.sharpness)
        out[:, new] += (self.contrast[self.new] - 1) * odds[:, None] + self.bias[self.new]
        return out

    @property
    def new(self) -> NDArray[np.bool_]:
        """Which of them were not trained on (P,)."""
        return ~np.isnan(self.contrast)


def make_lessons(
    run: RunFolder, names: tuple[str, ...], trained: NDArray[np.bool_], teaching: Teaching, taught: Taught,
    temperature: float, entropy: float,
) -> Lessons:  # fmt: skip
    """Return the distributions of taught classes among ``names``, of which ``trained`` (K,) had items.

    ``entropy`` is the mean one of the trained classes.
    """
    columns = np.array([names.index(one) for one in taught.classes], np.int64)
    old = (columns < len(trained)) & trained[np.minimum(columns, len(trained) - 1)]
    statistics = taught.statistics
    if old.any():
        begun = Statistics.zeros(len(columns), taught.dim)
        known = read_statistics(run, columns[old])
        for name in ("count", "mean", "scatter"):
            getattr(begun, name)[old] = getattr(known, name)
        statistics = begun.plus(statistics)
    students = _students(statistics, old, teaching)
    power, shift = np.full(len(columns), 1 / temperature), np.zeros(len(columns))
    new = ~old
    heat, level = new_scale(teaching.new, statistics.count[new], students.entropy[new], entropy)
    power[new], shift[new] = 1 / (heat * temperature), level / temperature
    contrast, bias = np.full(len(columns), np.nan), np.zeros(len(columns))
    adapted = taught.adapted or Adapted()
    contrast[new] = contrast_of(teaching.new, statistics.count[new]) * adapted.contrast
    bias[new] = teaching.new.bias + adapted.bias
    count = np.minimum(statistics.count, teaching.memory)
    return Lessons(columns, students, power, shift, count, contrast, bias, adapted.sharpness)


def _odds(joint: Floats, new: NDArray[np.int64], old: NDArray[np.int64]) -> Floats:
    """Return the log odds (N,) of some classes against others."""
    return np.asarray(
        np.logaddexp.reduce(joint[:, new], 1) - np.logaddexp.reduce(joint[:, old], 1), np.float64
    )


def _sharpened(joint: Floats, log_prior: Floats, power: float) -> Floats:
    """Return log joints (N, P) with their densities to this power; what they come to together stays."""
    sharp = power * (joint - log_prior) + log_prior
    gap = np.logaddexp.reduce(joint, 1) - np.logaddexp.reduce(sharp, 1)
    return np.asarray(sharp + gap[:, None], np.float64)


def new_scale(new: NewClasses, count: Floats, entropy: Floats, old: float) -> tuple[Floats, Floats]:
    """Return t and s (P,): a new class's log density l enters as (l / t + s) / T (docs/method.md, eq. 19).

    l + H, how ordinary an item is for the class, is divided by t, which goes from 1 to its last value as
    examples come in. Of the difference between H and the mean entropy of trained classes, a share r is made
    up for.
    """
    heat = 1 + (new.sharpening - 1) * count / (count + GROWTH)
    return heat, entropy / heat - (1 - new.offset) * entropy - new.offset * old


def contrast_of(new: NewClasses, count: Floats) -> Floats:
    """Return the factors (P,) of the log odds of new classes with so many examples (eq. 19a)."""
    return 1 + (new.contrast - 1) * count / (count + GROWTH)


def _students(
    statistics: Statistics, old: NDArray[np.bool_], teaching: Teaching
) -> FullStudents | RowStudents:
    """Return the distributions of classes: in full while they are few, else along the prior's axes."""
    priors = {True: teaching.prior, False: teaching.new_prior}
    if len(old) > MOST_FULL:
        return _along_axes(statistics, old, priors, teaching.memory)
    parts = {
        is_old: statistics.take(old == is_old).students(prior, teaching.memory)
        for is_old, prior in priors.items()
    }
    arrays = {}
    for name in parts[True].shapes(0):
        first = getattr(parts[True], name)
        arrays[name] = np.empty((len(old), *first.shape[1:]))
        for is_old, part in parts.items():
            arrays[name][old == is_old] = getattr(part, name)
    return FullStudents(**arrays)


def _along_axes(
    statistics: Statistics, old: NDArray[np.bool_], priors: dict[bool, Prior], memory: float
) -> RowStudents:
    """Return distributions whose covariances are diagonal along the axes of the trained classes' own."""
    values, axes = np.linalg.eigh(priors[True].covariance)
    values = np.maximum(values, values[-1] * 1e-15)
    weight = np.where(old, priors[True].weight, priors[False].weight)
    widening = priors[False].covariance.trace() / priors[True].covariance.trace()
    expected = np.where(old, 1.0, widening)[:, None] * values
    keep = np.minimum(1.0, memory / statistics.count)
    count = keep * statistics.count
    kappa, freedom = KAPPA + count, weight + 2 + count
    center = priors[True].mean @ axes
    shift = statistics.mean @ axes - center
    diagonal = np.einsum("da,pde,ea->pa", axes, statistics.scatter, axes, optimize=True)
    cross = shift * np.sqrt(KAPPA * count / kappa)[:, None]
    return RowStudents(
        axes=axes,
        center=center + shift * (count / kappa)[:, None],
        variance=weight[:, None] * expected + keep[:, None] * np.maximum(diagonal, 0.0),
        rows=cross[:, None],
        spread=(1 + 1 / kappa) / freedom,
        freedom=freedom,
    )
