"""All vectors and payload of a table in memory, for searching; kept on disk between processes."""

import json
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayestriplet.atomic import replacing
from bayestriplet.data.digests import crc_of
from bayestriplet.data.progress import Progress
from bayestriplet.errors import InputError
from bayestriplet.retrieval.cells import Cells, spaced
from bayestriplet.retrieval.columns import Column
from bayestriplet.retrieval.conditions import Condition
from bayestriplet.retrieval.items import FIELDS, Hit, Item, Stored, Vectors

FORMAT = 3
APPROXIMATE_FROM = 50_000  # items
BLOCK_ROWS = 50_000  # vectors copied at a time when the search is among some items
BLOCK_CELLS = 4_000_000  # numbers compared at a time when distances are made exact


@dataclass(frozen=True, eq=False)
class Memory:
    """One version of a table: n vectors (n, D) and a column a field."""

    key: str
    """Of the version it is a copy of."""
    fingerprint: str
    vectors: Vectors
    columns: dict[str, Column]
    cells: Cells | None = None

    @classmethod
    def make(
        cls, key: str, fingerprint: str, vectors: Vectors, columns: dict[str, Column],
        progress: Progress | None = None,
    ) -> "Memory":  # fmt: skip
        """Return a table's content ready for searching, from 50,000 items on in cells."""
        cells = Cells.build(vectors, progress) if len(vectors) >= APPROXIMATE_FROM else None
        return cls(key, fingerprint, vectors, columns, cells)

    def __len__(self) -> int:
        return len(self.vectors)

    def describe(self) -> str:
        """Return how it searches."""
        if self.cells is None:
            return "search is exact"
        return f"search is approximate, with a recall@10 of {self.cells.recall:.4f} against exact search"

    def items(self, rows: NDArray[np.int64] | None = None) -> list[Item]:
        """Return what is known of some rows, or of all."""
        return list(map(Item._make, zip(*(self.columns[field].take(rows) for field in FIELDS), strict=True)))

    @cached_property
    def _row_of(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self.columns["id"].take())}

    def find(self, ids: Iterable[str]) -> list[Stored]:
        """Return the items with these ids, of those that are there."""
        rows = self._row_of
        return self._stored([rows[name] for name in ids if name in rows])

    def sample(self, number: int) -> list[Stored]:
        """Return at most this many items, at even distances in the table."""
        return self._stored(spaced(len(self), number))

    def _stored(self, rows: ArrayLike) -> list[Stored]:
        wanted = np.asarray(rows, np.int64)
        return list(map(Stored, self.items(wanted), np.array(self.vectors[wanted])))

    def search(self, queries: Vectors, k: int, where: Sequence[Condition]) -> list[list[Hit]]:
        """Return at most k hits a query, nearest first; among some items only the search is exact."""
        found = self._nearest(np.ascontiguousarray(queries, np.float32), k, self._among(where))
        distances = self._exact_distances(queries, found)
        order = np.argsort(np.where(found < 0, np.inf, distances), axis=1, kind="stable")
        found, distances = np.take_along_axis(found, order, 1), np.take_along_axis(distances, order, 1)
        there = found >= 0
        hits = iter(map(Hit, self.items(found[there]), distances[there].tolist()))
        return [list(islice(hits, number)) for number in there.sum(1).tolist()]

    def _among(self, where: Sequence[Condition]) -> NDArray[np.int64] | None:
        """Return the rows that fulfil all conditions, ascending; None for all rows."""
        if not where:
            return None
        fit = np.ones(len(self), np.bool_)
        for one in where:
            fit &= self.columns[one.field].holds(one.value) != one.is_excluded
        return np.flatnonzero(fit)

    def _nearest(self, queries: Vectors, k: int, among: NDArray[np.int64] | None) -> NDArray[np.int64]:
        """Return rows (n, up to k), -1 where there are no more."""
        wanted = min(k, len(self) if among is None else len(among))
        if not wanted:
            return np.empty((len(queries), 0), np.int64)
        if among is not None:
            return self._nearest_among(queries, wanted, among)
        if self.cells is not None:
            found: NDArray[np.int64] = self.cells.search(queries, wanted)[1]
            if (found >= 0).all():  # else the cells that were looked into hold fewer than are wanted
                return found
        return faiss.knn(queries, self.vectors, wanted)[1]

    def _nearest_among(self, queries: Vectors, k: int, among: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return rows (n, k), exactly; they may be nearly all, so vectors are copied a block at a time."""
        found = np.empty((len(queries), 0), np.int64)
        squares = np.empty((len(queries), 0), np.float32)
        for start in range(0, len(among), BLOCK_ROWS):
            block = among[start : start + BLOCK_ROWS]
            apart, near = faiss.knn(queries, self.vectors[block], min(k, len(block)))
            found, squares = np.hstack([found, block[near]]), np.hstack([squares, apart])
            order = np.argsort(squares, axis=1, kind="stable")[:, :k]
            found, squares = np.take_along_axis(found, order, 1), np.take_along_axis(squares, order, 1)
        return found

    def _exact_distances(self, queries: Vectors, found: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return Euclidean distances (n, k): FAISS expands squares, which blurs those near 0."""
        out = np.empty(found.shape)
        step = max(1, BLOCK_CELLS // max(1, found.shape[1] * queries.shape[1]))
        for start in range(0, len(queries), step):
            part = slice(start, start + step)
            apart = self.vectors[found[part]] - queries[part, None]  # (b, k, D)
            out[part] = np.sqrt(np.einsum("bkd,bkd->bk", apart, apart, dtype=np.float64))
        return out

    def save(self, folder: Path) -> None:
        """Keep a copy on disk in place of older ones, or none where that cannot be written."""
        final = folder / self.key
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with replacing(final, folder=True) as partial:
                self._write(partial)
            for old in folder.iterdir():
                if old != final:
                    shutil.rmtree(old, ignore_errors=True)
        except (InputError, OSError, RuntimeError):  # the last is FAISS' own; a copy only saves time
            return

    def _write(self, folder: Path) -> None:
        for field, column in self.columns.items():
            column.save(folder, field)
        about: dict[str, Any] = {"format": FORMAT, "fingerprint": self.fingerprint}
        np.save(folder / "vectors.npy", self.vectors)
        if self.cells is not None:
            self.cells.save(folder / "cells.faiss")
            about |= {"breadth": self.cells.breadth, "recall": self.cells.recall}
        about["checksums"] = {path.name: crc_of(path) for path in sorted(folder.iterdir())}
        (folder / "about.json").write_text(json.dumps(about), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path, key: str) -> "Memory | None":
        """Return the copy of a version, or None where there is no whole one."""
        here = folder / key
        try:
            about = json.loads((here / "about.json").read_text(encoding="utf-8"))
            if about["format"] != FORMAT:
                return None
            if any(crc_of(here / name) != value for name, value in about["checksums"].items()):
                return None
            columns = {field: Column.load(here, field) for field in FIELDS}
            cells = None
            if "breadth" in about:
                cells = Cells.load(here / "cells.faiss", about["breadth"], about["recall"])
            vectors = np.load(here / "vectors.npy", mmap_mode="r")
            if {len(vectors)} != {len(column.codes) for column in columns.values()}:
                return None
            return cls(key, about["fingerprint"], vectors, columns, cells)
        except Exception:  # whatever a damaged file makes of it: the table is the record
            return None
