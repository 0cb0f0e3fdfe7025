"""One distribution over all items: how much better some class explains an item (docs/method.md, eq. 20)."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from bayestriplet.runs.statistics import Prior, Statistics
from bayestriplet.runs.students import Floats, FullStudents

FREEDOM = 30.0
TAIL = 0.99  # of held-out items, beyond which the background's own surprise counts


@dataclass(frozen=True)
class Background:
    """A multivariate t over the items of all classes, and what share of its log density counts."""

    mean: Floats  # (D,)
    covariance: Floats  # (D, D) of all items
    share: float  # of its log density that is added to the score, from 0 to 1
    tail: float = np.inf  # surprise beyond which an item is far from everything

    @classmethod
    def of(cls, statistics: Statistics, floor: float, share: float) -> "Background":
        """Return the background of classes with these statistics."""
        total = statistics.count.sum()
        mean = statistics.count @ statistics.mean / total
        shift = statistics.mean - mean
        within = statistics.scatter.sum(0) / total
        between = (statistics.count[:, None] * shift).T @ shift / total
        level = within.trace() / len(within) + np.finfo(np.float64).eps ** 2
        return cls(mean, within + between + floor * level * np.eye(len(within)), share)

    @cached_property
    def students(self) -> FullStudents:
        """The distribution, as that of a single class."""
        none = Statistics.zeros(1, len(self.mean))
        return none.students(Prior(self.mean, self.covariance, FREEDOM - 2, 1e12), 1.0)

    def surprise(self, x: Floats, temperature: float) -> Floats:
        """Return -log b(x) / T (N,)."""
        return -self.students.log_density(x, np.zeros(1, np.int64))[:, 0] / temperature

    def score(self, plain: Floats, surprise: Floats) -> Floats:
        """Return the novelty scores (N,) of items with these plain scores and surprises (N,)."""
        return plain - self.share * surprise + (1 + self.share) * np.maximum(surprise - self.tail, 0.0)

    def with_tail(self, surprise: Floats) -> "Background":
        """Return the background whose tail begins above most of some held-out items' surprises (V,)."""
        return replace(self, tail=float(np.quantile(surprise, TAIL))) if len(surprise) else self
