"""Approximate neighbours for large indices: FAISS' inverted lists, as exact as is asked for.

Embeddings of classes lie in clumps. Cells around centres suit them; a graph of neighbours (HNSW) loses its
way between the clumps of a million vectors: it stayed below the recall however widely it searched.
"""

from pathlib import Path
from typing import Any

import faiss
import numpy as np

from bayestriplet.data.progress import Progress, report
from bayestriplet.retrieval.items import Vectors

WANTED = 0.99  # recall@10 against exact search
CELLS_A_ROOT = 4  # there are 4 sqrt(n) cells
SAMPLE_A_CELL = 40  # vectors that the centres are computed from
ROUNDS = 10  # of k-means
BREADTHS = (8, 16, 32, 64, 128, 256)  # cells that a search looks into, few first
CHUNK = 50_000
ASKED = 1000


class Cells:
    """A copy of vectors (n, D), sorted into cells, and how many of these a search needs for the recall."""

    def __init__(self, index: Any, breadth: int, recall: float) -> None:
        self.index, self.breadth, self.recall = index, breadth, recall

    @classmethod
    def build(cls, vectors: Vectors, progress: Progress | None = None) -> "Cells | None":
        """Return cells with a recall@10 of at least 0.99, or None where no breadth reaches it."""
        number = max(1, min(len(vectors) // SAMPLE_A_CELL, round(CELLS_A_ROOT * len(vectors) ** 0.5)))
        index: Any = faiss.index_factory(vectors.shape[1], f"IVF{number},Flat")
        index.cp.niter = ROUNDS
        report(progress, "building cells", 0, len(vectors))
        index.train(np.ascontiguousarray(vectors[spaced(len(vectors), SAMPLE_A_CELL * number)]))
        for start in range(0, len(vectors), CHUNK):
            report(progress, "building cells", start, len(vectors))
            index.add(np.ascontiguousarray(vectors[start : start + CHUNK]))
        queries = np.ascontiguousarray(vectors[spaced(len(vectors), ASKED)])
        # The item itself is always found: it is left out of both sides.
        exact = faiss.knn(queries, vectors, 11)[0][:, 1:]
        blur = 1e-5 * float(np.square(queries).sum(1).mean())
        for breadth in BREADTHS:
            cells = cls(index, breadth, 0.0)
            cells.recall = recall_of(cells.search(queries, 11)[0][:, 1:], exact, blur)
            if cells.recall >= WANTED:
                return cells
        return None

    def search(self, queries: Vectors, k: int) -> tuple[Vectors, Any]:
        """Return squared distances and rows (n, k); row -1 where the cells held no more."""
        enough = -(-2 * k * self.index.nlist // max(1, self.index.ntotal))  # many neighbours, many cells
        make: Any = faiss.SearchParametersIVF
        parameters = make(nprobe=min(self.index.nlist, max(self.breadth, enough)))
        return self.index.search(queries, k, params=parameters)

    def save(self, path: Path) -> None:
        """Write the cells with their vectors."""
        faiss.write_index(self.index, str(path))

    @classmethod
    def load(cls, path: Path, breadth: int, recall: float) -> "Cells":
        """Read saved cells."""
        return cls(faiss.read_index(str(path)), breadth, recall)


def spaced(number: int, wanted: int) -> Any:
    """Return up to ``wanted`` rows of ``number``, evenly spaced."""
    return np.linspace(0, number - 1, min(wanted, number)).astype(np.int64)


def recall_of(found: Vectors, exact: Vectors, blur: float) -> float:
    """Return the share of squared distances (n, k) within those of the exact neighbours (n, k).

    Distances are compared, not rows: of items that coincide, either is right. ``blur`` is what
    two ways of computing a distance may differ by.
    """
    return float((found <= exact[:, -1:] + blur).mean())
