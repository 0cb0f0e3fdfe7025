"""Columns of strings as arrays that load in no time: every value once, and a number a row."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Column:
    """A column of n strings of which m are different; indexing decodes one."""

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

    def __getitem__(self, row: int) -> str:
        return self.value(int(self.codes[row]))

    def value(self, code: int) -> str:
        """Return the value of a number."""
        start = self.ends[code - 1] if code else 0
        return self.text[start : self.ends[code]].tobytes().decode()

    def rows(self, value: str) -> NDArray[np.int64]:
        """Return the rows that hold a value, ascending."""
        for code in range(len(self.ends)):
            if self.value(code) == value:
                return np.flatnonzero(self.codes == code)
        return np.empty(0, np.int64)

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
