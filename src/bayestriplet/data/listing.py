"""What a folder or a manifest says is there, before any image is opened."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Listing:
    """Files with their labels, and splits and groups where the source names them."""

    name: str
    source: Path
    """The folder or the manifest, for messages."""
    classes: tuple[str, ...]
    paths: tuple[Path, ...]
    ids: tuple[str, ...]
    labels: NDArray[np.int64]
    splits: NDArray[np.str_] | None = None
    is_divided: bool = False
    """Whether these splits are final: one that is missing is not taken from train."""
    groups: NDArray[np.str_] | None = None
    ignored: int = 0
    """Hidden files, other file types and links that leave the folder."""
    links: int = 0
    """How many of these are links that leave the folder."""
    kind: str = "photo"
    size: int | None = None
    """The side to use unless another is wanted; None: from the images."""
    invert: bool = False
    """Whether the files show dark on light what is to be read as light on dark."""
