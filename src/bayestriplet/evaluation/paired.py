"""Methods on the same seeds: means, intervals and paired differences."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

MEASURES = ("recall@1", "recall@4", "recall@8", "recall@16")
MORE = ("r-precision", "map@r")  # which comparisons of earlier versions do not have


@dataclass(frozen=True)
class Row:
    """A method over several seeds; recalls in percent."""

    method: str
    values: dict[str, tuple[float, ...]]  # a measure's value for every seed
    seconds: float
    chosen: dict[str, Any]  # the options that tuning chose

    def mean(self, measure: str) -> float:
        """Mean over the seeds."""
        return float(np.mean(self.values[measure]))

    def half_width(self, measure: str) -> float:
        """Half the width of the 95% interval of the mean, by Student's t; NaN for one seed."""
        return half_width(np.asarray(self.values[measure]))


@dataclass(frozen=True)
class Difference:
    """How far a method is from the best one, on the same seeds."""

    value: float
    half_width: float

    @property
    def is_clear(self) -> bool:
        """Whether the 95% interval leaves out 0."""
        return abs(self.value) > self.half_width


def rows_of(summary: dict[str, Any]) -> list[Row]:
    """Return the rows of the table of a comparison."""
    rows = []
    for method, entry in summary["methods"].items():
        seeds = list(entry["seeds"].values())
        measures = [*MEASURES, *(name for name in MORE if all(name in seed for seed in seeds))]
        values = {measure: tuple(seed[measure] for seed in seeds) for measure in measures}
        seconds = float(np.mean([seed["seconds"] for seed in seeds]))
        rows.append(Row(method, values, seconds, entry["chosen"]))
    return rows


def half_width(values: NDArray[np.float64]) -> float:
    """Return half the width of the 95% Student-t interval of a mean; NaN for fewer than two values."""
    if len(values) < 2:
        return math.nan
    return float(student.ppf(0.975, len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values)))


def rank(rows: list[Row], measure: str = "recall@1") -> list[Row]:
    """Return the rows, best first."""
    return sorted(rows, key=lambda row: -row.mean(measure))


def difference(row: Row, best: Row, measure: str = "recall@1") -> Difference:
    """Return the mean paired difference of a row to the best one: seed by seed, row less best."""
    gaps = np.asarray(row.values[measure]) - np.asarray(best.values[measure])
    return Difference(float(gaps.mean()), half_width(gaps))
