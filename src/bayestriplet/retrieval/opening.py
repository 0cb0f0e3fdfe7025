"""Sets of images in the form that an encoder takes."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayestriplet.data.dataset import LabelledImages
from bayestriplet.data.progress import Progress, report
from bayestriplet.data.sources import absolute_data, list_data, list_vector_data
from bayestriplet.data.vector_files import refuse_image_options
from bayestriplet.errors import InputError
from bayestriplet.retrieval.encoder import OnnxEncoder
from bayestriplet.runs.folder import RunFolder
from bayestriplet.runs.inputs import check_inputs, check_kind
from bayestriplet.runs.splits import open_run_data

PART = 256  # images that are held decoded at a time


def open_set(
    encoder: OnnxEncoder, data: str, *, skip_bad: bool = False, follow_links: bool = False,
    progress: Progress | None = None,
) -> LabelledImages:  # fmt: skip
    """Return all items of a set; its files are opened only to find the bad ones with ``skip_bad``."""
    info = encoder.info
    check_kind(info, data)
    if info.inputs:
        vectors = list_vector_data(data, follow_links=follow_links)
        refuse_image_options(data, None, skip_bad)
        check_inputs(info, vectors, data)
        return vectors
    images = list_data(
        data, size=info.size, channels=info.channels, bits=info.bits, invert=info.invert,
        skip_bad=skip_bad, follow_links=follow_links, progress=progress,
    )  # fmt: skip
    return _fit(encoder, images)


def open_split(
    encoder: OnnxEncoder, run: Path, data: str, split: str, *, skip_bad: bool = False,
    progress: Progress | None = None,
) -> LabelledImages:  # fmt: skip
    """Return the items of one split, which is that of the run's training if the data are its own."""
    images = open_run_data(RunFolder.open(run), absolute_data(data), encoder.info, skip_bad, progress)
    images = images.subset(images.indices(split))
    if not len(images):
        raise InputError(f"{images.name} has no items in split {split!r}")
    return _fit(encoder, images)


def _fit(encoder: OnnxEncoder, images: LabelledImages) -> LabelledImages:
    """Return images with the encoder's channels: files are read so, others must have them."""
    if images.paths is not None:
        return replace(images, channels=encoder.channels)
    if images.channels != encoder.channels:
        raise InputError(
            f"{images.name} has {images.channels} channels; the run was trained on {encoder.channels}"
        )
    return images


def read_parts(
    images: LabelledImages, phase: str, progress: Progress | None
) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Yield the images in order, a part at a time; each is done when the next one is asked for."""
    for start in range(0, len(images), PART):
        part = slice(start, min(start + PART, len(images)))
        yield part, images.read(np.arange(part.start, part.stop))
        report(progress, phase, part.stop, len(images))
