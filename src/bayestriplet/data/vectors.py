"""A set of labelled images of which the features of a frozen network are known."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
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
