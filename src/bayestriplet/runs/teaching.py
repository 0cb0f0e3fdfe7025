"""teaching.safetensors: what a run expects of classes that it was not trained on. NumPy alone."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayestriplet.errors import InputError, StateError, reason_of
from bayestriplet.runs.appearance import Appearance
from bayestriplet.runs.background import Background
from bayestriplet.runs.folder import RunFolder
from bayestriplet.runs.posterior import read_posterior
from bayestriplet.runs.statistics import Prior, Statistics
from bayestriplet.runs.students import Floats
from bayestriplet.runs.tensors import check_format, read_tensors, write_tensors

FORMAT, FORMATS = "3", ("1", "2", "3")  # what is written, and what is read
READING = {"memory": 30.0, "weight": 3.0, "floor": 0.1}  # of runs that do not say how they are read
GROWTH = 10.0  # examples at which half of a new class's sharpening and contrast is reached
LEAST_WEIGHT = 3.0  # examples that the prior of a new class counts for, where nothing was fitted
MOST = 2000  # validation vectors that are kept


@dataclass(frozen=True)
class NewClasses:
    """How classes are read that are not trained on (docs/method.md, eqs. 17-19a).

    The values here suit runs without held-out classes. They were chosen on other data: MNIST without the
    digits 0-2 and 3-5, and PathMNIST without two tissues.
    """

    widening: float = 4.0
    """How much wider than trained classes they are expected to be."""
    weight: float = 0.0
    """Examples that this expectation counts for; 0 for that of trained classes, and at least 3."""
    offset: float = 0.7
    """Share of the difference in entropy that is made up for."""
    sharpening: float = 0.7
    """Temperature of classes with many examples, as a share of the run's."""
    contrast: float = 1.4
    """How much more than its log odds say an item is of a new class or an old one, at many examples."""
    bias: float = 0.0
    """What is added to the log odds of new classes."""

    @classmethod
    def read(cls, found: dict[str, float]) -> "NewClasses":
        """Return what a file says; files without contrast are of another formula, and tell nothing."""
        return cls(**found) if "contrast" in found else cls()


@dataclass(frozen=True)
class Evidence:
    """What novelty rests on."""

    validation: int = 0
    """Items that it is compared with."""
    auroc: float | None = None
    """How well it distinguished held-out classes; None where there were none."""
    classes: int = 0
    """How many held-out classes that was measured on."""


@dataclass(frozen=True, eq=False)
class Teaching:
    """What it takes to add classes to a run: the trained ones together, and how new ones are read."""

    encoder: str  # fingerprint
    prior: Prior  # of trained classes, eq. (13)
    memory: float
    new: NewClasses
    background: Background | None
    validation: NDArray[np.float32]  # (V, D), up to 2,000 of the validation items of trained classes
    held_out: Floats  # novelty scores of all of them, ascending
    evidence: Evidence
    explained: Floats | None = None  # (V,) log evidence of the trained classes for the kept validation items
    appearance: Appearance | None = None  # of the pictures trained on
    looks: NDArray[np.float32] | None = None  # (V, F) of the kept validation items
    pictured: Floats = field(default_factory=lambda: np.empty(0))  # novelty scores with it, ascending
    misfit: Floats | None = None  # (V,) how unlike their trained classes these look

    @property
    def new_prior(self) -> Prior:
        """The prior of classes that were not trained on."""
        return self.prior.wider(self.new.widening, self.new.weight or max(self.prior.weight, LEAST_WEIGHT))

    def save(self, path: Path) -> None:
        """Write a teaching.safetensors."""
        tensors: dict[str, NDArray[Any]] = {
            "mean": self.prior.mean, "covariance": self.prior.covariance,
            "validation": self.validation, "held_out": self.held_out,
        }  # fmt: skip
        if self.explained is not None:
            tensors["explained"] = self.explained
        if self.appearance is not None and self.looks is not None:
            tensors |= {**self.appearance.tensors(), "looks": self.looks, "pictured": self.pictured}
        if self.misfit is not None:
            tensors["misfit"] = self.misfit
        numbers = {"weight": self.prior.weight, "memory": self.memory}
        if self.background is not None:
            tensors |= {"all_mean": self.background.mean, "all_covariance": self.background.covariance}
            numbers |= {"share": self.background.share, "tail": self.background.tail}
        metadata = {"new": asdict(self.new), "evidence": asdict(self.evidence), "numbers": numbers}
        texts = {name: json.dumps(value, sort_keys=True) for name, value in metadata.items()}
        write_tensors(path, tensors, {"format": FORMAT, "encoder": self.encoder, **texts})

    @classmethod
    def load(cls, path: Path) -> "Teaching":
        """Read a teaching.safetensors."""
        tensors, metadata = read_tensors(path, "what a run expects of new classes")
        check_format(path, metadata, FORMATS)
        try:
            numbers = json.loads(metadata["numbers"])
            background = None
            if "all_mean" in tensors:
                own = tensors["all_mean"], tensors["all_covariance"]
                background = Background(*own, numbers["share"], numbers["tail"])
            return cls(
                encoder=metadata["encoder"],
                prior=Prior(tensors["mean"], tensors["covariance"], numbers["weight"]),
                memory=numbers["memory"],
                new=NewClasses.read(json.loads(metadata["new"])),
                background=background,
                validation=tensors["validation"],
                held_out=tensors["held_out"],
                evidence=Evidence(**json.loads(metadata["evidence"])),
                explained=tensors.get("explained"),
                appearance=Appearance.read(tensors) if "looks" in tensors else None,
                looks=tensors.get("looks"),
                pictured=tensors.get("pictured", np.empty(0)),
                misfit=tensors.get("misfit"),
            )
        except (LookupError, TypeError, ValueError, RecursionError) as error:
            raise InputError(f"{path} is damaged: {reason_of(error)}; train again") from None


def spread_rows(number: int, most: int = MOST) -> NDArray[np.int64]:
    """Return up to ``most`` positions among so many items, evenly spread."""
    return np.linspace(0, number - 1, min(most, number)).astype(np.int64)


def open_teaching(run: RunFolder, fingerprint: str, reading: dict[str, float]) -> Teaching:
    """Return what a run expects of new classes; in a run that keeps no file of it, by its posterior."""
    if run.teaching.is_file():
        found = Teaching.load(run.teaching)
        if found.encoder != fingerprint:
            raise StateError(f"{run.teaching} is of another network than the encoder: train again")
        return found
    chosen = READING | reading
    prior = read_statistics(run).pooled_prior(chosen["weight"], chosen["floor"])
    nothing = np.empty((0, len(prior.mean)), np.float32)
    return Teaching(
        fingerprint, prior, chosen["memory"], NewClasses(), None, nothing, np.empty(0), Evidence()
    )


def read_statistics(run: RunFolder, classes: NDArray[np.int64] | None = None) -> Statistics:
    """Return the statistics of some of a run's trained classes, of all with items where none are named.

    Of a posterior that keeps its scatters in low rank, this is what they are read as (eq. 8a).
    """
    state = read_posterior(run.posterior).state
    rows = np.flatnonzero(state["count"] > 0) if classes is None else classes
    count, mean = (state[name][rows].astype(np.float64) for name in ("count", "item_mean"))
    if "item_scatter" in state:
        return Statistics(count, mean, state["item_scatter"][rows].astype(np.float64))
    if "item_factor" not in state:
        raise StateError(f"{run.posterior} keeps no scatters of single classes, so that none can be taught")
    factor, diagonal = (state[name][rows].astype(np.float64) for name in ("item_factor", "item_diagonal"))
    rest = np.maximum(diagonal - np.square(factor).sum(1), 0.0)
    if classes is None:  # only their sum is wanted: a matrix for each might not fit
        flat = factor.reshape(-1, factor.shape[2])
        average = (flat.T @ flat + np.diag(rest.sum(0))) / len(rows)
        return Statistics(count, mean, np.broadcast_to(average, (len(rows), *average.shape)))
    return Statistics(count, mean, factor.transpose(0, 2, 1) @ factor + rest[:, None] * np.eye(mean.shape[1]))
