"""Vectors of images: from an encoder, or their raw pixels."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from bayestriplet.data.dataset import LabelledImages
from bayestriplet.data.images import to_unit
from bayestriplet.data.progress import Progress, report
from bayestriplet.data.vectors import LabelledFeatures
from bayestriplet.model.encoder import Encoder, HeadEncoder

BATCH = 256


@dataclass(frozen=True)
class Embedded:
    """Embeddings (n, D) of some items with their labels (n,)."""

    vectors: NDArray[np.float32]
    labels: NDArray[np.int64]
    groups: NDArray[np.str_] | None = None
    """(n,) empty where an item has none; None where they are not known."""

    def take(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> "Embedded":
        """Return some of the items."""
        groups = None if self.groups is None else self.groups[rows]
        return Embedded(self.vectors[rows], self.labels[rows], groups)


class _Images(Dataset[Tensor]):
    """Images of a set as tensors (C, H, W) in 0 .. 1, read a batch at a time."""

    def __init__(self, images: LabelledImages, indices: NDArray[np.int64]) -> None:
        self.images, self.indices = images, indices

    def __len__(self) -> int:
        return len(self.indices)

    def __getitems__(self, rows: list[int]) -> Tensor:
        return to_tensor(self.images.read(self.indices[rows].tolist()))


def to_tensor(pixels: NDArray[Any]) -> Tensor:
    """Return pixels (b, H, W, C) as a float tensor (b, C, H, W) in 0 .. 1; features (b, F) as they are."""
    if pixels.ndim == 2:
        return torch.from_numpy(np.array(pixels, np.float32))
    return torch.from_numpy(to_unit(pixels)).permute(0, 3, 1, 2)


def image_batches(
    images: LabelledImages, indices: NDArray[np.int64], workers: int = 0, batch: int = BATCH
) -> Iterator[Tensor]:
    """Yield the images at ``indices`` in order, in batches, decoded in worker processes."""
    number = 0 if isinstance(images, LabelledFeatures) else workers  # nothing is decoded
    loader: DataLoader[Tensor] = DataLoader(
        _Images(images, indices), batch_size=batch, num_workers=number, collate_fn=as_it_is
    )
    yield from loader


def as_it_is(batch: Any) -> Any:
    """Collate a batch that was fetched whole."""
    return batch


@torch.no_grad()
def embed(
    encoder: Encoder | HeadEncoder,
    images: LabelledImages,
    indices: NDArray[np.int64],
    workers: int = 0,
    progress: Progress | None = None,
    what: str = "Embedding",
) -> NDArray[np.float32]:
    """Return the embeddings (n, D) of the images at ``indices``; the encoder is used in eval mode."""
    device = next(encoder.parameters()).device
    was_training = encoder.training
    encoder.eval()
    parts: list[NDArray[np.float32]] = []
    for batch in image_batches(images, indices, workers):
        parts.append(encoder(batch.to(device)).float().cpu().numpy())
        report(progress, what, min(len(parts) * BATCH, len(indices)), len(indices))
    encoder.train(was_training)
    return np.concatenate(parts) if parts else np.zeros((0, encoder.info.dim), np.float32)


def raw_pixels(
    images: LabelledImages,
    indices: NDArray[np.int64],
    workers: int = 0,
    progress: Progress | None = None,
    what: str = "Reading",
) -> NDArray[np.float32]:
    """Return the pixels (n, side * side * C) of the images, shrunk to a side of at most 32."""
    images = images.as_images()
    side = min(images.size, 32)
    out = np.empty((len(indices), side * side * images.channels), np.float32)
    done = 0
    for batch in image_batches(images, indices, workers):
        if images.size > side:
            batch = nn.functional.interpolate(batch, size=(side, side), mode="area")
        out[done : done + len(batch)] = batch.flatten(1).numpy()
        done += len(batch)
        report(progress, what, done, len(indices))
    return out


def pixel_statistics(
    images: LabelledImages, indices: NDArray[np.int64], workers: int = 0, most: int = 20_000
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and deviation of every channel in 0 .. 1, over at most ``most`` evenly spread images."""
    chosen = indices[:: max(1, -(-len(indices) // most))]
    total, squares = torch.zeros(2, images.channels, dtype=torch.float64)
    number = 0
    for batch in image_batches(images, chosen, workers):
        values = batch.double()
        total, squares = total + values.sum((0, 2, 3)), squares + values.square().sum((0, 2, 3))
        number += values.numel() // images.channels
    mean = total / number
    deviation = (squares / number - mean.square()).clamp_min(1e-6).sqrt()
    return tuple(mean.tolist()), tuple(deviation.tolist())
