"""The folder of a comparison: what it is for, what was found, and every run."""

import contextlib
import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bayestriplet.atomic import write_text
from bayestriplet.errors import InputError, reason_of
from bayestriplet.methods import METHODS
from bayestriplet.runs.folder import RunFolder
from bayestriplet.runs.lock import is_taken

FORMAT = 1
RECALLS = ("recall@1", "recall@4", "recall@8", "recall@16")
REGIMES = ("imbalance", "label_noise")
ADVICE = "delete it and run the comparison again"
SUM = "sha256"  # of everything else that a file holds; files of earlier versions have none


class ComparisonFolder:
    """The files of a comparison. Each is written completely or not at all."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.settings = path / "settings.json"
        self.summary = path / "comparison.json"
        self.floors = path / "floors.json"
        self.runs = path / "runs"
        self.images = path / "images"
        self.markdown = path / "table.md"
        self.csv = path / "table.csv"

    def run(self, name: str) -> RunFolder:
        """Return the folder of one of its runs."""
        return RunFolder(self.runs / name)

    def claim(self, settings: Mapping[str, Any]) -> None:
        """Write down what the folder is for, or refuse one that is for something else."""
        if self.settings.is_file():
            before = _read_json(self.settings)
            different = [name for name, value in settings.items() if before.get(name) != value]
            if different:
                name = different[0]
                raise InputError(
                    f"{self.path} holds a comparison with {name} {before.get(name)!r}, "
                    f"not {settings[name]!r}: choose another --out"
                )
            return
        try:
            if self.path.exists() and is_taken(self.path):
                raise InputError(f"{self.path} is not empty and holds no comparison: choose another --out")
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{self.path} cannot be used for a comparison: {error.strerror}") from None
        _write_json(self.settings, settings)

    def abandon(self) -> None:
        """Take back what :meth:`claim` and the decoding of images have written."""
        self.settings.unlink(missing_ok=True)
        shutil.rmtree(self.images, ignore_errors=True)
        with contextlib.suppress(OSError):
            self.path.rmdir()

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Write what was found."""
        _write_json(self.summary, summary)

    def read_summary(self) -> dict[str, Any]:
        """Return what was found."""
        if not self.summary.is_file():
            raise InputError(f"{self.path} holds no finished comparison: it has no {self.summary.name}")
        summary = _read_json(self.summary)
        if not _is_whole(summary):
            raise InputError(f"{self.summary} is not a comparison: {ADVICE}")
        return summary

    def write_floors(self, run: str, floors: Mapping[str, Any]) -> None:
        """Keep what was measured beside a run's network."""
        _write_json(self.floors, {"run": run, "floors": floors})

    def read_floors(self, run: str) -> dict[str, dict[str, float]] | None:
        """Return what was measured beside this run's network, if it was."""
        known = _read_json(self.floors) if self.floors.is_file() else {}
        floors = known.get("floors")
        return floors if known.get("run") == run and isinstance(floors, dict) else None


def _is_whole(summary: Mapping[str, Any]) -> bool:
    """Whether everything is there that tables and figures read; a file without a sum may say anything."""
    methods, floors, settings = (summary.get(name) for name in ("methods", "floors", "settings"))
    return (
        isinstance(summary.get("data"), str)
        and isinstance(methods, dict)
        and bool(methods)
        and methods.keys() <= METHODS.keys()
        and all(map(_is_method, methods.values()))
        and isinstance(floors, dict)
        and all(_has_numbers(scores, RECALLS) for scores in floors.values())
        and isinstance(settings, dict)
        and "data" in settings
        and _has_numbers({name: settings.get(name) or 0 for name in REGIMES}, REGIMES)
    )


def _is_method(entry: Any) -> bool:
    chosen, seeds = (entry.get("chosen"), entry.get("seeds")) if isinstance(entry, dict) else (None, None)
    return (
        isinstance(chosen, dict)
        and _has_numbers(chosen, chosen)
        and isinstance(seeds, dict)
        and bool(seeds)
        and all(
            _has_numbers(seed, (*RECALLS, "seconds")) and _are_rows(seed.get("learning", []))
            for seed in seeds.values()
        )
    )


def _has_numbers(values: Any, names: Iterable[str]) -> bool:
    return isinstance(values, dict) and all(isinstance(values.get(name), int | float) for name in names)


def _are_rows(values: Any) -> bool:
    """Whether these are validations: steps, seconds and recall of each."""
    return isinstance(values, list) and all(
        isinstance(row, list) and len(row) == 3 and all(isinstance(one, int | float) for one in row)
        for row in values
    )


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read: {reason_of(error)}; {ADVICE}") from None
    if not isinstance(found, dict):
        raise InputError(f"{path} cannot be read: it holds no object; {ADVICE}")
    if found.get("format", FORMAT) != FORMAT:  # settings of version 0.1.0 name none
        raise InputError(f"{path} has format {found['format']!r}; this version reads {FORMAT}")
    if found.pop(SUM, None) not in (None, _sum_of(found)):
        raise InputError(f"{path} is damaged: it is not what was written; {ADVICE}")
    return found


def _write_json(path: Path, values: Mapping[str, Any]) -> None:
    whole = json.loads(json.dumps({"format": FORMAT, **values}))  # as it will be read
    write_text(path, json.dumps({**whole, SUM: _sum_of(whole)}, indent=1) + "\n")


def _sum_of(values: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
