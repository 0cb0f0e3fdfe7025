"""The predictive of a run as it is now: what is taught meanwhile is known at once."""

import math
import threading
from typing import Any

from numpy.typing import NDArray

from bayestriplet.retrieval.answers import FEW, name_shares
from bayestriplet.retrieval.items import Vectors
from bayestriplet.runs.folder import RunFolder
from bayestriplet.runs.predictive import CELLS, Predictive, open_predictive
from bayestriplet.runs.students import Floats

Said = tuple[dict[str, float] | None, float | None]
UNMEASURED = "not measured on held-out classes"


class LivePredictive:
    """Opens a run's predictive, and again after something was taught. Any thread may ask.

    While one thread opens it again, the others get the last one; ``latest`` waits.
    """

    def __init__(self, run: RunFolder, fingerprint: str) -> None:
        self.run, self.fingerprint = run, fingerprint
        self._opening = threading.Lock()
        self._seen = self._edition()
        self._found = open_predictive(run, fingerprint)

    def get(self) -> Predictive | None:
        """Return the predictive, None where the run keeps none."""
        if self._edition() != self._seen and self._opening.acquire(blocking=False):
            try:
                self._renew()
            finally:
                self._opening.release()
        return self._found

    @property
    def last(self) -> Predictive | None:
        """The predictive that was opened last, without a look at any file."""
        return self._found

    def latest(self) -> Predictive | None:
        """Return the predictive with all that was taught before this call."""
        with self._opening:
            self._renew()
            return self._found

    def _renew(self) -> None:
        edition = self._edition()
        if edition != self._seen:
            self._found, self._seen = open_predictive(self.run, self.fingerprint), edition

    def _edition(self) -> tuple[int, int, int] | None:
        """Return what distinguishes one file of what was taught from the next; None without one."""
        try:
            found = self.run.taught.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size


def novelty_words(predictive: Predictive | None, noun: str) -> tuple[str, str]:
    """Return which classes novelty is about, and what it rests on where that is little."""
    if predictive is None:
        return "trained on", ""
    against, evidence = "trained on or taught" if predictive.lessons is not None else "trained on", ""
    number = len(predictive.held_out)
    if 0 < number < FEW:
        unmeasured = f", {UNMEASURED}" if predictive.evidence.auroc is None else ""
        evidence = f"by only {number} validation {noun}{'s' * (number != 1)}{unmeasured}"
    return against, evidence


def count_measures(predictive: Predictive | None) -> int:
    """Return F, how many measures a run has of how a picture looks; 0 where it has none."""
    return 0 if predictive is None or predictive.appearance is None else predictive.appearance.length


def look_at(predictive: Predictive | None, pixels: NDArray[Any] | None) -> Floats | None:
    """Return how pictures look (n, F), as the run measures that; None for vectors, and where it does not."""
    if predictive is None or pixels is None or pixels.ndim != 4:
        return None
    return predictive.look(pixels)


def describe_vectors(
    predictive: Predictive | None, vectors: Vectors, looks: Floats | None = None
) -> list[Said]:
    """Return class probabilities and novelty of every vector (n, D), as far as the run knows.

    ``looks`` (n, F) say how the pictures look that they are of; rows of NaN where that is unknown.
    """
    if predictive is None:
        return [(None, None)] * len(vectors)
    out: list[Said] = []
    rows = max(1, CELLS // len(predictive.classes))
    for start in range(0, len(vectors), rows):
        part = slice(start, start + rows)
        shares, novelty = predictive.predict(vectors[part], None if looks is None else looks[part])
        out += [
            (name_shares(predictive.classes, row.tolist()), None if math.isnan(value) else value)
            for row, value in zip(shares, novelty.tolist(), strict=True)
        ]
    return out
