"""Items for a store: images read and compared in threads while others are encoded."""

import hashlib
import os
import time
import warnings
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayestriplet.data.dataset import LabelledImages
from bayestriplet.data.progress import Progress, report
from bayestriplet.data.thumbnails import make_thumbnail
from bayestriplet.retrieval.encoder import OnnxEncoder
from bayestriplet.retrieval.items import Item, Rows
from bayestriplet.retrieval.sets import IndexedSet

BATCH = 128  # images


@dataclass(frozen=True)
class Change:
    """What an update did to an index."""

    added: int
    replaced: int
    removed: int
    unchanged: int
    seconds: float
    """Spent on reading and encoding, and on writing."""
    set: IndexedSet | None = None
    """That was updated; None for items that came with no set."""
    moved_from: str = ""
    """Where the set's data were when it was last updated; empty where they have not moved."""
    taken_over: int = 0
    """Items that version 0.1.0 indexed under the name of this set, and that are now its own."""
    beside: IndexedSet | None = None
    """Another set of the same last name, where this one is new."""
    noun: str = "image"
    """What an item is called."""
    labels: Mapping[str, int] = field(default_factory=dict)
    """How many items of each label the data have."""

    def __str__(self) -> str:
        return (
            f"{self.added:,} added, {self.replaced:,} replaced, {self.removed:,} removed, "
            f"{self.unchanged:,} unchanged; {self.seconds:.1f} s, "
            f"{self.images_per_second:,.0f} {self.noun}s/s"
        )

    @property
    def images_per_second(self) -> float:
        """How many images were looked at in a second."""
        return (self.added + self.replaced + self.unchanged) / max(self.seconds, 1e-9)


@dataclass(frozen=True, eq=False)
class _Read:
    """Images of a batch that are new or changed, and how many of the batch are as they were."""

    items: tuple[Item, ...]
    pixels: NDArray[Any]
    """Or vectors."""
    thumbnails: tuple[bytes, ...]
    unchanged: int


class ChangedRows:
    """The rows of a set that differ from what is known already, as an iterator that counts.

    Items are distinguished by their id, the prefix of the set before it, and compared in all that is
    stored of them: label, path, group, and the hash of the pixels. An item that belongs to one of the sets
    named ``kept`` stays there.
    """

    def __init__(
        self, images: LabelledImages, own: IndexedSet, encoder: OnnxEncoder, known: Mapping[str, Item],
        kept: Collection[str] = (), progress: Progress | None = None,
    ) -> None:  # fmt: skip
        self.images, self.own, self.encoder, self.known = images, own, encoder, known
        self.kept, self.progress = kept, progress
        self.ids = [f"{own.prefix}/{name}" for name in images.ids]
        self.added = self.replaced = self.unchanged = 0

    def __iter__(self) -> Iterator[Rows]:
        began = time.perf_counter()
        for part in self._read_ahead():
            if part.items:
                yield Rows(part.items, self.encoder.encode(part.pixels), part.thumbnails)
            old = sum(item.id in self.known for item in part.items)
            self.added += len(part.items) - old
            self.replaced += old
            self.unchanged += part.unchanged
            done = self.added + self.replaced + self.unchanged
            rate = done / (time.perf_counter() - began)
            report(
                self.progress, f"indexing, {rate:,.0f} {self.images.noun}s a second", done, len(self.images)
            )

    def _read_ahead(self) -> Iterator[_Read]:
        """Yield batches in order while later ones are being read."""
        workers = os.cpu_count() or 1
        waiting: deque[Future[_Read]] = deque()
        # Pillow warns of odd tags in files it decodes well, and lets other threads run while it decodes.
        with warnings.catch_warnings(), ThreadPoolExecutor(workers) as pool:
            warnings.simplefilter("ignore")
            try:
                for start in range(0, len(self.images), BATCH):
                    waiting.append(pool.submit(self._read, start))
                    if len(waiting) > 2 * workers:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    def _read(self, start: int) -> _Read:
        images = self.images
        rows = np.arange(start, min(start + BATCH, len(images)))
        pixels, shown = (images.read(rows), None) if images.length else images.read_shown(rows)
        items = [self._item(int(row), one) for row, one in zip(rows, pixels, strict=True)]
        new = [i for i, item in enumerate(items) if self.known.get(item.id) != item]
        return _Read(
            items=tuple(items[i] for i in new),
            pixels=pixels[new],
            thumbnails=tuple(b"" if shown is None else make_thumbnail(shown(i)) for i in new),
            unchanged=len(items) - len(new),
        )

    def _item(self, row: int, pixels: NDArray[Any]) -> Item:
        images, before = self.images, self.known.get(self.ids[row])
        return Item(
            id=self.ids[row],
            label=images.classes[images.labels[row]],
            path="" if images.paths is None else str(images.paths[row].absolute()),
            group="" if images.groups is None else str(images.groups[row]),
            source=before.source if before and before.source in self.kept else self.own.name,
            hash=hash_pixels(pixels),
        )


def hash_pixels(pixels: NDArray[Any]) -> str:
    """Return a digest of an image (size, size, C), or of a vector (F,), as the encoder sees it."""
    return hashlib.blake2b(pixels.tobytes(), digest_size=16).hexdigest()
