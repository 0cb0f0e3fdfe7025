"""Teaching a run: examples of classes, new or known, without training. No torch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bayestriplet.checks import nearest
from bayestriplet.data.dataset import LabelledImages
from bayestriplet.data.progress import Progress
from bayestriplet.errors import InputError, InputTypeError, StateError
from bayestriplet.retrieval.encoder import OnnxEncoder
from bayestriplet.retrieval.items import Vectors
from bayestriplet.retrieval.live import look_at
from bayestriplet.retrieval.opening import open_set, read_parts
from bayestriplet.runs.folder import RunFolder
from bayestriplet.runs.left_out import adapt
from bayestriplet.runs.posterior import read_posterior
from bayestriplet.runs.predictive import Predictive, open_predictive
from bayestriplet.runs.rescoring import rescore
from bayestriplet.runs.students import Floats
from bayestriplet.runs.taught import Taught, check_names, open_taught, writing
from bayestriplet.runs.teaching import open_teaching

MOST_WEIGHT = 1e6


@dataclass(frozen=True)
class KnownClass:
    """A class of a run, with how many items it was trained on and taught."""

    name: str
    trained: int
    taught: int
    share: float
    """In the class prior."""

    @property
    def origin(self) -> str:
        """Where it comes from."""
        if not self.trained:
            return "taught"
        return "trained and taught" if self.taught else "trained"


@dataclass(frozen=True)
class Lesson:
    """What teaching changed."""

    counts: dict[str, int]
    """Examples by class."""
    new: tuple[str, ...]
    """Classes among them that the run had no items of."""
    noun: str = "image"

    def __str__(self) -> str:
        number = sum(self.counts.values())
        known = len(self.counts) - len(self.new)
        kinds = ((len(self.new), "new"), (known, "known"))
        parts = [f"{part:,} {word} class{'es' * (part != 1)}" for part, word in kinds if part]
        return f"{number:,} {self.noun}{'s' * (number != 1)} of {' and '.join(parts)}"


class Teacher:
    """What a run was taught, and how it is taught more. Every change waits for others to be written."""

    def __init__(self, run: RunFolder, encoder: OnnxEncoder) -> None:
        self.run, self.encoder = run, encoder
        trained = open_predictive(run, encoder.fingerprint, taught=False)
        if trained is None:
            raise StateError(f"{run.predictive} is missing: train again to teach classes")
        self.trained: Predictive = trained

    @classmethod
    def open(cls, run: str | Path) -> "Teacher":
        """Open a run folder to teach it."""
        return cls(RunFolder.find(Path(run)), OnnxEncoder.open(Path(run)))

    def read(self) -> Taught:
        """Return what was taught so far."""
        return open_taught(self.run, self.encoder.fingerprint, self.encoder.dim)

    def teach(
        self, vectors: Vectors, labels: Sequence[str], noun: str = "image", looks: Floats | None = None
    ) -> Lesson:
        """Teach the classes of embeddings (n, D), whose images look so (n, F)."""
        check_labels(vectors, labels)
        return self._add(self._nothing().plus(vectors, list(labels), looks), noun)

    def teach_set(
        self, data: str, label: str | None = None, *, only_new: bool = False, skip_bad: bool = False,
        follow_links: bool = False, progress: Progress | None = None,
    ) -> Lesson:  # fmt: skip
        """Teach the labelled images of a folder, a manifest or vectors, or all as of one class.

        With ``only_new`` those without a label, or of classes that the run knows, are left out. Images are
        read, encoded and counted a part at a time: memory does not grow with their number.
        """
        images = open_set(self.encoder, data, skip_bad=skip_bad, follow_links=follow_links, progress=progress)
        labels = [images.classes[k] if label is None else label for k in images.labels]
        if only_new:
            images, labels = self._without_known(images, labels, data)
        if label is None:
            check_labelled(labels, images.noun, data)
        self._check_names(labels)
        found = self._nothing()
        for part, given in read_parts(images, "Teaching", progress):
            found = found.plus(self.encoder.encode(given), labels[part], look_at(self.trained, given))
        return self._add(found, images.noun)

    def undo(self, vectors: Vectors, labels: Sequence[str], looks: Floats | None = None) -> None:
        """Take out examples that were taught, exact to rounding."""
        check_labels(vectors, labels)
        with writing(self.run):
            self._write(self.read().minus(vectors, list(labels), looks))

    def forget(self, name: str) -> int:
        """Take out what was taught of a class, never what was trained; return how many examples.

        That includes how often it was said to be expected.
        """
        with writing(self.run):
            taught = self.read()
            if name not in taught.classes and name not in taught.weights:
                trained = " (it was trained, which is not taken out)" if name in self.trained.classes else ""
                hint = nearest(name, taught.classes) if taught.classes else ""
                raise InputError(f"nothing was taught of class {name!r}{trained}{hint}")
            number = taught.count(name)
            self._write(taught.without(name))
        return number

    def set_weights(self, weights: Mapping[str, float]) -> None:
        """Set how often classes are expected, 1 being the average trained class."""
        with writing(self.run):
            taught = self.read()
            names = [one.name for one in self.classes(taught)]
            for name, value in weights.items():
                if name not in names:
                    raise InputError(f"--class-prior: there is no class {name!r}{nearest(name, names)}")
                if not 0 < value <= MOST_WEIGHT:
                    raise InputError(
                        f"--class-prior {name} must be above 0, up to {MOST_WEIGHT:g}; got {value:g}"
                    )
            self._write(replace(taught, weights={**taught.weights, **weights}))

    def classes(self, taught: Taught | None = None) -> list[KnownClass]:
        """Return all classes with items, trained first."""
        taught = taught or self.read()
        with_taught = self._with(taught)
        counts = dict.fromkeys(with_taught.classes, 0)
        if self.run.posterior.is_file():
            posterior = read_posterior(self.run.posterior)
            counts |= dict(zip(posterior.classes, posterior.state["seen"].tolist(), strict=True))
        shares = np.exp(with_taught.log_prior)
        found = [
            KnownClass(name, int(counts[name]), taught.count(name), float(share))
            for name, share in zip(with_taught.classes, shares, strict=True)
        ]
        return [one for one in found if one.trained or one.taught]

    def _without_known(
        self, images: LabelledImages, labels: Sequence[str], data: str
    ) -> tuple[LabelledImages, list[str]]:
        known = self._with(self.read()).known_classes | {""}
        rows = np.array([i for i, one in enumerate(labels) if one not in known], np.int64)
        if not len(rows):
            raise InputError(
                f"the run knows all classes of {data}; leave out --only-new to teach more examples"
            )
        return images.subset(rows), [labels[i] for i in rows]

    def _nothing(self) -> Taught:
        return Taught.nothing(self.encoder.fingerprint, self.encoder.dim)

    def _check_names(self, names: Sequence[str], taught: Taught | None = None) -> None:
        known = (*self.trained.classes, *(taught or self.read()).classes)
        check_names(names, known)

    def _add(self, found: Taught, noun: str) -> Lesson:
        with writing(self.run):
            taught = self.read()
            self._check_names(found.classes, taught)
            had = {one.name for one in self.classes(taught)}
            self._write(taught.joined(found))
        counts = {name: found.count(name) for name in found.classes}
        return Lesson(counts, tuple(name for name in counts if name not in had), noun)

    def _with(self, taught: Taught) -> Predictive:
        if not taught.classes and not taught.weights:
            return self.trained
        teaching = open_teaching(self.run, self.encoder.fingerprint, self.trained.reading)
        return self.trained.taught(self.run, teaching, taught)

    def _write(self, taught: Taught) -> None:
        """Write what is taught, with the kept validation items scored anew."""
        if not taught.classes and not taught.weights:
            self.run.taught.unlink(missing_ok=True)
            return
        teaching = open_teaching(self.run, self.encoder.fingerprint, self.trained.reading)
        taught = adapt(self.trained, self.run, teaching, taught)
        scores, pictured = None, None
        if len(teaching.validation):
            scores, pictured = rescore(self._with(taught), teaching, self.trained)
        replace(taught, held_out=scores, pictured=pictured).save(self.run.taught)


def check_labelled(labels: Sequence[str], noun: str, data: str) -> None:
    """Raise unless every item of a set has a class."""
    missing = labels.count("")
    if missing:
        raise InputError(
            f"{missing:,} of {len(labels):,} {noun}s of {data} have no label: put them into a folder "
            "per class, fill in the column label, or name their class with --label"
        )


def check_labels(vectors: Any, labels: Sequence[str]) -> None:
    """Raise unless there is a label for each of some vectors."""
    if isinstance(labels, str) or not all(isinstance(one, str) for one in labels):
        raise InputTypeError("labels must be a list of names, one per image")
    if len(labels) != len(vectors) or not len(labels):
        raise InputError(f"labels must be {len(vectors)}, one per image; got {len(labels)}")
