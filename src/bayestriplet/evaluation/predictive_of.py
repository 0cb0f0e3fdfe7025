"""The predictive distributions of a run: its posterior, read as held-out items suggest."""

from dataclasses import asdict, replace

import numpy as np
from numpy.typing import NDArray

from bayestriplet.data.progress import Progress
from bayestriplet.evaluation.embeddings import Embedded
from bayestriplet.evaluation.predictive_fit import fit_reading
from bayestriplet.posterior.posterior import ClassPosterior
from bayestriplet.posterior.predictive import class_log_probabilities
from bayestriplet.runs.predictive import COMPACT, Predictive
from bayestriplet.runs.row_statistics import RowStatistics
from bayestriplet.runs.statistics import Statistics
from bayestriplet.runs.students import FullStudents, RowStudents

POSITIVE = ("freedom", "variance", "spread")


def fit_predictive(
    posterior: ClassPosterior, classes: tuple[str, ...], fingerprint: str, train: Embedded,
    held_out: Embedded, progress: Progress | None = None,
) -> Predictive:  # fmt: skip
    """Fit the reading to held-out items and return all it takes to give probabilities and novelty.

    Held-out items of classes without training items tell nothing and are left out. Where none
    is left the reading is fitted to the training items, and there is nothing to compare novelty with.
    """
    seen = (posterior.seen > 0).numpy()
    log_prior = class_log_probabilities(posterior.seen, posterior.num_classes).numpy()
    items = held_out.take(seen[held_out.labels])
    number = seen.cumsum() - 1  # position of each class among those seen
    statistics = _statistics(posterior, Embedded(train.vectors, number[train.labels]))
    chosen_on = items if len(items.labels) else train
    reading = fit_reading(
        statistics, log_prior[seen], Embedded(chosen_on.vectors, number[chosen_on.labels]), progress
    )
    students = _whole(as_kept(reading.students(statistics)), seen)
    found = Predictive(
        classes, fingerprint, students, log_prior, reading.temperature, np.empty(0), asdict(reading)
    )
    scores = found.novelty_scores(items.vectors) if len(items.labels) else np.empty(0)
    return replace(found, held_out=np.sort(scores))


def _statistics(posterior: ClassPosterior, train: Embedded) -> Statistics | RowStatistics:
    """Return the statistics of the classes that were seen: in full, if the posterior has them so."""
    seen = posterior.seen.nonzero().squeeze(1)
    if posterior.structure.name == "full":
        found = posterior.statistics.rows(seen)
        return Statistics(found.count.numpy(), found.mean.double().numpy(), found.scatter.double().numpy())
    return RowStatistics.of(train.vectors, train.labels, len(seen))


def as_kept(students: FullStudents | RowStudents) -> FullStudents | RowStudents:
    """Return distributions as they are kept in a file, with the precision that they have there."""
    if isinstance(students, FullStudents):
        return students
    rounded = {name: getattr(students, name).astype(np.float32).astype(np.float64) for name in COMPACT}
    return replace(students, **rounded)


def _whole(
    students: FullStudents | RowStudents, seen: NDArray[np.bool_]
) -> FullStudents | RowStudents:  # fmt: skip
    """Return the parameters of all K classes; those never seen, whose prior is 0, have 1 and 0."""
    arrays = {}
    for name in students.shapes(0):
        value = getattr(students, name)
        if name != "axes":
            whole = np.full((len(seen), *value.shape[1:]), float(name in POSITIVE))
            whole[seen] = value
            value = whole
        arrays[name] = value
    return type(students)(**arrays)
