"""The folder of a comparison: what it is for, what was found, and every run."""

import contextlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bayestriplet.atomic import write_text
from bayestriplet.errors import InputError, reason_of
from bayestriplet.runs.folder import RunFolder
from bayestriplet.runs.lock import is_taken

FORMAT = 1
ADVICE = "delete it and run the comparison again"


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
        return known["floors"] if known.get("run") == run else None


def _is_whole(summary: Mapping[str, Any]) -> bool:
    methods = summary.get("methods")
    return (
        isinstance(methods, dict)
        and bool(methods)
        and all(
            isinstance(entry, dict) and entry.get("seeds") and "chosen" in entry for entry in methods.values()
        )
        and isinstance(summary.get("floors"), dict)
        and isinstance(summary.get("settings"), dict)
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
    return found


def _write_json(path: Path, values: Mapping[str, Any]) -> None:
    write_text(path, json.dumps({"format": FORMAT, **values}, indent=1) + "\n")
