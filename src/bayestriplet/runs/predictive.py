"""predictive.safetensors: class probabilities and novelty of vectors. NumPy alone."""

import json
from dataclasses import dataclass, field, fields
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from bayestriplet.errors import InputError, StateError, reason_of
from bayestriplet.runs.folder import RunFolder
from bayestriplet.runs.students import Floats, FullStudents, RowStudents
from bayestriplet.runs.tensors import check_format, read_tensors, write_tensors

FORMATS: dict[str, type[FullStudents] | type[RowStudents]] = {"1": FullStudents, "2": RowStudents}
OF_CLASSES = ("log_prior", "held_out")
COMPACT = ("center", "variance", "rows")  # kept as float32: most of the file
LARGEST = 1e100  # of any number of a distribution
BLOCK = 1024  # vectors whose probabilities are computed at a time


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
                **{name: arrays.pop(name) for name in OF_CLASSES},
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

    def probabilities(self, vectors: ArrayLike) -> Floats:
        """Return the probability (N, K) of each class for vectors (N, D) (docs/method.md, eq. 8)."""
        return np.exp(self.log_probabilities(vectors))

    def log_probabilities(self, vectors: ArrayLike) -> Floats:
        """Return the logarithms (N, K) of the probabilities, which stay finite where those round to 0."""
        return self._both(vectors)[0]

    def novelty_scores(self, vectors: ArrayLike) -> Floats:
        """Return -log sum_k pi_k p_k^(1/T) (N,): the larger, the less any class explains a vector."""
        return self._both(vectors)[1]

    def novelty(self, vectors: ArrayLike) -> Floats:
        """Return the percentage (N,) of held-out items that are less novel; ties count half.

        A run without validation items has nothing to compare with: NaN.
        """
        return self._percentages(self.novelty_scores(vectors))

    def predict(self, vectors: ArrayLike) -> tuple[Floats, Floats]:
        """Return probabilities (N, K) and novelty (N,) together, at the cost of one of them."""
        log_probabilities, scores = self._both(vectors)
        return np.exp(log_probabilities), self._percentages(scores)

    def _both(self, vectors: ArrayLike) -> tuple[Floats, Floats]:
        """Return log probabilities (N, K) and novelty scores (N,)."""
        joint = self._log_joint(vectors)
        evidence = np.logaddexp.reduce(joint, 1)  # (N,)
        return joint - evidence[:, None], -evidence

    def _percentages(self, scores: Floats) -> Floats:
        if not len(self.held_out):
            return np.full(len(scores), np.nan)
        below, up_to = (np.searchsorted(self.held_out, scores, side) for side in ("left", "right"))
        return 50.0 * (below + up_to) / len(self.held_out)

    def _log_joint(self, vectors: ArrayLike) -> Floats:
        """Return log pi_k + log p_k(x) / T (N, K), in blocks of bounded size."""
        x = _check_vectors(vectors, self.dim)
        out = np.full((len(x), len(self.classes)), -np.inf)
        known = np.flatnonzero(np.isfinite(self.log_prior))
        for start in range(0, len(x), BLOCK):
            part = slice(start, start + BLOCK)
            density = self.students.log_density(x[part], known)
            out[part, known] = density / self.temperature + self.log_prior[known]
        return out


def open_predictive(run: RunFolder, fingerprint: str) -> Predictive | None:
    """Return the predictive of a run whose encoder has this fingerprint; None where it keeps none."""
    if not run.predictive.is_file():
        return None
    predictive = Predictive.load(run.predictive)
    if predictive.encoder != fingerprint:
        raise StateError(
            f"{run.predictive} is of another network than the encoder: `bayestriplet export {run.path}` "
            "brings encoder.onnx up to date; if that does not help, train again"
        )
    return predictive


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


def _check_vectors(vectors: ArrayLike, dim: int) -> Floats:
    x = np.asarray(vectors)
    if x.ndim != 2 or x.shape[1] != dim:
        raise InputError(f"vectors must have shape (N, {dim}); got {x.shape}")
    if x.dtype.kind not in "fiu" or not np.isfinite(x).all():
        raise InputError("vectors must be finite numbers")
    return x.astype(np.float64)
