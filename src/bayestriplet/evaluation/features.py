"""Features of a frozen network: computed once per image and weights, kept on disk, resumed after a stop."""

import hashlib
import json
import shutil
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import filelock
import numpy as np
import torch

from bayestriplet.atomic import replacing, write_text
from bayestriplet.data.augment import augment
from bayestriplet.data.dataset import LabelledImages
from bayestriplet.data.digests import crc_of, digests_of
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

Table = np.memmap[Any, np.dtype[np.float32]]


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
            if not _is_whole(folder):
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
        shape = (len(images), views, _length(encoder))
        done, table = _go_on(partial, note, shape)
        _fill(encoder, images, table, done, note, workers, progress)
        table.flush()
        del table
        with replacing(folder, folder=True) as whole:
            shutil.move(partial, whole / "features.npy")
            write_text(whole / "sum.json", json.dumps({"crc": crc_of(whole / "features.npy")}))
        note.unlink(missing_ok=True)
    except (OSError, ValueError, KeyError) as error:
        if isinstance(error, BayesTripletError):
            raise
        raise DataError(f"features cannot be kept in {folder.parent}: {error}") from None


def _is_whole(folder: Path) -> bool:
    """Return whether the features are there as they were written; earlier versions wrote no sum."""
    path, note = folder / "features.npy", folder / "sum.json"
    if not path.is_file():
        return False
    try:
        return not note.is_file() or bool(json.loads(note.read_text())["crc"] == crc_of(path))
    except (ValueError, TypeError, KeyError, RecursionError):
        return False


def _go_on(partial: Path, note: Path, shape: tuple[int, int, int]) -> tuple[int, Table]:
    """Return how many rows are there already, and the table for all; what was damaged begins again."""
    try:
        about = json.loads(note.read_text())
        done = int(about["done"])
        table = np.lib.format.open_memmap(partial, "r+")
        whole = table.shape == shape and table.dtype == np.float32 and 0 < done <= len(table)
        if whole and zlib.crc32(table[:done].data) == about["crc"]:
            return done, table
    except Exception:  # noqa: S110  # whatever a damaged file makes of it
        pass
    return 0, np.lib.format.open_memmap(partial, "w+", np.float32, shape)


@torch.no_grad()
def _fill(
    encoder: Encoder, images: LabelledImages, table: Table, done: int, note: Path,
    workers: int, progress: Progress | None,
) -> None:  # fmt: skip
    """Compute the rows from ``done`` on."""
    rows, crc = np.arange(done, len(images)), zlib.crc32(table[:done].data)
    encoder.eval()
    for batch in image_batches(images, rows, workers, PART):
        part = slice(done, done + len(batch))
        for view in range(table.shape[1]):
            generator = torch.Generator().manual_seed(1_000_003 * view + done)
            varied = augment(batch, images.kind, generator) if view else batch
            table[part, view] = encoder.describe(varied).numpy()
        crc = zlib.crc32(table[part].data, crc)
        done += len(batch)
        write_text(note, json.dumps({"done": done, "crc": crc}))
        report(progress, "Computing features", done, len(images))


def _length(encoder: Encoder) -> int:
    info = encoder.info
    with torch.no_grad():
        return int(encoder.eval().describe(torch.zeros(1, info.channels, info.size, info.size)).shape[1])
