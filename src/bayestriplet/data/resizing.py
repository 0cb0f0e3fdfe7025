"""Sets in memory brought to another size."""

from dataclasses import replace

import numpy as np

from bayestriplet.data.dataset import LabelledImages
from bayestriplet.data.images import shape_pixels
from bayestriplet.data.progress import Progress, report
from bayestriplet.errors import InputError

MEMORY_LIMIT = 8_000_000_000  # bytes an in-memory set may be enlarged to


def resize(images: LabelledImages, size: int | None, progress: Progress | None) -> LabelledImages:
    """Resize a set in memory; one of files is resized when it is read."""
    if images.pixels is None or size is None or size == images.size:
        return images
    needed = len(images) * size * size * images.channels
    if needed > MEMORY_LIMIT:
        raise InputError(
            f"size {size} would take {needed / 1e9:.0f} GB of memory for {len(images)} images; take less"
        )
    pixels = np.empty((len(images), size, size, images.channels), dtype=np.uint8)
    for i, one in enumerate(images.pixels):
        pixels[i] = shape_pixels(one, size, images.channels)
        if i % 4096 == 0:
            report(progress, "resizing images", i, len(images))
    return replace(images, pixels=pixels, size=size)
