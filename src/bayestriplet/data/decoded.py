"""Decoded pixels of image files, kept in a folder so that the next run decodes nothing."""

import hashlib
import json
import os
import shutil
import time
import warnings
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, replace
from pathlib import Path

import numpy as np
import PIL
from numpy.typing import NDArray

from bayestriplet.atomic import replacing
from bayestriplet.data.dataset import LabelledImages
from bayestriplet.data.digests import crc_of
from bayestriplet.data.files import BATCH, Examined, examine, inspect_all
from bayestriplet.data.images import Inspection
from bayestriplet.data.listing import Listing
from bayestriplet.data.progress import Progress, report
from bayestriplet.errors import InputError, reason_of

FORMAT = 2
LIMIT = 8_000_000_000  # bytes of pixels
SHARE = 0.5  # of the free disk that they may take
PATIENCE, PAUSE = 2.0, 0.02  # seconds that another process gets to put its folder in place, between looks

Kept = tuple[list[Inspection], NDArray[np.uint8]]
_known: dict[Path, tuple[int, ...]] = {}
"""What was verified in this process: size, time and number of a file, and its sum."""


class _MadeMeanwhileError(Exception):
    """Another process has put the same folder in place."""


def examine_once(
    listing: Listing,
    seed: int,
    size: int | None,
    cache: Path,
    *,
    follow_links: bool = False,
    skip_bad: bool = False,
    progress: Progress | None = None,
) -> Examined:
    """Return what :func:`examine` does, with pixels that are memory-mapped from the folder ``cache``.

    Files are decoded only if the folder does not hold them as they are now, by path, length and time.
    What would take too much room is not kept, nor is a set with bad files unless ``skip_bad``.
    """
    folder = cache / _key(listing, size, follow_links)
    kept = _read(folder)
    if kept is not None and (examined := _with_pixels(listing, seed, size, kept)) is not None:
        return examined
    found = inspect_all(listing.paths, progress)
    examined = examine(listing, seed, size, found=found)
    if (examined.bad and not skip_bad) or not len(examined.images) or not _has_room(examined.images, cache):
        return examined
    _write(folder, examined.images, found, progress)
    kept = _wait_for(folder)
    return (_with_pixels(listing, seed, size, kept) if kept is not None else None) or examined


def _with_pixels(listing: Listing, seed: int, size: int | None, kept: Kept) -> Examined | None:
    """Return the set with the pixels that were kept; None if they are not its own."""
    found, pixels = kept
    if len(found) != len(listing.paths):
        return None
    examined = examine(listing, seed, size, found=found)
    images = examined.images
    if pixels.dtype != np.uint8 or pixels.shape != _shape(images):
        return None
    return replace(examined, images=replace(images, pixels=pixels))


def _shape(images: LabelledImages) -> tuple[int, int, int, int]:
    return len(images), images.size, images.size, images.channels


def _key(listing: Listing, size: int | None, follow_links: bool) -> str:
    """Return the name of the folder for these files as they are now."""
    side = size or listing.size
    key = hashlib.blake2b(digest_size=16)
    key.update(repr((FORMAT, PIL.__version__, side, follow_links, listing.invert)).encode())
    key.update(os.fsencode(listing.source.absolute()))
    for path in listing.paths:
        try:
            state = path.stat()
            what = (state.st_size, state.st_mtime_ns)
        except OSError:  # a bad file, as its inspection says
            what = (-1, -1)
        key.update(b"\0" + os.fsencode(path.absolute()) + repr(what).encode())
    return key.hexdigest()


def _has_room(images: LabelledImages, cache: Path) -> bool:
    """Whether the pixels are few enough to be kept in this folder, which is made."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(cache).free
    except OSError as error:
        raise InputError(f"{cache} cannot be written: {reason_of(error)}") from error
    return int(np.prod(_shape(images), dtype=np.int64)) <= min(LIMIT, SHARE * free)


def _write(folder: Path, images: LabelledImages, found: list[Inspection], progress: Progress | None) -> None:
    try:
        with replacing(folder, folder=True) as partial:
            _decode_into(partial / "pixels.npy", images, progress)
            _write_rows(partial, found)
            if _read(folder) is not None:
                raise _MadeMeanwhileError
    except _MadeMeanwhileError:
        return
    except InputError:  # also if another process was faster by less than a moment
        if _wait_for(folder) is None:
            raise


def _decode_into(path: Path, images: LabelledImages, progress: Progress | None) -> None:
    """Write all pixels of a set into one .npy file."""
    out = np.lib.format.open_memmap(path, mode="w+", dtype=np.uint8, shape=_shape(images))

    def decode(index: int) -> None:
        out[index] = images.read([index])[0]

    with warnings.catch_warnings(), ThreadPoolExecutor(os.cpu_count()) as pool:
        warnings.simplefilter("ignore")  # Pillow warns of odd tags in files it decodes well
        for start in range(0, len(images), BATCH):
            rows = range(start, min(start + BATCH, len(images)))
            for _ in pool.map(decode, rows):  # raises what a decoding raised
                pass
            report(progress, "keeping decoded images", rows.stop, len(images))
    out.flush()


def _write_rows(folder: Path, found: list[Inspection]) -> None:
    """Write what is known of the files, with checksums of that and of the pixels."""
    rows = json.dumps([astuple(one) for one in found])
    sums = {"rows_crc": zlib.crc32(rows.encode()), "pixels_crc": crc_of(folder / "pixels.npy")}
    (folder / "inspections.json").write_text(json.dumps({**sums, "rows": rows}), encoding="utf-8")


def _read(folder: Path) -> Kept | None:
    """Return what a folder holds; None if there is none, or not as it was written."""
    try:
        about = json.loads((folder / "inspections.json").read_text(encoding="utf-8"))
        if zlib.crc32(about["rows"].encode()) != about["rows_crc"]:
            return None
        found = [Inspection(*row) for row in json.loads(about["rows"])]
        if not _is_whole(folder / "pixels.npy", about["pixels_crc"]):
            return None
        return found, np.load(folder / "pixels.npy", mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, TypeError, LookupError, AttributeError, EOFError, RecursionError):
        return None


def _is_whole(path: Path, crc: int) -> bool:
    """Return whether a file has this sum; it is read once in a process, and again after a change."""
    about = path.stat()
    seen = about.st_size, about.st_mtime_ns, about.st_ino, crc
    if _known.get(path) != seen:
        if crc_of(path) != crc:
            return False
        _known[path] = seen
    return True


def _wait_for(folder: Path) -> Kept | None:
    """Return what a folder holds, which another process may be replacing by the same at this moment."""
    end = time.monotonic() + PATIENCE
    while (kept := _read(folder)) is None and time.monotonic() < end:
        time.sleep(PAUSE)
    return kept
