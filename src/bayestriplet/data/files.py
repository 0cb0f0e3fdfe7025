"""Image files of a folder or a manifest: every one checked, then made a set."""

import os
import warnings
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bayestriplet.data.dataset import LabelledImages
from bayestriplet.data.depth import bits_for
from bayestriplet.data.images import Inspection, inspect
from bayestriplet.data.listing import Listing
from bayestriplet.data.progress import Progress, report
from bayestriplet.data.splits import SHARES, assign_splits, complete_splits
from bayestriplet.errors import DataError

BATCH = 256  # files between two reports of progress
SMALLEST, LARGEST = 28, 224  # sides chosen without being asked
SHOWN = 10  # bad files a message names


@dataclass(frozen=True)
class Examined:
    """A set of the good files, and what was seen on the way."""

    images: LabelledImages
    bad: tuple[tuple[str, str], ...] = ()
    """(id, problem) of the files left out."""
    ignored: int = 0
    seen: tuple[tuple[str, int], ...] = ()
    """Sizes and modes with how often they occur, most frequent first."""
    links: int = 0
    """How many of the ignored are links that leave the folder."""


def examine(
    listing: Listing,
    seed: int,
    size: int | None,
    progress: Progress | None = None,
    *,
    found: Sequence[Inspection] | None = None,
) -> Examined:
    """Return the set of the good files; a class may be left without any.

    Every file is decoded once, unless what :func:`inspect_all` ``found`` is known.
    """
    inspections = inspect_all(listing.paths, progress) if found is None else found
    bad = tuple((listing.ids[i], one.problem) for i, one in enumerate(inspections) if one.problem)
    seen = Counter(f"{one.width} x {one.height} {one.mode}" for one in inspections if not one.problem)
    images = _take_good(listing, inspections, seed, size)
    return Examined(images, bad, listing.ignored, tuple(seen.most_common()), listing.links)


def _take_good(
    listing: Listing, inspections: Sequence[Inspection], seed: int, size: int | None
) -> LabelledImages:
    """Return the set of the files without a problem, split."""
    good = [i for i, one in enumerate(inspections) if one.problem is None]
    kept = [inspections[i] for i in good]
    images = LabelledImages(
        name=listing.name,
        classes=listing.classes,
        labels=listing.labels[good],
        splits=np.full(len(good), "train", dtype="<U5"),
        ids=tuple(listing.ids[i] for i in good),
        channels=1 if kept and all(one.grey for one in kept) else 3,
        size=size or listing.size or _choose_size(kept),
        kind=listing.kind,
        groups=None if listing.groups is None else listing.groups[good],
        paths=tuple(listing.paths[i] for i in good),
        bits=bits_for(max((one.most for one in kept), default=0)),
        digests=np.array([one.digest for one in kept], dtype=np.uint64),
        invert=listing.invert,
    )
    given = None if listing.splits is None else listing.splits[good]
    if given is not None and listing.is_divided:
        return replace(images, splits=given)
    return split_items(images, given, seed, listing.source)


def take_listed(listing: Listing, size: int, channels: int, *, bits: int = 16) -> LabelledImages:
    """Return the set of all files, unopened: a bad one is an error when it is read. All are in train."""
    return LabelledImages(
        name=listing.name,
        classes=listing.classes,
        labels=listing.labels,
        splits=np.full(len(listing.ids), "train", dtype="<U5"),
        ids=listing.ids,
        channels=channels,
        size=size,
        kind=listing.kind,
        groups=listing.groups,
        paths=listing.paths,
        bits=bits,
        invert=listing.invert,
    )


def leave_out_bad(images: LabelledImages, progress: Progress | None = None) -> LabelledImages:
    """Return the set of those files that can be read; every one is decoded."""
    found = inspect_all(images.paths or (), progress)
    good = np.flatnonzero([one.problem is None for one in found]).astype(np.int64)
    if not len(good):
        raise DataError(f"{images.name}: every image is bad, {images.ids[0]} {found[0].problem}")
    return images.subset(good)


def check_examined(examined: Examined, source: Path, skip_bad: bool) -> LabelledImages:
    """Return the set if no file is bad, or if the bad ones may be left out and every class has others."""
    bad, images = examined.bad, examined.images
    if bad and not skip_bad:
        listed = "; ".join(f"{name} {problem}" for name, problem in bad[:SHOWN])
        more = "; ..." if len(bad) > SHOWN else ""
        total = len(bad) + len(images)
        raise DataError(
            f"{source} has {len(bad)} bad file{'s' * (len(bad) > 1)} of {total}: {listed}{more}. "
            f"Replace or remove them, or leave them out with --skip-bad"
        )
    counts = np.bincount(images.labels, minlength=len(images.classes))
    if bad and (bare := [name for name, count in zip(images.classes, counts, strict=True) if not count]):
        raise DataError(f"{source}: every image of class {', '.join(bare)} is bad")
    return images


def split_items(
    images: LabelledImages, given: NDArray[np.str_] | None, seed: int, source: Path
) -> LabelledImages:
    """Return the set with 70 / 15 / 15 of its items in the splits, or with those given and what they lack."""
    if not len(images):  # every file is bad, which the message about bad files says
        return images
    try:
        if given is None:
            splits = assign_splits(images.labels, images.groups, SHARES, seed)
        else:
            splits = complete_splits(images.labels, given, images.groups, seed)
    except DataError as error:
        raise DataError(f"{source}: {error}") from None
    return replace(images, splits=splits)


def inspect_all(paths: Sequence[Path], progress: Progress | None) -> list[Inspection]:
    """Decode every file, several at a time, and return what each holds."""
    found: list[Inspection] = []
    # Pillow warns of odd tags in files it decodes well, and lets other threads run while it decodes.
    with warnings.catch_warnings(), ThreadPoolExecutor(os.cpu_count()) as pool:
        warnings.simplefilter("ignore")
        for start in range(0, len(paths), BATCH):
            found += pool.map(inspect, paths[start : start + BATCH])
            report(progress, "checking images", len(found), len(paths))
    return found


def _choose_size(found: Sequence[Inspection]) -> int:
    """Return the shorter side where all images have one size, within bounds; else the upper bound."""
    if len({(one.width, one.height) for one in found}) != 1:
        return LARGEST
    return min(max(min(found[0].width, found[0].height), SMALLEST), LARGEST)
