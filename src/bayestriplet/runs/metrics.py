"""metrics.csv: loss, share of active triplets, learning rate and validation Recall@1 by step."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bayestriplet.atomic import write_text
from bayestriplet.errors import InputError
from bayestriplet.runs.checksums import forget, verify

COLUMNS = ("step", "epoch", "loss", "active", "lr", "recall@1", "seconds")
LONGEST_STEP = 18  # digits
Column = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Curves:
    """What metrics.csv holds, (n,) each; NaN where a row has no value."""

    step: Column
    loss: Column
    active: Column
    recall: Column
    seconds: Column

    @property
    def best(self) -> int | None:
        """The last row with the highest validation Recall@1: of equal networks training keeps the last."""
        if np.isnan(self.recall).all():
            return None
        return int(np.flatnonzero(self.recall == np.nanmax(self.recall))[-1])

    @property
    def validations(self) -> list[tuple[int, float, float]]:
        """Step, seconds and Recall@1 in percent of every validation."""
        rows = np.flatnonzero(~np.isnan(self.recall))
        return [(int(self.step[i]), float(self.seconds[i]), 100 * float(self.recall[i])) for i in rows]


def begin_metrics(path: Path, step: int) -> None:
    """Begin the table; that of a run which goes on keeps the rows up to its checkpoint's step."""
    forget(path)
    rows = [",".join(COLUMNS)]
    if step:
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
        rows += [row for row in text.splitlines()[1:] if _is_up_to(row, step)]
    write_text(path, "\n".join(rows) + "\n")


def _is_up_to(row: str, step: int) -> bool:
    first = row.partition(",")[0]
    return first.isdecimal() and len(first) <= LONGEST_STEP and int(first) <= step


def append_metrics(path: Path, row: Sequence[object]) -> None:
    """Add a row; None becomes an empty cell."""
    with path.open("a", newline="", encoding="utf-8") as file:
        csv.writer(file).writerow(["" if value is None else value for value in row])


def read_metrics(path: Path) -> Curves:
    """Read the metrics.csv of a run."""
    verify(path)
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        columns = {name: _numbers(rows, name, needed=name in ("step", "loss")) for name in COLUMNS}
        if np.isnan(columns["step"]).any():
            raise ValueError("a row without a step")
    except FileNotFoundError:
        raise InputError(
            f"{path} is missing: put it back, or train again with --config {path.parent / 'config.toml'}"
        ) from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None
    except (KeyError, TypeError, ValueError, csv.Error):
        raise InputError(f"{path} is not a log of a run: it needs numbers in columns step and loss") from None
    names = ("step", "loss", "active", "recall@1", "seconds")
    return Curves(*(columns[name] for name in names))


def _numbers(rows: list[dict[str, str]], name: str, needed: bool) -> Column:
    cells = [row[name] if needed else row.get(name) for row in rows]
    return np.array([float(cell or "nan") for cell in cells])
