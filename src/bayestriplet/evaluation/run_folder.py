"""A run on disk: what it holds, and how its files are written and read."""

import csv
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bayestriplet.config import TrainConfig, make_config, read_toml, write_toml
from bayestriplet.data.dataset import LabelledImages
from bayestriplet.errors import InputError

FORMAT = 1


class RunFolder:
    """The files of a run. Every file is written under another name first and then moved into place."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.toml"
        self.splits = path / "splits.csv"
        self.metrics = path / "metrics.csv"
        self.results = path / "results.json"
        self.model = path / "model.safetensors"
        self.posterior = path / "posterior.safetensors"
        self.predictive = path / "predictive.safetensors"
        self.encoder = path / "encoder.onnx"
        self.checkpoint = path / "last.ckpt"

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        """Return a run that exists and has a model."""
        run = cls(path)
        if not path.is_dir():
            raise InputError(f"{path}: no such run; `bayestriplet train DATA --out {path}` makes one")
        if not run.config.is_file() or not run.model.is_file():
            raise InputError(f"{path} holds no finished run: it has no {run.model.name}")
        return run

    @classmethod
    def create(cls, path: Path) -> "RunFolder":
        """Make an empty folder for a new run, refusing one that holds anything."""
        check_free(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{path} cannot be used for a run: {error.strerror}") from None
        return cls(path)

    def read_config(self) -> TrainConfig:
        """Return the options of the run."""
        return make_config(read_toml(self.config), str(self.config))

    def write_config(self, config: TrainConfig) -> None:
        write_whole(self.config, lambda path: write_toml(config, path))

    def write_splits(self, images: LabelledImages) -> None:
        """Write down which item is in which split."""

        def write(path: Path) -> None:
            with path.open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                writer.writerow(["id", "label", "split"])
                names = (images.classes[k] for k in images.labels)
                writer.writerows(zip(images.ids, names, images.splits, strict=True))

        write_whole(self.splits, write)

    def write_results(self, results: dict[str, Any]) -> None:
        text = json.dumps({"format": FORMAT, **results}, indent=1) + "\n"
        write_whole(self.results, lambda path: path.write_text(text, encoding="utf-8"))

    def read_results(self) -> dict[str, Any]:
        """Return the results of the run."""
        try:
            results = json.loads(self.results.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"{self.results} cannot be read: {error}") from None
        if not isinstance(results, dict) or results.get("format") != FORMAT:
            raise InputError(f"{self.results} is not of format {FORMAT}, which this version reads")
        return results


def check_free(path: Path) -> None:
    """Raise where a new run would get in the way of something."""
    try:
        taken = path.exists() and any(path.iterdir())
    except OSError as error:
        raise InputError(f"{path} cannot be used for a run: {error.strerror}") from None
    if taken:
        raise InputError(f"{path} is not empty: choose another --out, or go on with --resume {path}")


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file completely or not at all."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        write(partial)
        partial.chmod(0o644)  # some writers keep files private; a run is for anyone
        partial.replace(path)
    except Exception as error:
        if isinstance(error, OSError) or type(error).__name__ == "SafetensorError":
            raise InputError(
                f"{path} cannot be written: {getattr(error, 'strerror', None) or error}"
            ) from None
        raise
    finally:
        partial.unlink(missing_ok=True)
