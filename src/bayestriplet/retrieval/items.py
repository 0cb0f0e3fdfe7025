"""What an index holds of an item, and what a search finds."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]


class Item(NamedTuple):
    """An indexed image without its vector; an unknown label, path or group is empty."""

    id: str
    label: str
    path: str
    group: str
    source: str
    """Name of the set it came with."""
    hash: str
    """Of its pixels as the encoder sees them: the same picture has the same, in whatever file."""


FIELDS = Item._fields


@dataclass(frozen=True, eq=False)
class Rows:
    """Items to be stored."""

    items: tuple[Item, ...]
    vectors: Vectors
    """(n, D)"""
    thumbnails: tuple[bytes, ...]


class Stored(NamedTuple):
    """An item and its vector."""

    item: Item
    vector: Vectors
    """(D,)"""


class Hit(NamedTuple):
    """A stored item and its Euclidean distance to a query."""

    item: Item
    distance: float
