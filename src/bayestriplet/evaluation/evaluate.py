"""The evaluation of a run: its embedding beside raw pixels and the untrained network."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bayestriplet.data.dataset import LabelledImages
from bayestriplet.data.progress import Progress
from bayestriplet.errors import InputError
from bayestriplet.evaluation.bootstrap import Scores
from bayestriplet.evaluation.embeddings import embed, raw_pixels
from bayestriplet.evaluation.metrics import retrieval_scores
from bayestriplet.evaluation.weights import find_weights
from bayestriplet.model.encoder import Encoder, HeadEncoder

Vectors = Callable[["ItemSet"], NDArray[np.float32]]


@dataclass(frozen=True)
class ItemSet:
    """Some items of a data set, with labels in the classes of the run."""

    images: LabelledImages
    indices: NDArray[np.int64]
    labels: NDArray[np.int64]


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
    return ItemSet(images, indices, number[images.labels[indices]])


def evaluate(
    encoder: Encoder | HeadEncoder,
    queries: ItemSet,
    gallery: ItemSet | None = None,
    *,
    workers: int = 0,
    seed: int = 0,
    name: str = "trained",
    floors: bool = True,
    weights: str | None = None,
    progress: Progress | None = None,
) -> dict[str, Scores]:
    """Return the scores of the encoder and, as floors, of an untrained one of its kind and of raw pixels.

    The untrained one begins as the training did: with the official ``weights``, if it had them. For the
    head of a frozen network the floor is what it starts from: the features themselves, on the sphere.
    """

    def with_encoder(network: Encoder | HeadEncoder, what: str) -> Vectors:
        return lambda items: embed(network, items.images, items.indices, workers, progress, what)

    rows: dict[str, Vectors] = {name: with_encoder(encoder, "Embedding")}
    if floors and isinstance(encoder, HeadEncoder):
        rows["frozen features"] = lambda items: _unit(items.images.read(items.indices))
    elif floors:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            untrained = Encoder(encoder.info, find_weights(encoder.info.backbone, weights, progress))
        rows["untrained"] = with_encoder(untrained, "Embedding, untrained")
    if floors:
        rows["raw pixels"] = lambda items: raw_pixels(items.images, items.indices, workers)
    out = {}
    for row, vectors in rows.items():
        among, labels = (None, None) if gallery is None else (vectors(gallery), gallery.labels)
        out[row] = retrieval_scores(
            vectors(queries), queries.labels, gallery=among, gallery_labels=labels, seed=seed
        )
    return out


def _unit(vectors: NDArray[Any]) -> NDArray[np.float32]:
    """Return vectors (n, F) of length 1."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
