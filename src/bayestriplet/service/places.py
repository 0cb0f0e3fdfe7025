"""Where items lie in the plane: a map of the embedding, and the place of a query in it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bayestriplet.atomic import replacing
from bayestriplet.errors import InputError
from bayestriplet.retrieval.items import Stored, Vectors

NEAR = 5  # mapped items that a query is placed by

Points = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Places:
    """A sample of n items of an index with their places (n, 2)."""

    version: str
    """Of the index."""
    way: str
    """How the places were computed: "umap", or "pca" for principal axes."""
    ids: tuple[str, ...]
    labels: tuple[str, ...]
    vectors: Vectors
    """(n, D)"""
    points: Points
    """(n, 2)"""

    @classmethod
    def along_principal_axes(cls, version: str, sample: Sequence[Stored]) -> "Places":
        """Return the places that take no time: the two directions in which the vectors vary most."""
        vectors = np.array([one.vector for one in sample], np.float32)
        centred = vectors - vectors.mean(0)
        axes = np.linalg.svd(centred, full_matrices=False)[2][:2]  # (up to 2, D)
        points = np.zeros((len(sample), 2), np.float32)
        points[:, : len(axes)] = centred @ axes.T
        ids, labels = (tuple(getattr(one.item, field) for one in sample) for field in ("id", "label"))
        return cls(version, "pca", ids, labels, vectors, points)

    def placed(self, points: Points, way: str) -> "Places":
        """Return the same items at other places."""
        return replace(self, points=points, way=way)

    def place(self, vector: Vectors) -> tuple[float, float]:
        """Return where a vector (D,) belongs: among its nearest items, the nearer the closer."""
        squares = np.square(self.vectors - vector.astype(np.float64)).sum(1)
        near = np.argsort(squares)[:NEAR]
        weights = 1 / (squares[near] + 1e-9)
        x, y = (weights[:, None] * self.points[near]).sum(0) / weights.sum()
        return float(x), float(y)

    def save(self, folder: Path) -> None:
        """Keep the places of this version of the index in place of older ones, where that can be written."""
        final = self._file(folder, self.version)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with replacing(final) as partial, partial.open("wb") as file:
                np.savez(file, ids=np.array(self.ids), points=self.points)
            for old in folder.glob("*.npz"):
                if old != final:
                    old.unlink(missing_ok=True)
        except (InputError, OSError):  # kept places only save time
            return

    def load(self, folder: Path) -> "Places | None":
        """Return the places kept for these items, or None where there are none."""
        try:
            with np.load(self._file(folder, self.version), allow_pickle=False) as kept:
                ids, points = tuple(kept["ids"].tolist()), np.asarray(kept["points"], np.float32)
        except Exception:  # whatever a damaged file makes of it: kept places only save time
            return None
        fit = ids == self.ids and points.shape == (len(ids), 2) and np.isfinite(points).all()
        return self.placed(points, "umap") if fit else None

    @staticmethod
    def _file(folder: Path, version: str) -> Path:
        return folder / f"{''.join(c if c.isalnum() else '-' for c in version)}.npz"
