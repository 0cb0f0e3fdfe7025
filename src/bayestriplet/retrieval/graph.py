"""Approximate neighbours for large indices: FAISS' HNSW graph, as exact as is asked for."""

from pathlib import Path
from typing import Any

import numpy as np

from bayestriplet.data.progress import Progress, report
from bayestriplet.errors import MissingDependencyError
from bayestriplet.retrieval.items import Vectors

WANTED = 0.99  # recall@10 against exact search
LINKS, EFFORT = 32, 128  # of a node, and spent on finding them
BREADTHS = (32, 64, 128, 256, 512, 1024, 2048)  # of a search, narrow first
CHUNK = 10_000
SAMPLE = 1000


class Graph:
    """A graph over vectors (n, D), which it holds, and the breadth of search that reaches the recall."""

    def __init__(self, index: Any, breadth: int, recall: float) -> None:
        self.index, self.breadth, self.recall = index, breadth, recall

    @classmethod
    def build(cls, vectors: Vectors, progress: Progress | None = None) -> "Graph | None":
        """Return a graph with a recall@10 of at least 0.99, or None where no breadth reaches it."""
        faiss = import_faiss()
        index = faiss.IndexHNSWFlat(vectors.shape[1], LINKS)
        index.hnsw.efConstruction = EFFORT
        for start in range(0, len(vectors), CHUNK):
            report(progress, "building the graph", start, len(vectors))
            index.add(np.ascontiguousarray(vectors[start : start + CHUNK]))
        asked = np.linspace(0, len(vectors) - 1, min(SAMPLE, len(vectors))).astype(np.int64)
        queries = np.ascontiguousarray(vectors[asked])
        # The item itself is always found: it is left out of both sides.
        exact = faiss.knn(queries, vectors, 11)[0][:, 1:]
        blur = 1e-5 * float(np.square(queries).sum(1).mean())
        for breadth in BREADTHS:
            graph = cls(index, breadth, 0.0)
            graph.recall = recall_of(graph.search(queries, 11)[0][:, 1:], exact, blur)
            if graph.recall >= WANTED:
                return graph
        return None

    @property
    def vectors(self) -> Vectors:
        """The vectors (n, D), without a copy: they last as long as the graph does."""
        faiss = import_faiss()
        flat = faiss.downcast_index(self.index.storage)
        return faiss.rev_swig_ptr(flat.get_xb(), flat.ntotal * flat.d).reshape(flat.ntotal, flat.d)

    def search(self, queries: Vectors, k: int) -> tuple[Vectors, Any]:
        """Return squared distances and rows (n, k); row -1 where the search found no more."""
        faiss = import_faiss()
        parameters = faiss.SearchParametersHNSW(efSearch=max(self.breadth, k))
        return self.index.search(queries, k, params=parameters)

    def save(self, path: Path) -> None:
        """Write the graph with its vectors."""
        import_faiss().write_index(self.index, str(path))

    @classmethod
    def load(cls, path: Path, breadth: int, recall: float) -> "Graph":
        """Read a saved graph."""
        return cls(import_faiss().read_index(str(path)), breadth, recall)


def recall_of(found: Vectors, exact: Vectors, blur: float) -> float:
    """Return the share of squared distances (n, k) within those of the exact neighbours (n, k).

    Distances are compared, not rows: of items that coincide, either is right. ``blur`` is what
    two ways of computing a distance may differ by.
    """
    return float((found <= exact[:, -1:] + blur).mean())


def import_faiss() -> Any:
    """Return FAISS, or say how to install it."""
    try:
        import faiss
    except ImportError as error:
        raise MissingDependencyError("searching needs FAISS: pip install 'bayestriplet[search]'") from error
    return faiss
