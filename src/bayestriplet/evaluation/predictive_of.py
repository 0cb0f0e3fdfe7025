"""The predictive distributions of a run: its posterior, read as held-out items suggest."""

from dataclasses import asdict, fields, replace

import numpy as np
from numpy.typing import NDArray

from bayestriplet.data.progress import Progress
from bayestriplet.evaluation.embeddings import Embedded
from bayestriplet.evaluation.predictive_fit import fit_reading
from bayestriplet.posterior.posterior import ClassPosterior
from bayestriplet.posterior.predictive import StudentClasses, class_log_probabilities
from bayestriplet.posterior.statistics import ClassStatistics
from bayestriplet.runs.predictive import COMPACT, Predictive
from bayestriplet.runs.row_statistics import RowStatistics
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
    students = _whole(as_arrays(reading.students(statistics)), seen)
    found = Predictive(
        classes, fingerprint, students, log_prior, reading.temperature, np.empty(0), asdict(reading)
    )
    scores = found.novelty_scores(items.vectors) if len(items.labels) else np.empty(0)
    return replace(found, held_out=np.sort(scores))


def _statistics(posterior: ClassPosterior, train: Embedded) -> ClassStatistics | RowStatistics:
    """Return the statistics of the classes that were seen: in full, if the posterior has them so."""
    seen = posterior.seen.nonzero().squeeze(1)
    if posterior.structure.name == "full":
        return posterior.statistics.rows(seen)
    return RowStatistics.of(train.vectors, train.labels, len(seen))


def as_arrays(students: StudentClasses | RowStudents) -> FullStudents | RowStudents:
    """Return distributions as they are kept in a file, with the precision that they have there."""
    if isinstance(students, RowStudents):
        rounded = {name: getattr(students, name).astype(np.float32).astype(np.float64) for name in COMPACT}
        return replace(students, **rounded)
    names = [one.name for one in fields(FullStudents)]
    return FullStudents(**{name: getattr(students, name).numpy() for name in names})


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
