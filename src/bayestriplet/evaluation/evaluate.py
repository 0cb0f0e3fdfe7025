"""What a run is measured with: items, and their vectors by its network, raw pixels and the untrained one."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bayestriplet.data.dataset import LabelledImages
from bayestriplet.data.progress import Progress
from bayestriplet.errors import InputError
from bayestriplet.evaluation.embeddings import embed, raw_pixels
from bayestriplet.evaluation.encoders import load_encoder
from bayestriplet.evaluation.weights import find_weights
from bayestriplet.model.encoder import Encoder, HeadEncoder
from bayestriplet.runs.folder import RunFolder

Vectors = Callable[["ItemSet"], NDArray[np.float32]]
WORDS = {"train": "training items", "val": "validation items", "test": "test items", "all": "items"}


@dataclass(frozen=True)
class ItemSet:
    """Some items of a data set, with labels in the classes of the run."""

    images: LabelledImages
    indices: NDArray[np.int64]
    labels: NDArray[np.int64]
    split: str = "all"

    @property
    def words(self) -> str:
        """What they are called, such as "test items"."""
        return WORDS[self.split]

    @property
    def groups(self) -> NDArray[np.str_]:
        """The group (n,) of every item, empty where it has none."""
        groups = self.images.groups
        return np.full(len(self.indices), "") if groups is None else groups[self.indices]


def select_items(images: LabelledImages, split: str, encoder: Encoder | HeadEncoder) -> ItemSet:
    """Return the items of a split, checked to suit the encoder; labels by the encoder's class names first."""
    info = encoder.info
    if images.channels != info.channels:
        raise InputError(
            f"{images.name} has {images.channels} channels; the run was trained on {info.channels}"
        )
    indices = images.indices(split)
    if not len(indices):
        raise InputError(f"{images.name} has no items in split {split!r}")
    names = [*info.classes, *(name for name in images.classes if name not in info.classes)]
    number = np.array([names.index(name) for name in images.classes], dtype=np.int64)
    return ItemSet(images, indices, number[images.labels[indices]], split)


def embedders(
    encoder: Encoder | HeadEncoder,
    *,
    workers: int = 0,
    seed: int = 0,
    name: str = "trained",
    floors: bool = True,
    weights: str | None = None,
    begun: str | None = None,
    progress: Progress | None = None,
) -> dict[str, Vectors]:
    """Return what embeds items: the encoder and, as floors, an untrained one of its kind and raw pixels.

    The untrained one begins as the training did: with the official ``weights``, if it had them. For the
    head of a frozen network the floor is what it starts from: the features themselves, on the sphere. For
    a network that was frozen before, it is the run that it has ``begun`` with, as long as that is there.
    """
    rows: dict[str, Vectors] = {name: embed_with(encoder, workers, progress)}
    if floors and isinstance(encoder, HeadEncoder):
        rows["vectors as given" if encoder.info.inputs else "frozen features"] = lambda items: _unit(
            items.images.read(items.indices)
        )
    elif floors and begun is not None:
        if RunFolder(Path(begun)).model.is_file():
            frozen = load_encoder(RunFolder(Path(begun)).model)
            rows["frozen"] = embed_with(frozen, workers, progress, ", frozen")
    elif floors:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            untrained = Encoder(encoder.info, find_weights(encoder.info.backbone, weights, progress))
        rows["untrained"] = embed_with(untrained, workers, progress, ", untrained")
    if floors and not encoder.info.inputs:
        rows["raw pixels"] = lambda items: raw_pixels(
            items.images, items.indices, workers, progress, f"Reading {items.words}"
        )
    return rows


def embed_with(
    network: Encoder | HeadEncoder, workers: int, progress: Progress | None = None, more: str = ""
) -> Vectors:
    """Return what embeds items with a network; ``more`` says in the progress which one that is."""
    return lambda items: embed(
        network, items.images, items.indices, workers, progress, f"Embedding {items.words}{more}"
    )


def remember(vectors: Vectors) -> Vectors:
    """Return what embeds items in the same way, but the same items only once."""
    known: dict[tuple[int, bytes], tuple[LabelledImages, NDArray[np.float32]]] = {}

    def embed_once(items: ItemSet) -> NDArray[np.float32]:
        key = id(items.images), items.indices.tobytes()
        if key not in known:
            known[key] = items.images, vectors(items)  # the images stay, so their id is not used again
        return known[key][1]

    return embed_once


def _unit(vectors: NDArray[Any]) -> NDArray[np.float32]:
    """Return vectors (n, F) of length 1."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
