"""UMAP's map of embeddings: for the figures of a run, and for the page.

``python -m bayestriplet.report.projection VECTORS.npy POINTS.npy`` makes one beside the service.
"""

import sys
import warnings

import numpy as np
from numpy.typing import NDArray

from bayestriplet.errors import InputError
from bayestriplet.evaluation.neighbours import nearest_neighbours
from bayestriplet.priority import let_others_go_first
from bayestriplet.report.style import import_drawing

MOST_ITEMS = 5000
NEIGHBOURS = 15


def sample_evenly(labels: NDArray[np.int64], most: int, seed: int) -> NDArray[np.int64]:
    """Return at most ``most`` positions, ascending, drawn by seed; every class keeps its share."""
    if len(labels) <= most:
        return np.arange(len(labels))
    shuffled = np.random.default_rng(seed).permutation(len(labels))
    by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
    return np.sort(by_class[np.arange(most) * len(labels) // most])


def neighbours_of(number: int) -> int:
    """Return how many neighbours of each of so many items UMAP looks at."""
    return min(NEIGHBOURS, number - 1)


def project(embeddings: NDArray[np.float32], seed: int) -> NDArray[np.float32]:
    """Return UMAP positions (n, 2) of embeddings (n, D), from exact neighbours and the same for a seed."""
    number = len(embeddings)
    if number < 3:
        raise InputError(f"a map needs at least 3 items; got {number}: choose a larger --split")
    umap = import_drawing("umap")
    size = neighbours_of(number)
    others = nearest_neighbours(embeddings, size - 1)  # (n, size - 1)
    near = np.concatenate([np.arange(number)[:, None], others], 1)  # UMAP counts an item as its own first
    distances = np.stack([np.linalg.norm(embeddings - embeddings[column], axis=1) for column in near.T], 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that new items cannot be placed, and that one thread is used
        model = umap.UMAP(
            n_neighbors=size,
            random_state=seed,
            n_jobs=1,
            init="spectral" if number > 2 * NEIGHBOURS else "random",
            precomputed_knn=(near, distances),
        )
        return np.asarray(model.fit_transform(embeddings), dtype=np.float32)


def main(vectors: str, points: str) -> None:
    """Read vectors (n, D) from a file and write their positions (n, 2) to another."""
    let_others_go_first()
    np.save(points, project(np.load(vectors, allow_pickle=False), seed=0))


if __name__ == "__main__":
    main(*sys.argv[1:])
