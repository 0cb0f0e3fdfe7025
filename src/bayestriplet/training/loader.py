"""Training batches: read, made into tensors and varied in worker processes."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from bayestriplet.config import TrainConfig
from bayestriplet.data.augment import augment
from bayestriplet.data.batches import Batches
from bayestriplet.data.dataset import LabelledImages
from bayestriplet.data.vectors import LabelledFeatures
from bayestriplet.errors import InputError, ProcessError, reason_of
from bayestriplet.evaluation.embeddings import as_it_is, to_tensor

Batch = tuple[Tensor, Tensor]


class TrainingImages(Dataset[Batch]):
    """The training split; a batch is fetched whole, with variations that depend on the seed and its items.

    Labels are numbers among the classes that are trained on, which are all that a criterion knows of.
    """

    def __init__(self, images: LabelledImages, seed: int, vary: bool) -> None:
        self.images, self.seed, self.vary = images, seed, vary
        self.indices = images.indices("train")
        self.classes, self.labels = np.unique(images.labels[self.indices], return_inverse=True)

    def __len__(self) -> int:
        return len(self.indices)

    def __getitems__(self, rows: list[int]) -> Batch:
        items = self.indices[rows].tolist()
        if isinstance(self.images, LabelledFeatures):
            rng = np.random.default_rng([self.seed, *rows])
            features = self.images.read_views(items, rng) if self.vary else self.images.read(items)
            return to_tensor(features), torch.from_numpy(self.labels[rows])
        pixels = to_tensor(self.images.read(items))
        if self.vary and rows:
            entropy = np.random.SeedSequence([self.seed, *rows]).generate_state(1, np.uint64)[0]
            generator = torch.Generator().manual_seed(int(entropy >> np.uint64(1)))
            pixels = augment(pixels, self.images.kind, generator)
        return pixels, torch.from_numpy(self.labels[rows])


def make_loader(images: TrainingImages, batches: Batches, config: TrainConfig) -> DataLoader[Batch]:
    """Return the loader of the batches that are still to come."""
    workers = 0 if isinstance(images.images, LabelledFeatures) else config.workers or 0
    return DataLoader(
        images,
        batch_sampler=batches,
        num_workers=workers,
        persistent_workers=workers > 0,
        prefetch_factor=4 if workers else None,
        collate_fn=as_it_is,
        generator=torch.Generator(),  # its own, so that the criterion's draws do not depend on the loader
    )


def explain(error: OSError | RuntimeError, folder: Path) -> Exception:
    """Return what an error of a training in this folder means: a loading process died, or a full disk."""
    if isinstance(error, ConnectionError) or "DataLoader worker" in str(error):
        return ProcessError("a process that loads images was killed; fewer --workers need less memory")
    if isinstance(error, OSError):
        return InputError(f"{folder} cannot be written: {reason_of(error)}")
    return error
