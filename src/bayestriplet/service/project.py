"""``python -m bayestriplet.service.project VECTORS.npy POINTS.npy``: a UMAP, made beside the service."""

import os
import sys

import numpy as np

POLITE = 10  # niceness: answers come first


def main(vectors: str, points: str) -> None:
    """Read vectors (n, D) and write their places (n, 2)."""
    if hasattr(os, "nice"):
        os.nice(POLITE)
    from bayestriplet.evaluation.figure_umap import project

    np.save(points, project(np.load(vectors, allow_pickle=False), seed=0))


if __name__ == "__main__":
    main(*sys.argv[1:])
