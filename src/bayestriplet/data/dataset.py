"""A set of labelled images, in memory or in files."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from bayestriplet.checks import check_choice
from bayestriplet.data.images import decode, exchange, load_listed, shape_image
from bayestriplet.data.splits import LEAST, SPLITS
from bayestriplet.data.thumbnails import thumbnail_side
from bayestriplet.errors import InputError

FEW = {
    "train": "fewer than 2 training {noun}s",
    "val": "a single validation {noun}, never a match",
    "test": "a single test {noun}, never a match",
}


@dataclass(frozen=True, eq=False)
class LabelledImages:
    """Images with classes and splits; ``pixels`` or ``paths`` is set, or both where decoded files are kept.

    It holds only arrays, tuples and paths, so that loader workers can be sent a copy. Of pixels that
    are memory-mapped only the name of the file is sent.
    """

    name: str
    classes: tuple[str, ...]
    """Class names; label k is ``classes[k]``."""
    labels: NDArray[np.int64]
    """(n,)"""
    splits: NDArray[np.str_]
    """(n,) of "train", "val" and "test"."""
    ids: tuple[str, ...]
    """(n,) unique: the path relative to the set's folder, or "train/123"."""
    channels: int
    """1 or 3."""
    size: int
    """Images are size x size."""
    kind: str
    """ "digits", "histology" or "photo": which augmentation suits."""
    groups: NDArray[np.str_] | None = None
    """(n,) patient or slide; None where unknown."""
    pixels: NDArray[np.uint8] | None = None
    """(n, size, size, channels) when the images are in memory, or memory-mapped from one file."""
    paths: tuple[Path, ...] | None = None
    """(n,) when they are files."""
    bits: int = 16
    """How many bits a 16-bit file is scaled by that does not declare its own."""
    digests: NDArray[np.uint64] | None = None
    """(n,) of the pixels of files, by which identical ones are found; None where they were not opened."""
    rows: NDArray[np.int64] | None = None
    """(n,) positions in memory-mapped pixels of more images than these; None: in order."""

    invert: bool = False
    """Whether files are read with dark and light exchanged; pixels in memory are so already."""

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def length(self) -> int:
        """F, where the items came as vectors (F,) and there are no images; 0 where there are."""
        return 0

    @property
    def noun(self) -> str:
        """What an item is called."""
        return "vector" if self.length else "image"

    def indices(self, split: str) -> NDArray[np.int64]:
        """Return the positions of one split, or of "all", in ascending order."""
        if check_choice("split", split, (*SPLITS, "all")) == "all":
            return np.arange(len(self), dtype=np.int64)
        return np.flatnonzero(self.splits == split).astype(np.int64)

    def read(self, indices: Sequence[int] | NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return the images (b, size, size, channels) at these positions, decoded where they are files."""
        wanted = np.asarray(indices, dtype=np.int64)
        if wanted.size and (wanted.min() < 0 or wanted.max() >= len(self)):
            raise InputError(f"indices must lie in 0..{len(self) - 1}; got {wanted.min()}..{wanted.max()}")
        if self.pixels is not None:
            return np.asarray(self.pixels[wanted if self.rows is None else self.rows[wanted]])
        paths = self.paths or ()
        out = np.empty((len(wanted), self.size, self.size, self.channels), dtype=np.uint8)
        for row, index in enumerate(wanted):
            out[row] = decode(paths[index], self.size, self.channels, bits=self.bits)
        return 255 - out if self.invert else out

    def read_shown(
        self, indices: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint8], Callable[[int], NDArray[np.uint8]]]:
        """Return what :meth:`read` does, and a function from a place among these to the image for people.

        That is the same square of it, of a file with up to as many pixels as a thumbnail has.
        """
        if self.paths is None:
            pixels = self.read(indices)
            return pixels, lambda row: np.asarray(pixels[row])
        paths = [self.paths[index] for index in indices]
        if self.pixels is not None:
            return self.read(indices), lambda row: self._shape_shown(load_listed(paths[row], bits=self.bits))
        out = np.empty((len(paths), self.size, self.size, self.channels), dtype=np.uint8)
        shown = []
        for row, path in enumerate(paths):
            image = load_listed(path, bits=self.bits)
            out[row] = exchange(shape_image(image, self.size, self.channels), self.invert)
            shown.append(self._shape_shown(image))
        return out, shown.__getitem__

    def _shape_shown(self, image: Image.Image) -> NDArray[np.uint8]:
        side = thumbnail_side(image, self.size)
        return exchange(shape_image(image, side, self.channels), self.invert)

    def as_images(self) -> "LabelledImages":
        """Return the images themselves, where :meth:`read` returns something else."""
        return self

    def default_workers(self) -> int:
        """Return no workers for images in memory, else one per core: decoding is then the slow part."""
        return 0 if self.pixels is not None else min(8, os.cpu_count() or 1)

    def subset(self, keep: NDArray[np.int64]) -> "LabelledImages":
        """Return the set of only the images at these positions; the classes stay."""
        mapped = isinstance(self.pixels, np.memmap)  # stays on the disk
        return replace(
            self,
            labels=self.labels[keep],
            splits=self.splits[keep],
            ids=tuple(self.ids[i] for i in keep),
            groups=None if self.groups is None else self.groups[keep],
            pixels=self.pixels if self.pixels is None or mapped else self.pixels[keep],
            rows=(keep if self.rows is None else self.rows[keep]) if mapped else None,
            paths=None if self.paths is None else tuple(self.paths[i] for i in keep),
            digests=None if self.digests is None else self.digests[keep],
        )

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        if isinstance(self.pixels, np.memmap):
            state["pixels"] = Path(str(self.pixels.filename))
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        if isinstance(state["pixels"], Path):
            state = {**state, "pixels": np.load(state["pixels"], mmap_mode="r", allow_pickle=False)}
        self.__dict__.update(state)


def few_items(images: LabelledImages) -> list[str]:
    """Return a warning for every split in which classes have too little: fewer than 2 items to match.

    Where no class is both trained on and tested, those without training items are meant to have none.
    """
    counts = {split: _count(images, split) for split in SPLITS}  # (K,) each
    apart = bool(counts["test"].any()) and not ((counts["train"] > 0) & (counts["test"] > 0)).any()
    few = {split: counts[split] == 1 for split in SPLITS}
    if not apart:
        few["train"] |= counts["train"] == 0
    out, noun = [], images.noun
    for split, shortage in FEW.items():
        if split == "test" and _nothing_to_measure(counts):
            hint = "" if apart else ", or split whole classes with --split-by class"
            out.append(
                f"no class has two test {noun}s, so nothing can be measured among them: add {noun}s{hint}"
            )
        elif names := [images.classes[k] for k in np.flatnonzero(few[split])]:
            few_of = shortage.format(noun=noun)
            out.append(f"classes with {few_of}: {', '.join(names[:5])}{', ...' * (len(names) > 5)}")
    return out


def _count(images: LabelledImages, split: str) -> NDArray[np.int64]:
    return np.bincount(images.labels[images.indices(split)], minlength=len(images.classes))


def _nothing_to_measure(counts: dict[str, NDArray[np.int64]]) -> bool:
    """Whether no test item has a match, as classes have so few items that splitting left none."""
    whole = np.sum(list(counts.values()), axis=0)  # (K,)
    return bool(counts["test"].max() < 2 and (counts["test"].any() or whole.max() < LEAST))
