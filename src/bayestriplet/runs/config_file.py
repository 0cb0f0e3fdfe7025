"""config.toml: the options of a run. A file of options that somebody writes is read alike."""

import tomllib
from pathlib import Path
from typing import Any

import tomli_w

from bayestriplet.config import TrainConfig
from bayestriplet.errors import InputError

FORMAT = 1  # of config.toml, and of the tables in CSV beside it


def read_toml(path: Path) -> dict[str, Any]:
    """Return the options in a TOML file, without its format; that of a later version is refused."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path}: cannot be read as TOML: {error}") from None
    if (found := values.pop("format", FORMAT)) != FORMAT:  # version 0.1.0 wrote none
        raise InputError(f"{path} has format {found!r}; this version reads {FORMAT}")
    return values


def to_toml(config: TrainConfig) -> str:
    """Return the format and every option that has a value; None has no spelling and means the default."""
    values = {key: value for key, value in config.model_dump().items() if value is not None}
    return tomli_w.dumps({"format": FORMAT, **values})
