"""How the pictures of a run look: fitted to training images, and set beside novelty by validation images."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bayestriplet.data.dataset import LabelledImages
from bayestriplet.data.progress import Progress, report
from bayestriplet.runs.appearance import Appearance
from bayestriplet.runs.class_looks import ClassLooks
from bayestriplet.runs.predictive import Predictive
from bayestriplet.runs.students import Floats
from bayestriplet.runs.teaching import Teaching, spread_rows

MOST_TRAINED = 4000  # training images that are looked at
MOST_BYTES = 2**28  # of their pixels together
MOST_OF_CLASSES = 20_000  # training images that tell how classes look
FEWEST = 50  # training images that a covariance is estimated from
PART = 64  # images decoded at a time


def add_appearance(
    teaching: Teaching, predictive: Predictive, images: LabelledImages, train: NDArray[np.int64],
    known: NDArray[np.int64], progress: Progress | None = None,
) -> Teaching:  # fmt: skip
    """Return what a run keeps for teaching, with how its images look.

    ``train`` and ``known`` are the rows of training images, and of validation images of trained classes.
    Vectors do not look like anything, and few images do not say what is usual: nothing is added then.
    """
    if images.noun != "image" or len(train) < FEWEST or not len(known):
        return teaching
    images = images.as_images()  # of a frozen network, those that its features are of
    first = images.read(train[:1])
    most = min(MOST_TRAINED, max(FEWEST, MOST_BYTES // first.nbytes))
    appearance = Appearance.of(_read(images, train[spread_rows(len(train), most)], progress))
    more = train[spread_rows(len(train), min(MOST_OF_CLASSES, max(FEWEST, MOST_BYTES // first.nbytes)))]
    described = look_at_rows(appearance, images, more, progress)
    appearance = replace(appearance, of_classes=ClassLooks.of(described, images.labels[more]))
    kept = known[spread_rows(len(known))]
    looks = look_at_rows(appearance, images, kept, progress)
    with_background = replace(predictive, background=teaching.background)
    _, plain, explained = with_background.explain(teaching.validation)
    misfit = appearance.misfit(looks, np.exp(explained))
    appearance = appearance.calibrated(plain, looks, misfit)
    return replace(
        teaching, appearance=appearance, looks=looks.astype(np.float32), misfit=misfit,
        pictured=np.sort(appearance.score(plain, looks, misfit)),
    )  # fmt: skip


def _read(images: LabelledImages, rows: NDArray[np.int64], progress: Progress | None) -> NDArray[np.uint8]:
    parts = []
    for start in range(0, len(rows), PART):
        parts.append(images.read(rows[start : start + PART]))
        report(progress, "Looking at training images", min(start + PART, len(rows)), len(rows))
    return np.concatenate(parts)


def look_at_rows(
    appearance: Appearance, images: LabelledImages, rows: NDArray[np.int64], progress: Progress | None
) -> Floats:
    """Return how some of the images look (n, F)."""
    parts, images = [], images.as_images()
    for start in range(0, len(rows), PART):
        parts.append(appearance.describe(images.read(rows[start : start + PART])))
        report(progress, "Looking at images", min(start + PART, len(rows)), len(rows))
    return np.concatenate(parts)
