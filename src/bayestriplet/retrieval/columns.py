"""Columns of strings as arrays that load in no time: every value once, and a number a row."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Column:
    """A column of n strings of which m are different; only what is taken is decoded."""

    codes: NDArray[np.int32]
    """(n,) number of each row's value."""
    ends: NDArray[np.int64]
    """(m,) where each value ends in ``text``."""
    text: NDArray[np.uint8]
    """All values as UTF-8, one after the other, and a byte more: an empty array cannot be mapped."""

    @classmethod
    def of(cls, values: Sequence[str]) -> "Column":
        """Pack strings."""
        number: dict[str, int] = {}
        codes = np.fromiter((number.setdefault(v, len(number)) for v in values), np.int32, len(values))
        encoded = [value.encode() for value in number]
        ends = np.cumsum([len(one) for one in encoded], dtype=np.int64)
        return cls(codes, ends, np.frombuffer(b"".join([*encoded, b"\0"]), np.uint8))

    @classmethod
    def of_arrow(cls, values: Any) -> "Column":
        """Pack a column of strings of Arrow's, without an object for each: other threads go on meanwhile."""
        array = values.combine_chunks()
        if array.null_count:
            raise ValueError("a column of strings has empty cells")
        packed = array.dictionary_encode()
        text = packed.dictionary
        ends = np.frombuffer(text.buffers()[1] or b"", np.int32)[text.offset + 1 :][: len(text)]
        start = 0 if not len(text) else int(np.frombuffer(text.buffers()[1], np.int32)[text.offset])
        content = np.frombuffer(text.buffers()[2] or b"", np.uint8)[start : int(ends[-1]) if len(ends) else 0]
        whole = np.concatenate([content, np.zeros(1, np.uint8)])
        return cls(packed.indices.to_numpy().astype(np.int32), ends.astype(np.int64) - start, whole)

    def take(self, rows: NDArray[np.int64] | None = None) -> list[str]:
        """Return the strings of some rows, or of all."""
        wanted, inverse = np.unique(self.codes if rows is None else self.codes[rows], return_inverse=True)
        values = self._decode(wanted)
        return [values[i] for i in inverse.tolist()]

    def _decode(self, codes: NDArray[np.int32]) -> list[str]:
        """Return the values of these numbers."""
        starts = np.where(codes > 0, self.ends[codes - 1], 0).tolist()
        text = self.text.data
        return [str(text[a:b], "utf-8") for a, b in zip(starts, self.ends[codes].tolist(), strict=True)]

    def holds(self, value: str) -> NDArray[np.bool_]:
        """Return of every row (n,) whether it holds a value."""
        values = self._decode(np.arange(len(self.ends), dtype=np.int32))
        return self.codes == (values.index(value) if value in values else -1)

    def count(self) -> dict[str, int]:
        """Return how many rows each value has."""
        numbers = np.bincount(self.codes, minlength=len(self.ends)).tolist()
        return dict(zip(self._decode(np.arange(len(self.ends), dtype=np.int32)), numbers, strict=True))

    def save(self, folder: Path, name: str) -> None:
        """Write the column into a folder."""
        for part in ("codes", "ends", "text"):
            np.save(folder / f"{name}.{part}.npy", getattr(self, part))

    @classmethod
    def load(cls, folder: Path, name: str) -> "Column":
        """Map a saved column into memory."""
        parts = (np.load(folder / f"{name}.{part}.npy", mmap_mode="r") for part in ("codes", "ends", "text"))
        column = cls(*parts)
        ends = column.ends
        if len(ends) and (column.codes.max() >= len(ends) or ends[-1] > len(column.text)):
            raise ValueError(f"column {name} is damaged")
        return column
