"""Sets of items that are read as vectors: features of images, or vectors that came without any images."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayestriplet.data.dataset import LabelledImages


@dataclass(frozen=True, eq=False)
class LabelledFeatures(LabelledImages):
    """Images that are read as features: V views of each item, the first of the image as it is."""

    features: NDArray[np.float32] | None = None
    """(n, V, F)"""
    source: LabelledImages | None = None
    """The images themselves."""

    @classmethod
    def of(cls, images: LabelledImages, features: NDArray[np.float32]) -> "LabelledFeatures":
        """Return a set with the features (n, V, F) of its images."""
        own = {one.name: getattr(images, one.name) for one in fields(images)}
        return cls(**{**own, "pixels": None, "rows": None}, features=features, source=images)

    def read(self, indices: Sequence[int] | NDArray[np.int64]) -> NDArray[Any]:
        """Return the features (b, F) of the images at these positions, as they are."""
        return np.asarray(self._all()[np.asarray(indices, np.int64), 0])

    def read_views(
        self, indices: Sequence[int] | NDArray[np.int64], rng: np.random.Generator
    ) -> NDArray[np.float32]:
        """Return the features (b, F) of a view of each image, drawn with equal chances."""
        rows = np.asarray(indices, np.int64)
        return np.asarray(self._all()[rows, rng.integers(0, self._all().shape[1], len(rows))])

    def as_images(self) -> LabelledImages:
        """Return the images themselves."""
        return self if self.source is None else self.source

    def subset(self, keep: NDArray[np.int64]) -> "LabelledFeatures":
        """Return the set of only the images at these positions."""
        return LabelledFeatures.of(self.as_images().subset(keep), self._all()[keep])

    def default_workers(self) -> int:
        """Return no workers: nothing is decoded."""
        return 0

    def _all(self) -> NDArray[np.float32]:
        return np.empty((0, 1, 0), np.float32) if self.features is None else self.features


def describe_vectors(images: LabelledImages) -> str:
    """Return length and origin of items that are vectors; nothing for images."""
    return (
        f"vectors of length {images.length}, from {images.origin}"
        if isinstance(images, LabelledVectors)
        else ""
    )


@dataclass(frozen=True, eq=False)
class LabelledVectors(LabelledFeatures):
    """Items that are vectors of a model of somebody's: there are no images, and one view of each.

    The features keep the type of their file, and stay on the disk where they are memory-mapped; what is
    read of them is float32. ``rows`` are positions in them.
    """

    origin: str = ""
    """What the vectors come from, as their file says it, else the name of the file."""

    @property
    def length(self) -> int:
        """F."""
        return int(self._all().shape[2])

    def read(self, indices: Sequence[int] | NDArray[np.int64]) -> NDArray[Any]:
        """Return the vectors (b, F) at these positions."""
        wanted = np.asarray(indices, np.int64)
        return np.asarray(self._all()[wanted if self.rows is None else self.rows[wanted], 0], np.float32)

    def read_views(
        self, indices: Sequence[int] | NDArray[np.int64], rng: np.random.Generator
    ) -> NDArray[np.float32]:
        """Return the vectors (b, F): there are no other views."""
        del rng
        return self.read(indices)

    def subset(self, keep: NDArray[np.int64]) -> "LabelledVectors":
        """Return the set of only the vectors at these positions, which are not copied."""
        return replace(
            self,
            labels=self.labels[keep],
            splits=self.splits[keep],
            ids=tuple(self.ids[i] for i in keep),
            groups=None if self.groups is None else self.groups[keep],
            rows=keep if self.rows is None else self.rows[keep],
        )
