"""How pictures look, before any network: what tells a black one from those trained on. NumPy alone."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayestriplet.runs.class_looks import ClassLooks
from bayestriplet.runs.statistics import Prior, Statistics
from bayestriplet.runs.students import Floats, FullStudents

EDGES = np.array([0, 26, 77, 128, 179, 230])  # of the brightness histogram's bins, in 0 .. 255
SIDE = 7  # pixels of a thumbnail's side
PARTS = 16  # principal components of the thumbnails
LEAST_SHARE, LEAST_COLOUR, LEAST_ENERGY, LEAST_REST = 0.01, 0.01, 1e-5, 1e-4  # added before logarithms
LEAST_WIDTH = 0.15  # standard deviation of a measure, at least
CLIP, FARTHEST = 6.0, 1e3  # standard deviations: when the covariance is estimated, and at all
RIDGE = 0.01  # added to the variances
FREEDOM = 10.0
TAIL = 0.995  # of validation pictures, beyond which a picture is unlike those trained on
SHARE = 0.2  # of the surprise in the score of runs that keep no looks of classes; beyond the tail it is whole
SHARE_OF_CLASSES = 0.5  # of how unlike its class a picture looks
MOST_COMPONENTS = 32  # taught classes up to which each has an appearance of its own
KEPT, PREFIX = ("thumbnail", "parts", "center", "width", "mean", "covariance"), "appearance_"
CELLS = 2_000_000  # numbers of a block of pictures


@dataclass(frozen=True, eq=False)
class Appearance:
    """A multivariate t over measures of the pictures trained on, and how it enters novelty (eqs. 22-23)."""

    thumbnail: Floats  # (C * 49,) the mean one
    parts: Floats  # (P, C * 49) their principal components
    center: Floats  # (F,) median of each measure
    width: Floats  # (F,) standard deviation of each
    mean: Floats  # (F,) of the standardised measures
    covariance: Floats  # (F, F)
    scale: "Scale"
    of_classes: ClassLooks | None = None  # that were trained on; None in runs of earlier versions
    taught: FullStudents | None = None  # a component for each class that was taught
    taught_columns: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None  # classes, and their components

    @classmethod
    def of(cls, pixels: NDArray[np.uint8]) -> "Appearance":
        """Return the appearance of pictures (n, size, size, C); how it counts in novelty is not said yet."""
        plain, thumbnails = measure(pixels)
        thumbnail = thumbnails.mean(0)
        parts = np.linalg.svd(thumbnails - thumbnail, full_matrices=False)[2][:PARTS]
        raw = _with_parts(plain, thumbnails - thumbnail, parts)
        low, center, high = np.quantile(raw, (0.16, 0.5, 0.84), axis=0)
        width = np.maximum(np.maximum((high - low) / 2, raw.std(0) / 2), LEAST_WIDTH)
        z = np.clip((raw - center) / width, -CLIP, CLIP)
        mean = z.mean(0)
        covariance = (z - mean).T @ (z - mean) / len(z) + RIDGE * np.eye(len(mean))
        return cls(thumbnail, parts, center, width, mean, covariance, Scale())

    @classmethod
    def read(cls, tensors: Mapping[str, NDArray[Any]]) -> "Appearance":
        """Return what :meth:`tensors` gave."""
        thumbnail, parts, center, width, mean, covariance = (
            np.asarray(tensors[PREFIX + name], np.float64) for name in KEPT
        )
        scale = Scale(*map(float, tensors[PREFIX + "scale"]))
        of_classes = ClassLooks.read(tensors)
        found = cls(thumbnail, parts, center, width, mean, covariance, scale, of_classes)
        sizes = {len(getattr(found, name)) for name in ("center", "width", "mean", "covariance")}
        if len(sizes) > 1 or found.parts.shape[1:] != found.thumbnail.shape:
            raise ValueError("the parts of the appearance do not belong together")
        return found

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return what a file keeps of it, which is what it was trained on."""
        found: dict[str, NDArray[Any]] = {PREFIX + name: getattr(self, name) for name in KEPT}
        found[PREFIX + "scale"] = np.array([getattr(self.scale, one.name) for one in fields(Scale)])
        return found | ({} if self.of_classes is None else self.of_classes.tensors())

    @property
    def length(self) -> int:
        """F, how many measures there are of a picture."""
        return len(self.center)

    def describe(self, pixels: NDArray[np.uint8]) -> Floats:
        """Return the standardised measures (n, F) of pictures (n, size, size, C), in single precision."""
        plain, thumbnails = measure(pixels)
        raw = _with_parts(plain, thumbnails - self.thumbnail, self.parts)
        z = np.clip((raw - self.center) / self.width, -FARTHEST, FARTHEST)
        return z.astype(np.float32).astype(np.float64)  # as files and answers keep them

    def surprise(self, described: Floats) -> Floats:
        """Return a (n,), -log density of pictures with these measures (n, F), the least of all components."""
        best = self._of_all(described)
        if self.taught is not None:
            of_taught = self.taught.log_density(described, np.arange(len(self.taught.freedom)))
            best = np.maximum(best, of_taught.max(1))
        return -best

    def misfit(self, described: Floats, shares: Floats) -> Floats | None:
        """Return c (n,): how unlike its class a picture looks, for probabilities (n, K) of the classes.

        None in a run that keeps no looks of classes.
        """
        if self.of_classes is None:
            return None
        known = np.tile(self._of_all(described)[:, None], shares.shape[1])
        known[:, self.of_classes.columns] = self.of_classes.log_density(described)
        if self.taught is not None and self.taught_columns is not None:
            columns, components = self.taught_columns
            own = self.taught.log_density(described, np.arange(len(self.taught.freedom)))[:, components]
            trained = np.isin(columns, self.of_classes.columns)
            known[:, columns] = np.where(trained, np.maximum(known[:, columns], own), own)
        return -(shares * known).sum(1)

    def score(self, plain: Floats, described: Floats, misfit: Floats | None) -> Floats:
        """Return novelty scores (n,) of pictures with these scores of their vectors (n,)."""
        return self.scale.add(plain, self.surprise(described), misfit)

    def calibrated(self, plain: Floats, described: Floats, misfit: Floats | None) -> "Appearance":
        """Return this on the scale of validation items: the scores of their vectors (V,), their measures."""
        return replace(self, scale=Scale.of(plain, self.surprise(described), misfit))

    def widened(self, statistics: Statistics, columns: NDArray[np.int64]) -> "Appearance":
        """Return this with what was taught: the statistics (1) of the measures, by class (P,)."""
        seen = statistics.count > 0
        found, columns = statistics.take(seen), columns[seen]
        components = np.arange(len(columns))
        if not len(found.count):
            return self
        if len(found.count) > MOST_COMPONENTS:
            together = found.take(np.zeros(1, np.int64))
            for k in range(1, len(found.count)):
                together = together.plus(found.take(np.array([k])))
            found, components = together, np.zeros(len(columns), np.int64)
        prior = Prior(self.mean, self.covariance, FREEDOM - 2)
        return replace(self, taught=found.students(prior, np.inf), taught_columns=(columns, components))

    def _of_all(self, described: Floats) -> Floats:
        return self._trained.log_density(described, np.zeros(1, np.int64))[:, 0]

    @cached_property
    def _trained(self) -> FullStudents:
        none = Statistics.zeros(1, len(self.mean))
        return none.students(Prior(self.mean, self.covariance, FREEDOM - 2, 1e12), 1.0)


@dataclass(frozen=True)
class Scale:
    """Where the surprise of pictures stands beside the scores of vectors, by validation items."""

    middle: float = 0.0  # of the surprise
    tail: float = 0.0  # beyond which it counts in full
    unit: float = 0.0  # of the score, per tail - middle of the surprise
    class_middle: float = 0.0  # of the misfit
    class_tail: float = 0.0

    @classmethod
    def of(cls, plain: Floats, surprise: Floats, misfit: Floats | None = None) -> "Scale":
        """Return the scale on which validation items have these scores (V,), surprises and misfits (V,)."""
        if not len(plain):
            return cls()
        middle, tail = np.quantile(surprise, (0.5, TAIL))
        low, high = np.quantile(plain, (0.5, TAIL))
        of_classes = (0.0, 0.0) if misfit is None else np.quantile(misfit, (0.5, TAIL))
        return cls(*map(float, (middle, tail, high - low, *of_classes)))

    def add(self, plain: Floats, surprise: Floats, misfit: Floats | None = None) -> Floats:
        """Return scores (n,) of items whose vectors have these scores, and whose pictures these surprises."""
        gap = max(self.tail - self.middle, 1e-9)
        beyond = np.maximum(surprise - self.tail, 0.0) / gap
        if misfit is None:
            return plain + self.unit * (SHARE * (surprise - self.middle) / gap + beyond)
        of_class = (misfit - self.class_middle) / max(self.class_tail - self.class_middle, 1e-9)
        return plain + self.unit * (SHARE_OF_CLASSES * of_class + beyond)


def measure(pixels: NDArray[np.uint8]) -> tuple[Floats, Floats]:
    """Return measures (n, G) of pictures (n, size, size, C), and thumbnails (n, C * 49) in 0 .. 1."""
    found = [_measure(part) for part in _blocks(pixels)]
    return tuple(np.concatenate(one).astype(np.float64) for one in zip(*found, strict=True))  # type: ignore[return-value]


def _with_parts(plain: Floats, shift: Floats, parts: Floats) -> Floats:
    """Return measures with the coordinates of thumbnails along their components, and what is beside these."""
    along = shift @ parts.T
    rest = np.square(shift - along @ parts).mean(1, keepdims=True)
    return np.concatenate([plain, along, np.log(LEAST_REST + rest)], 1)


def _blocks(pixels: NDArray[np.uint8]) -> Iterator[NDArray[np.uint8]]:
    rows = max(1, CELLS // max(1, int(np.prod(pixels.shape[1:]))))
    for start in range(0, max(1, len(pixels)), rows):
        yield pixels[start : start + rows]


def _measure(pixels: NDArray[np.uint8]) -> tuple[NDArray[Any], NDArray[Any]]:
    x = np.ascontiguousarray(pixels.transpose(0, 3, 1, 2), np.float32) / np.float32(255)  # (n, C, H, W)
    grey = x.mean(1) if x.shape[1] > 1 else x[:, 0]
    found = [np.log(LEAST_SHARE + _histogram(grey)), x.mean((2, 3))]
    if x.shape[1] > 1:
        found.append(np.log(LEAST_COLOUR + np.abs(x - grey[:, None]).mean((2, 3))))
    found.append(np.log(LEAST_ENERGY + _energies(grey)))
    return np.concatenate(found, 1), _thumbnails(x).reshape(len(x), x.shape[1] * min(SIDE, x.shape[2]) ** 2)


def _histogram(grey: NDArray[np.float32]) -> Floats:
    """Return the share (n, 6) of pixels between the edges."""
    levels = (grey * 255 + np.float32(0.5)).astype(np.int64) + 256 * np.arange(len(grey))[:, None, None]
    counts = np.bincount(levels.ravel(), minlength=256 * len(grey)).reshape(len(grey), 256)
    return np.add.reduceat(counts, EDGES, axis=1) / (grey.shape[1] * grey.shape[2])


def _energies(grey: NDArray[np.float32]) -> Floats:
    """Return the mean squared differences across, down and of second order, at every scale."""
    found = []
    while True:
        across, down = grey[:, :, 1:] - grey[:, :, :-1], grey[:, 1:] - grey[:, :-1]
        second = across[:, 1:-1, 1:] - across[:, 1:-1, :-1] + down[:, 1:, 1:-1] - down[:, :-1, 1:-1]
        found += [
            np.square(one).sum((1, 2)) / max(1, one.shape[1] * one.shape[2]) for one in (across, down, second)
        ]
        if grey.shape[1] < 6:
            return np.stack(found, 1)
        even = grey.shape[1] // 2 * 2
        half = grey[:, :even:2, :even] + grey[:, 1:even:2, :even]
        grey = (half[:, :, ::2] + half[:, :, 1::2]) * np.float32(0.25)


def _thumbnails(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return pictures (n, C, H, W) reduced to (n, C, 7, 7), by means of boxes; smaller ones stay."""
    size, side = x.shape[2], min(SIDE, x.shape[2])
    edges = np.arange(side) * size // side
    counts = np.diff(np.append(edges, size)).astype(np.float32)
    rows = np.add.reduceat(x, edges, axis=2)
    return np.asarray(np.add.reduceat(rows, edges, axis=3) / np.outer(counts, counts), np.float32)
