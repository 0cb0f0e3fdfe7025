"""taught.safetensors: the statistics of examples that a run was taught after its training. NumPy alone.

The file is beside the run, and nothing of the run itself changes: without it, the run is as it was trained.
"""

import hashlib
import json
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import filelock
import numpy as np
from numpy.typing import NDArray

from bayestriplet.errors import InputError, StateError, reason_of
from bayestriplet.runs.adapting import Adapted
from bayestriplet.runs.folder import RunFolder
from bayestriplet.runs.kept_examples import KeptExamples
from bayestriplet.runs.statistics import Statistics
from bayestriplet.runs.students import Floats
from bayestriplet.runs.tensors import Tensors, check_format, read_tensors, write_tensors

FORMAT, FORMATS = "2", ("1", "2")  # what is written, and what is read
LOCK = ".taught.lock"
LOOKS = "looks_"  # begins the names of what a file keeps of them
PATIENCE = 30.0  # seconds to wait for another writer
MOST_BYTES = 2**28  # of all scatters together


@dataclass(frozen=True, eq=False)
class Taught:
    """Count, mean and scatter of the examples of every class that was taught, new or trained on."""

    encoder: str  # fingerprint
    classes: tuple[str, ...]
    statistics: Statistics
    weights: dict[str, float] = field(default_factory=dict)
    """Of classes in the class prior, 1 for the average trained class, where they were given."""
    held_out: Floats | None = None
    """Novelty scores of the kept validation items with what was taught, ascending; None without such."""
    looks: Statistics = field(default_factory=lambda: Statistics.zeros(0, 0))
    """How the examples look, by class; of no measures where that is unknown of all."""
    pictured: Floats | None = None
    """Like ``held_out``, with how the validation items look."""
    kept: KeptExamples = field(default_factory=lambda: KeptExamples.nothing(0))
    """A sample of the examples; none of what earlier versions taught."""
    adapted: Adapted | None = None
    """How new classes are read, by these examples."""

    @classmethod
    def nothing(cls, encoder: str, dim: int) -> "Taught":
        """Return that nothing was taught."""
        return cls(encoder, (), Statistics.zeros(0, dim), kept=KeptExamples.nothing(dim))

    @property
    def dim(self) -> int:
        """D, the length of a vector."""
        return self.statistics.mean.shape[1]

    def count(self, name: str) -> int:
        """Return how many examples of a class were taught."""
        return int(self.statistics.count[self.classes.index(name)]) if name in self.classes else 0

    def plus(
        self, vectors: NDArray[np.floating], labels: Sequence[str], looks: Floats | None = None
    ) -> "Taught":
        """Return this with further examples (n, D) of classes, which look so (n, F)."""
        names = tuple(dict.fromkeys(labels))
        number = {name: k for k, name in enumerate(names)}
        rows = np.array([number[one] for one in labels], np.int64)
        further = Statistics.of(np.asarray(vectors), rows, len(names))
        seen, kept = _looks_of(looks, rows, len(names)), KeptExamples.of(vectors, rows)
        return self.joined(Taught(self.encoder, names, further, looks=seen, kept=kept))

    def joined(self, other: "Taught") -> "Taught":
        """Return what this and another were taught together."""
        names = tuple(dict.fromkeys([*self.classes, *other.classes]))
        if len(names) * self.dim**2 * 8 > MOST_BYTES:
            most = MOST_BYTES // (8 * self.dim**2)
            raise InputError(f"at most {most:,} classes of {self.dim} dimensions can be taught")
        length = max(self.looks.mean.shape[1], other.looks.mean.shape[1])
        both = [_arranged(one.statistics, one.classes, names, self.dim) for one in (self, other)]
        seen = [_arranged(one.looks, one.classes, names, length) for one in (self, other)]
        statistics, looks = (one.plus(further) for one, further in (both, seen))
        numbers = np.array([names.index(one) for one in other.classes], np.int64)
        kept = self.kept.joined(other.kept.renumbered(numbers))
        return replace(self, classes=names, statistics=statistics, looks=looks, kept=kept)

    def minus(
        self, vectors: NDArray[np.floating], labels: Sequence[str], looks: Floats | None = None
    ) -> "Taught":
        """Return this without examples that were taught, exact to rounding; classes without any are gone."""
        for name in dict.fromkeys(labels):
            if self.count(name) < labels.count(name):
                raise InputError(
                    f"{name!r} was taught {self.count(name)} examples; {labels.count(name)} cannot be undone"
                )
        rows = np.array([self.classes.index(one) for one in labels], np.int64)
        try:
            left = self.statistics.minus(Statistics.of(np.asarray(vectors), rows, len(self.classes)))
            seen, gone = self.looks, _looks_of(looks, rows, len(self.classes))
            if gone.count.any():
                seen = _arranged(seen, self.classes, self.classes, gone.mean.shape[1]).minus(gone)
        except ValueError:
            raise InputError("these examples were not taught, so that they cannot be undone") from None
        kept = self.kept.minus(np.asarray(vectors), rows)
        return replace(self, statistics=left, looks=seen, kept=kept)._without_empty()

    def without(self, name: str) -> "Taught":
        """Return this without all that was taught of a class."""
        rows = np.array([one != name for one in self.classes], bool)
        kept = tuple(one for one in self.classes if one != name)
        weights = {one: value for one, value in self.weights.items() if one != name}
        looks = self.looks.take(rows) if len(self.looks.count) else self.looks
        return replace(
            self, classes=kept, statistics=self.statistics.take(rows), weights=weights, looks=looks,
            kept=self.kept.renumbered(np.where(rows, rows.cumsum() - 1, -1)),
        )  # fmt: skip

    def _without_empty(self) -> "Taught":
        empty = [one for one, n in zip(self.classes, self.statistics.count, strict=True) if n == 0]
        found = self
        for name in empty:
            found = found.without(name)
        return found

    def save(self, path: Path) -> None:
        """Write a taught.safetensors, completely or not at all."""
        tensors = _packed(self.statistics)
        if self.looks.count.any():
            tensors |= {LOOKS + name: value for name, value in _packed(self.looks).items()}
        for name in ("held_out", "pictured"):
            if getattr(self, name) is not None:
                tensors[name] = getattr(self, name)
        tensors |= {"examples": self.kept.vectors, "examples_of": self.kept.rows}
        texts = {"classes": json.dumps(self.classes), "weights": json.dumps(self.weights, sort_keys=True)}
        if self.adapted is not None:
            texts["adapted"] = json.dumps(asdict(self.adapted), sort_keys=True)
        metadata = {"format": FORMAT, "encoder": self.encoder, **texts}
        write_tensors(path, tensors, {**metadata, "checksum": _checksum(tensors, metadata)})

    @classmethod
    def load(cls, path: Path) -> "Taught":
        """Read a taught.safetensors."""
        tensors, metadata = read_tensors(path, "what a run was taught")
        check_format(path, metadata, FORMATS)
        said = metadata.pop("checksum", "")
        if said != _checksum(tensors, metadata):
            raise InputError(f"{path} is damaged: its content is not what was written; {_advice(path)}")
        try:
            looks = Statistics.zeros(0, 0)
            if LOOKS + "count" in tensors:
                looks = _unpacked(tensors, LOOKS)
            found = cls(
                encoder=metadata["encoder"],
                classes=tuple(json.loads(metadata["classes"])),
                statistics=_unpacked(tensors),
                weights=json.loads(metadata["weights"]),
                held_out=tensors.get("held_out"),
                looks=looks,
                pictured=tensors.get("pictured"),
                kept=KeptExamples.nothing(tensors["mean"].shape[1]),
            )
            if "examples" in tensors:
                found = replace(found, kept=KeptExamples(tensors["examples"], tensors["examples_of"]))
            if "adapted" in metadata:
                found = replace(found, adapted=Adapted(**json.loads(metadata["adapted"])))
        except (LookupError, TypeError, ValueError) as error:
            raise InputError(f"{path} is damaged: {reason_of(error)}; {_advice(path)}") from None
        return found


def open_taught(run: RunFolder, fingerprint: str, dim: int) -> Taught:
    """Return what a run was taught, with the encoder that it has."""
    if not run.taught.is_file():
        return Taught.nothing(fingerprint, dim)
    found = Taught.load(run.taught)
    if found.encoder != fingerprint or found.dim != dim:
        raise StateError(
            f"{run.taught} was taught to another encoder ({found.encoder[:12]}) than that of {run.path} "
            f"({fingerprint[:12]}): {_advice(run.taught)}"
        )
    return found


@contextmanager
def writing(run: RunFolder) -> Iterator[None]:
    """Wait until nobody else teaches the run, and keep others from it during the block."""
    lock = filelock.FileLock(run.path / LOCK, timeout=PATIENCE)
    try:
        lock.acquire()
    except filelock.Timeout:
        raise StateError(f"{run.path} is being taught by another process; try again") from None
    except OSError as error:
        raise InputError(f"{run.path} cannot be taught: {reason_of(error)}") from None
    try:
        yield
    finally:
        lock.release()


def check_names(names: Sequence[str], known: Sequence[str]) -> None:
    """Raise for a name that is empty, no line of text, or that of a known class in other letters."""
    plain = {_folded(one): one for one in known}
    for name in dict.fromkeys(names):
        if not isinstance(name, str) or not name.strip() or not name.isprintable():
            raise InputError(f"a class must be named by a line of text; got {name!r}")
        same = plain.setdefault(_folded(name), name)
        if same != name:
            raise InputError(f"class {name!r} is there as {same!r}: write it so, or choose another name")


def _folded(name: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def _advice(path: Path) -> str:
    return f"move {path.name} away to have the run as it was trained, and teach again"


def _looks_of(looks: Floats | None, rows: NDArray[np.int64], classes: int) -> Statistics:
    """Return how the examples of classes look; rows of NaN are of examples that nothing is known of."""
    if looks is None:
        return Statistics.zeros(classes, 0)
    seen = np.isfinite(looks).all(1)
    return Statistics.of(looks[seen], rows[seen], classes)


def _arranged(found: Statistics, had: tuple[str, ...], names: tuple[str, ...], dim: int) -> Statistics:
    """Return statistics of classes ``had`` as those of ``names``; classes not among them have no items."""
    if names == had and found.mean.shape == (len(names), dim):
        return found
    whole, rows = Statistics.zeros(len(names), dim), [names.index(one) for one in had]
    if found.mean.size:
        for name in ("count", "mean", "scatter"):
            getattr(whole, name)[rows] = getattr(found, name)
    return whole


def _packed(found: Statistics) -> Tensors:
    """Return statistics as a file keeps them: of the scatter the upper half."""
    rows, columns = np.triu_indices(found.mean.shape[1])
    return {"count": found.count, "mean": found.mean, "scatter": found.scatter[:, rows, columns]}


def _unpacked(tensors: Tensors, prefix: str = "") -> Statistics:
    count, mean, upper = (tensors[prefix + name] for name in ("count", "mean", "scatter"))
    rows, columns = np.triu_indices(mean.shape[1])
    scatter = np.zeros((len(upper), mean.shape[1], mean.shape[1]))
    scatter[:, rows, columns] = upper
    scatter[:, columns, rows] = upper
    return Statistics(count, mean, scatter)


def _checksum(tensors: Tensors, metadata: Mapping[str, str]) -> str:
    digest = hashlib.sha256(json.dumps(dict(metadata), sort_keys=True).encode())
    for name in sorted(tensors):
        digest.update(f"{name} {tensors[name].shape} {tensors[name].dtype}".encode())
        digest.update(np.ascontiguousarray(tensors[name]).tobytes())
    return digest.hexdigest()
