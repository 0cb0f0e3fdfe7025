"""posterior.safetensors: count, mean and scatter of every class, and the prior they are read with."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from bayestriplet.errors import InputError
from bayestriplet.runs.tensors import Tensors, check_format, read_tensors, write_tensors

FORMAT = "1"


@dataclass(frozen=True, eq=False)
class SavedPosterior:
    """The state of a class posterior, without the root that draws are made from."""

    classes: tuple[str, ...]
    prior: str
    state: Tensors

    @property
    def dim(self) -> int:
        """D, the length of an embedding."""
        return int(self.state["item_mean"].shape[1])


def write_posterior(
    path: Path, classes: tuple[str, ...], prior: str, state: Mapping[str, NDArray[Any]]
) -> None:
    """Write the statistics of a posterior's state."""
    tensors = {name: value for name, value in state.items() if not name.startswith("root.")}
    write_tensors(path, tensors, {"format": FORMAT, "prior": prior, "classes": "\n".join(classes)})


def read_posterior(path: Path) -> SavedPosterior:
    """Read the posterior.safetensors of a run."""
    run = path.parent
    if not path.is_file():
        raise InputError(f"{path} is missing: go on with `bayestriplet train --resume {run}`, or train again")
    again = f"train again with --config {run / 'config.toml'}"
    try:
        state, metadata = read_tensors(path, "a posterior")
    except InputError as error:
        raise InputError(f"{error}: {again}") from None
    check_format(path, metadata, (FORMAT,))
    number = len(state["item_mean"]) if "item_mean" in state and state["item_mean"].ndim == 2 else -1
    classes = tuple(metadata.get("classes", "").split("\n"))
    if len(classes) != number:
        raise InputError(f"{path} is not a posterior of {len(classes)} classes: {again}")
    return SavedPosterior(classes, metadata.get("prior", "empirical"), state)
