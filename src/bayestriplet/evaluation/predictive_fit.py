"""How the posterior is read to predict: fitted to held-out items (docs/method.md, eqs. 13-15)."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from bayestriplet.data.progress import Progress, report
from bayestriplet.evaluation.calibration import CELLS, fit_temperature
from bayestriplet.evaluation.embeddings import Embedded
from bayestriplet.runs.row_statistics import RowStatistics
from bayestriplet.runs.statistics import Statistics
from bayestriplet.runs.students import FullStudents, RowStudents
from bayestriplet.runs.teaching import spread_rows

MEMORY = (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)
WEIGHT = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
FLOOR = (0.001, 0.01, 0.1, 1.0, 10.0)
START = (2, 2, 2)  # positions in the three
WORK = 3 * 10**8  # items x classes x D x D in one step of the search, at most
FEWEST = 300  # items a step of the search uses where there are as many

Cell = tuple[int, int, int]
AnyStatistics = Statistics | RowStatistics


@dataclass(frozen=True)
class Reading:
    """What was chosen: memory, the prior's weight and floor, and the temperature."""

    memory: float
    weight: float
    floor: float
    temperature: float

    def students(self, statistics: AnyStatistics) -> FullStudents | RowStudents:
        """Return the predictive distributions of all classes, which must have items."""
        return statistics.read(self.memory, self.weight, self.floor)


def fit_reading(
    statistics: AnyStatistics,
    log_prior: NDArray[np.float64],
    held_out: Embedded,
    progress: Progress | None = None,
) -> Reading:
    """Return the reading with the least log loss on held-out items; every class must have statistics.

    Memory, weight and floor climb down a grid from its middle, on evenly spread items where
    there are many; the temperature is fitted anew at every step, and at the end to all items, or to
    evenly spread ones where there are too many items and classes to hold all densities.
    """
    classes, dim = statistics.mean.shape
    each = dim if isinstance(statistics, Statistics) else statistics.factor.shape[1] + 3
    most = max(FEWEST, WORK // (classes * dim * each))
    rows = np.arange(len(held_out.labels))[:: max(1, -(-len(held_out.labels) // most))]
    sample = held_out.take(rows)

    @cache
    def loss(cell: Cell) -> float:
        report(progress, "Fitting the posterior", 0, 0)
        students = statistics.read(MEMORY[cell[0]], WEIGHT[cell[1]], FLOOR[cell[2]])
        return fit_temperature(log_densities(students, sample.vectors), sample.labels, log_prior)[1]

    cell, best = None, START
    while best != cell:
        cell = best
        best = min([cell, *_around(cell)], key=loss)
    chosen = MEMORY[cell[0]], WEIGHT[cell[1]], FLOOR[cell[2]]
    items = held_out.take(spread_rows(len(held_out.labels), max(1, CELLS // classes)))
    scores = log_densities(statistics.read(*chosen), items.vectors)
    return Reading(*chosen, fit_temperature(scores, items.labels, log_prior)[0])


def log_densities(students: FullStudents | RowStudents, vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the log densities (n, K) of vectors (n, D), in blocks of bounded size."""
    return students.log_density(vectors.astype(np.float64), np.arange(len(students.freedom)))


def _around(cell: Cell) -> Iterator[Cell]:
    """Yield the cells one step away on the grid."""
    for axis, values in enumerate((MEMORY, WEIGHT, FLOOR)):
        for step in (-1, 1):
            moved = cell[axis] + step
            if 0 <= moved < len(values):
                yield (*cell[:axis], moved, *cell[axis + 1 :])  # type: ignore[misc]
