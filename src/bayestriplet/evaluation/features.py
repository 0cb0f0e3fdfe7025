"""Features of a frozen network: computed once per image and weights, kept on disk, resumed after a stop."""

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path

import filelock
import numpy as np
import torch
from numpy.typing import NDArray

from bayestriplet.atomic import replacing, write_text
from bayestriplet.data.augment import augment
from bayestriplet.data.dataset import LabelledImages
from bayestriplet.data.digests import digests_of
from bayestriplet.data.download import cache_folder
from bayestriplet.data.progress import Progress, report
from bayestriplet.data.vectors import LabelledFeatures, LabelledVectors
from bayestriplet.errors import BayesTripletError, DataError
from bayestriplet.evaluation.embeddings import BATCH, image_batches
from bayestriplet.model.encoder import Encoder
from bayestriplet.runs.encoder_files import fingerprint

FORMAT = 2
VIEWS = 4  # of a training image whose variations are wanted: as it is, and three varied
PART = 64  # images between two notes of how far it is


def with_features(
    encoder: Encoder, images: LabelledImages, views: int, workers: int = 0, progress: Progress | None = None
) -> LabelledFeatures:
    """Return the set with the features of all its images, read from the cache where they are known.

    Vectors that came without images are the features themselves.
    """
    if isinstance(images, LabelledVectors):
        return images
    folder = cache_folder() / "features" / _key(encoder, images, views)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(folder.with_suffix(".lock")):  # two trainings at once compute them once
            if not (folder / "features.npy").is_file():
                _compute(encoder, images, views, folder, workers, progress)
    except OSError as error:
        raise DataError(f"features cannot be kept in {folder.parent}: {error}") from None
    try:
        features = np.load(folder / "features.npy", mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise DataError(
            f"{folder} cannot be read: {error}; delete it, and features are computed anew"
        ) from None
    return LabelledFeatures.of(images, features)


def _key(encoder: Encoder, images: LabelledImages, views: int) -> str:
    """Return a name for the features: of the network, the form of its input, and every image's content."""
    backbone = {name: value for name, value in encoder.arrays().items() if name.startswith("backbone.")}
    plain = replace(encoder.info, classes=(), dim=1, head="linear", normalize=True)
    form = images.size, images.channels, images.bits, images.kind if views > 1 else "", views, FORMAT
    digest = hashlib.sha256(f"{fingerprint(plain, backbone)} {form}{' inverted' * images.invert}".encode())
    if images.digests is not None:
        digest.update("\n".join(map(str, images.digests)).encode())
    else:
        for start in range(0, len(images), BATCH):
            pixels = images.read(np.arange(start, min(start + BATCH, len(images))))
            digest.update(digests_of(pixels).tobytes())
    return digest.hexdigest()[:32]


def _compute(
    encoder: Encoder,
    images: LabelledImages,
    views: int,
    folder: Path,
    workers: int,
    progress: Progress | None,
) -> None:
    """Write features.npy (n, V, F), going on where an earlier call was stopped."""
    partial, note = folder.with_name(f"{folder.name}.partial"), folder.with_name(f"{folder.name}.json")
    try:
        done = json.loads(note.read_text())["done"] if note.is_file() and partial.is_file() else 0
        length = _length(encoder)
        mode = "r+" if done else "w+"
        table = np.lib.format.open_memmap(partial, mode, np.float32, (len(images), views, length))
        _fill(encoder, images, table, done, note, workers, progress)
        table.flush()
        del table
        with replacing(folder, folder=True) as whole:
            shutil.move(partial, whole / "features.npy")
        note.unlink(missing_ok=True)
    except (OSError, ValueError, KeyError) as error:
        if isinstance(error, BayesTripletError):
            raise
        raise DataError(f"features cannot be kept in {folder.parent}: {error}") from None


@torch.no_grad()
def _fill(
    encoder: Encoder, images: LabelledImages, table: NDArray[np.float32], done: int, note: Path,
    workers: int, progress: Progress | None,
) -> None:  # fmt: skip
    """Compute the rows from ``done`` on."""
    rows = np.arange(done, len(images))
    encoder.eval()
    for batch in image_batches(images, rows, workers, PART):
        part = slice(done, done + len(batch))
        for view in range(table.shape[1]):
            generator = torch.Generator().manual_seed(1_000_003 * view + done)
            varied = augment(batch, images.kind, generator) if view else batch
            table[part, view] = encoder.describe(varied).numpy()
        done += len(batch)
        write_text(note, json.dumps({"done": done}))
        report(progress, "Computing features", done, len(images))


def _length(encoder: Encoder) -> int:
    info = encoder.info
    with torch.no_grad():
        return int(encoder.eval().describe(torch.zeros(1, info.channels, info.size, info.size)).shape[1])
