"""Harder training sets made from a given one: long tails, wrong labels, classes held out."""

from dataclasses import replace

import numpy as np

from bayestriplet.checks import nearest
from bayestriplet.data.dataset import LabelledImages
from bayestriplet.errors import InputError


def make_imbalanced(images: LabelledImages, ratio: float, seed: int) -> LabelledImages:
    """Keep ratio^(-k / (K - 1)) of the training items of class k: all of the first, 1 / ratio of the last.

    K are the classes that are trained on. No class loses its last two items. Validation and test stay whole.
    """
    rng = np.random.default_rng([seed, 1])
    keep = images.splits != "train"
    trained = np.unique(images.labels[~keep])
    last = max(1, len(trained) - 1)
    for k, label in enumerate(trained):
        rows = np.flatnonzero((images.labels == label) & (images.splits == "train"))
        number = max(min(2, len(rows)), round(len(rows) * ratio ** (-k / last)))
        keep[rng.permutation(rows)[:number]] = True
    return images.subset(np.flatnonzero(keep).astype(np.int64))


def make_noisy(images: LabelledImages, share: float, seed: int) -> LabelledImages:
    """Give this share of the training items the label of another class, each equally likely.

    The other class is one that is trained on, so that classes kept apart by the splits stay apart.
    Validation and test keep their labels.
    """
    rng = np.random.default_rng([seed, 2])
    rows = np.flatnonzero(images.splits == "train")
    wrong = rng.permutation(rows)[: round(share * len(rows))]
    labels = images.labels.copy()
    trained = np.unique(labels[rows])
    shift = rng.integers(1, len(trained), len(wrong))
    labels[wrong] = trained[(np.searchsorted(trained, labels[wrong]) + shift) % len(trained)]
    return replace(images, labels=labels)


def hold_out(images: LabelledImages, names: str) -> tuple[LabelledImages, LabelledImages]:
    """Return the set without these classes, as if they did not exist, and all items of them alone.

    ``names`` are comma-separated. The classes of the first set are the others, in their order.
    """
    chosen = [name.strip() for name in names.split(",")]
    unknown = [name for name in chosen if name not in images.classes]
    if unknown:
        raise InputError(
            f"without names {unknown[0]!r}, which is no class of {images.name}"
            f"{nearest(unknown[0], images.classes)}"
        )
    left = tuple(name for name in images.classes if name not in chosen)
    if len(left) < 2:
        raise InputError(f"without leaves {len(left)} of the classes of {images.name}; 2 are needed to train")
    number = np.array([left.index(name) if name in left else -1 for name in images.classes], dtype=np.int64)
    labels = number[images.labels]
    known = images.subset(np.flatnonzero(labels >= 0).astype(np.int64))
    novel = images.subset(np.flatnonzero(labels < 0).astype(np.int64))
    return replace(known, classes=left, labels=labels[labels >= 0]), novel
