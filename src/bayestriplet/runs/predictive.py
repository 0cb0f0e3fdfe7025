"""predictive.safetensors: class probabilities and novelty of vectors. NumPy alone."""

import json
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayestriplet.errors import InputError, StateError, reason_of
from bayestriplet.runs.appearance import Appearance
from bayestriplet.runs.background import Background
from bayestriplet.runs.folder import RunFolder
from bayestriplet.runs.lessons import Lessons, make_lessons
from bayestriplet.runs.students import Floats, FullStudents, RowStudents
from bayestriplet.runs.taught import Taught, open_taught
from bayestriplet.runs.teaching import Evidence, Teaching, open_teaching
from bayestriplet.runs.tensors import check_format, read_tensors, write_tensors

FORMATS: dict[str, type[FullStudents] | type[RowStudents]] = {"1": FullStudents, "2": RowStudents}
OF_CLASSES = ("log_prior", "held_out")
COMPACT = ("center", "variance", "rows")  # kept as float32: most of the file
LARGEST = 1e100  # of any number of a distribution
BLOCK = 1024  # vectors whose probabilities are computed at a time
CELLS = 2**24  # probabilities that are held at a time where only scores are asked for


@dataclass(frozen=True)
class Predictive:
    """One multivariate t a class, tempered, and how novel the held-out items were.

    Vectors are those of the encoder with the fingerprint ``encoder``, as they come out of it.
    """

    classes: tuple[str, ...]
    encoder: str  # fingerprint
    students: FullStudents | RowStudents
    log_prior: Floats  # (K,), -inf for a class without training items
    temperature: float
    held_out: Floats  # (V,) novelty scores of the validation items, ascending
    reading: dict[str, float] = field(default_factory=dict)  # what was chosen on validation items
    background: Background | None = None  # that novelty is measured against
    lessons: Lessons | None = None  # the classes that were taught
    evidence: Evidence = field(default_factory=Evidence)  # that novelty rests on
    appearance: Appearance | None = None  # of the pictures trained on and taught
    pictured: Floats = field(default_factory=lambda: np.empty(0))  # like held_out, with their appearance

    @classmethod
    def load(cls, path: Path) -> "Predictive":
        """Read a predictive.safetensors."""
        if not path.is_file():
            raise InputError(f"{path} is missing: train again to have probabilities and novelty")
        tensors, metadata = read_tensors(path, "a predictive")
        check_format(path, metadata, tuple(FORMATS))
        try:
            temperature = float(tensors.pop("temperature"))
            arrays = {name: value.astype(np.float64) for name, value in tensors.items()}
            found = cls(
                classes=_names(json.loads(metadata["classes"])),
                encoder=metadata["encoder"],
                temperature=temperature,
                reading=json.loads(metadata.get("reading", "{}")),
                log_prior=arrays.pop("log_prior"),
                held_out=arrays.pop("held_out"),
                students=FORMATS[metadata["format"]](**arrays),
            )
            _check(found)
        except (LookupError, TypeError, ValueError, RecursionError) as error:
            raise InputError(f"{path} is not a whole predictive: {reason_of(error)}") from None
        return found

    def save(self, path: Path) -> None:
        """Write a predictive.safetensors."""
        metadata = {
            "format": next(name for name, kind in FORMATS.items() if isinstance(self.students, kind)),
            "classes": json.dumps(self.classes),
            "encoder": self.encoder,
            "reading": json.dumps(self.reading, sort_keys=True),
        }
        tensors = {name: getattr(self, name) for name in OF_CLASSES}
        for one in fields(self.students):
            value = getattr(self.students, one.name)
            tensors[one.name] = value.astype(np.float32) if one.name in COMPACT else value
        write_tensors(path, {**tensors, "temperature": np.array(self.temperature)}, metadata)

    @property
    def dim(self) -> int:
        """D, the length of a vector."""
        return self.students.dim

    @property
    def known_classes(self) -> frozenset[str]:
        """The classes with items, trained or taught."""
        known = np.flatnonzero(np.isfinite(self.log_prior))
        return frozenset(self.classes[k] for k in known)

    def probabilities(self, vectors: ArrayLike) -> Floats:
        """Return the probability (N, K) of each class for vectors (N, D) (docs/method.md, eq. 8)."""
        return np.exp(self.log_probabilities(vectors))

    def log_probabilities(self, vectors: ArrayLike) -> Floats:
        """Return the logarithms (N, K) of the probabilities, which stay finite where those round to 0."""
        return self.explain(vectors)[0]

    def novelty_scores(self, vectors: ArrayLike, looks: Floats | None = None) -> Floats:
        """Return the scores (N,) of eq. (20): the larger, the less any class explains a vector.

        Without a background, -log sum_k pi_k p_k^(1/T). ``looks`` (N, F) say how the items look (eq. 23).
        """
        x = check_vectors(vectors, self.dim)
        rows = max(1, CELLS // len(self.classes))
        parts = [slice(start, start + rows) for start in range(0, max(1, len(x)), rows)]
        return np.concatenate(
            [self._score(x[part], None if looks is None else looks[part]) for part in parts]
        )

    def _score(self, x: Floats, looks: Floats | None) -> Floats:
        _, scores, explained = self.explain(x)
        if looks is None or self.appearance is None:
            return scores
        return self.appearance.score(scores, looks, self.appearance.misfit(looks, np.exp(explained)))

    def novelty(self, vectors: ArrayLike, looks: Floats | None = None) -> Floats:
        """Return the percentage (N,) of held-out items that are less novel; ties count half.

        A run without validation items has nothing to compare with: NaN. ``looks`` (N, F) are what
        :meth:`look` says of the items' pictures; rows of NaN are of items without.
        """
        return self.predict(vectors, looks)[1]

    def predict(self, vectors: ArrayLike, looks: Floats | None = None) -> tuple[Floats, Floats]:
        """Return probabilities (N, K) and novelty (N,) together, at the cost of one of them."""
        log_probabilities, scores, explained = self.explain(vectors)
        novelty = _percentages(self.held_out, scores)
        if looks is not None and self.appearance is not None and len(self.pictured):
            seen = np.isfinite(looks).all(1)
            misfit = self.appearance.misfit(looks[seen], np.exp(explained[seen]))
            combined = self.appearance.score(scores[seen], looks[seen], misfit)
            novelty[seen] = _percentages(self.pictured, combined)
        return np.exp(log_probabilities), novelty

    def look(self, pixels: NDArray[np.uint8]) -> Floats | None:
        """Return how pictures (n, size, size, C) look (n, F); None where the run keeps nothing of that."""
        return None if self.appearance is None else self.appearance.describe(pixels)

    def explain(self, vectors: ArrayLike) -> tuple[Floats, Floats, Floats]:
        """Return log probabilities (N, K), novelty scores (N,), and log probabilities by (8) alone."""
        x = check_vectors(vectors, self.dim)
        joint = self.log_joint(x)
        evidence = np.logaddexp.reduce(joint, 1)  # (N,)
        scores = -evidence
        if self.background is not None:
            scores = self.background.score(scores, self.background.surprise(x, self.temperature))
        explained = joint - evidence[:, None]
        if self.lessons is None or not self.lessons.new.any():
            return explained, scores, explained
        weighed = self.lessons.weigh(joint, self.log_prior)
        return weighed - np.logaddexp.reduce(weighed, 1)[:, None], scores, explained

    def log_joint(self, x: Floats) -> Floats:
        """Return log pi_k + log p_k(x) / T (N, K), in blocks of bounded size."""
        out = np.full((len(x), len(self.classes)), -np.inf)
        known = np.isfinite(self.log_prior)
        known[len(self.students.freedom) :] = False
        if self.lessons is not None:
            known[self.lessons.columns] = False
        trained = np.flatnonzero(known)
        for start in range(0, len(x), BLOCK):
            part = slice(start, start + BLOCK)
            density = self.students.log_density(x[part], trained)
            out[part, trained] = density / self.temperature + self.log_prior[trained]
            if self.lessons is not None:
                columns = self.lessons.columns
                out[part, columns] = self.lessons.log_scores(x[part]) + self.log_prior[columns]
        return out

    def taught(self, run: RunFolder, teaching: Teaching, taught: Taught) -> "Predictive":
        """Return this, which was never taught anything, with what was taught."""
        if not taught.classes and not taught.weights:
            return self
        names = (*self.classes, *(one for one in taught.classes if one not in self.classes))
        trained = np.isfinite(self.log_prior)
        weights = np.zeros(len(names))
        weights[: len(trained)] = np.exp(self.log_prior)
        average = 1 / trained.sum()
        for name in taught.classes:
            if not weights[names.index(name)]:
                weights[names.index(name)] = average
        for name, value in taught.weights.items():
            weights[names.index(name)] = value * average
        lessons = None
        if taught.classes:
            entropy = float(self.students.entropy[trained].mean())
            lessons = make_lessons(run, names, trained, teaching, taught, self.temperature, entropy)
        with np.errstate(divide="ignore"):
            log_prior = np.log(weights / weights.sum())
        held_out = self.held_out if taught.held_out is None else taught.held_out
        pictured = self.pictured if taught.pictured is None else taught.pictured
        appearance = self.appearance
        if appearance is not None and taught.looks.mean.shape[1] == appearance.length:
            appearance = appearance.widened(
                taught.looks, np.array([names.index(one) for one in taught.classes])
            )
        return replace(
            self, classes=names, log_prior=log_prior, lessons=lessons, held_out=held_out, pictured=pictured,
            appearance=appearance,
        )  # fmt: skip


def open_predictive(run: RunFolder, fingerprint: str, *, taught: bool = True) -> Predictive | None:
    """Return the predictive of a run whose encoder has this fingerprint; None where it keeps none.

    Without ``taught``, as it was trained.
    """
    if not run.predictive.is_file():
        return None
    predictive = Predictive.load(run.predictive)
    if predictive.encoder != fingerprint:
        raise StateError(
            f"{run.predictive} is of another network than the encoder: `bayestriplet export {run.path}` "
            "brings encoder.onnx up to date; if that does not help, train again"
        )
    predictive = with_background(predictive, run)
    if not taught or not run.taught.is_file():
        return predictive
    found = open_taught(run, fingerprint, predictive.dim)
    return predictive.taught(run, open_teaching(run, fingerprint, predictive.reading), found)


def with_background(predictive: Predictive, run: RunFolder) -> Predictive:
    """Return a run's predictive with what novelty is measured against, where the run keeps it."""
    if not run.teaching.is_file():
        return replace(predictive, evidence=Evidence(len(predictive.held_out)))
    teaching = open_teaching(run, predictive.encoder, predictive.reading)
    return replace(
        predictive, background=teaching.background, held_out=teaching.held_out, evidence=teaching.evidence,
        appearance=teaching.appearance, pictured=teaching.pictured,
    )  # fmt: skip


def _percentages(held_out: Floats, scores: Floats) -> Floats:
    """Return how many percent of held-out items score lower than each (N,); equal ones count half."""
    if not len(held_out):
        return np.full(len(scores), np.nan)
    below, up_to = (np.searchsorted(held_out, scores, side) for side in ("left", "right"))
    return 50.0 * (below + up_to) / len(held_out)


def _names(found: object) -> tuple[str, ...]:
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise ValueError("classes must be a list of names")
    return tuple(found)


def _check(found: Predictive) -> None:
    """Raise unless the parts of a file belong together."""
    students, number = found.students, len(found.classes)
    shapes = students.shapes(number) | {"log_prior": (number,), "held_out": (len(found.held_out),)}
    for name, shape in shapes.items():
        value = getattr(found if name in OF_CLASSES else students, name)
        if value.shape != shape:
            raise ValueError(f"{name} must have shape {shape}; got {value.shape}")
        if np.isnan(value).any() or (name != "log_prior" and np.isinf(value).any()):
            raise ValueError(f"{name} must be finite")
        if name != "log_prior" and value.size and np.abs(value).max() > LARGEST:
            raise ValueError(f"{name} must be at most {LARGEST:g}")  # its square overflows
    if not (found.temperature > 0 and (students.freedom > 0).all() and np.isfinite(found.log_prior).any()):
        raise ValueError("temperature and freedom must be above 0, and a class must have items")
    if isinstance(students, RowStudents) and not (students.variance.min() > 0 and students.spread.min() > 0):
        raise ValueError("variance and spread must be above 0")


def check_vectors(vectors: ArrayLike, dim: int) -> Floats:
    """Return vectors (N, D) as float64, if they are such."""
    x = np.asarray(vectors)
    if x.ndim != 2 or x.shape[1] != dim:
        raise InputError(f"vectors must have shape (N, {dim}); got {x.shape}")
    if x.dtype.kind not in "fiu" or not np.isfinite(x).all():
        raise InputError("vectors must be finite numbers")
    return x.astype(np.float64)
