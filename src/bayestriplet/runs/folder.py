"""A run on disk: what it holds, its options, and its results."""

import json
from pathlib import Path
from typing import Any

from bayestriplet.config import TrainConfig, make_config
from bayestriplet.errors import InputError
from bayestriplet.methods import GONE
from bayestriplet.runs.checksums import record_text, verify
from bayestriplet.runs.config_file import read_toml, to_toml
from bayestriplet.runs.lock import is_taken

FORMAT = 1


class RunFolder:
    """The files of a run. Each is written completely or not at all."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.toml"
        self.splits = path / "splits.csv"
        self.metrics = path / "metrics.csv"
        self.results = path / "results.json"
        self.model = path / "model.safetensors"
        self.posterior = path / "posterior.safetensors"
        self.predictive = path / "predictive.safetensors"
        self.teaching = path / "teaching.safetensors"
        self.taught = path / "taught.safetensors"
        self.encoder = path / "encoder.onnx"
        self.backbone = path / "backbone.onnx"  # of a run whose backbone is an ONNX file
        self.checkpoint = path / "last.ckpt"

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        """Return a run that exists and has a model."""
        run = cls.find(path)
        if not run.config.is_file() or not run.model.is_file():
            raise InputError(f"{path} holds no finished run: it has no {run.model.name}")
        return run

    @classmethod
    def find(cls, path: Path) -> "RunFolder":
        """Return a run whose folder exists."""
        if not path.is_dir():
            raise InputError(f"{path}: no such run; `bayestriplet train DATA --out {path}` makes one")
        return cls(path)

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
        """Return the options of the run, without those that only earlier versions had."""
        verify(self.config)
        values = {key: value for key, value in read_toml(self.config).items() if key not in GONE}
        return make_config(values, str(self.config))

    def write_config(self, config: TrainConfig) -> None:
        record_text(self.config, to_toml(config))

    def write_results(self, results: dict[str, Any]) -> None:
        record_text(self.results, json.dumps({"format": FORMAT, **results}, indent=1) + "\n")

    def read_results(self) -> dict[str, Any]:
        """Return the results of the run."""
        verify(self.results)
        try:
            results = json.loads(self.results.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise InputError(f"{self.results} cannot be read: {error}") from None
        if not isinstance(results, dict) or results.get("format") != FORMAT:
            raise InputError(f"{self.results} is not of format {FORMAT}, which this version reads")
        if not isinstance(results.get("status"), str):
            raise InputError(f"{self.results} does not say how the run ended: it has no status")
        return results


def check_begun(path: Path) -> None:
    """Raise where a training has left nothing to go on with, or options that are damaged."""
    if not RunFolder(path).config.is_file():
        raise InputError(f"{path} holds no run to resume: start one with --out")
    verify(RunFolder(path).config)


def check_free(path: Path) -> None:
    """Raise where a new run would get in the way of something."""
    try:
        taken = path.exists() and is_taken(path)
    except OSError as error:
        raise InputError(f"{path} cannot be used for a run: {error.strerror}") from None
    if taken:
        raise InputError(f"{path} is not empty: choose another --out, or go on with --resume {path}")
