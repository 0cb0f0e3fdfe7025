"""Harder training sets made from a given one: long tails and wrong labels. Other splits stay."""

from dataclasses import replace

import numpy as np

from bayestriplet.data.dataset import LabelledImages


def make_imbalanced(images: LabelledImages, ratio: float, seed: int) -> LabelledImages:
    """Keep ratio^(-k / (K - 1)) of the training items of class k: all of the first, 1 / ratio of the last.

    No class loses its last two items.
    """
    rng = np.random.default_rng([seed, 1])
    keep = images.splits != "train"
    last = max(1, len(images.classes) - 1)
    for k in range(len(images.classes)):
        rows = np.flatnonzero((images.labels == k) & (images.splits == "train"))
        number = max(min(2, len(rows)), round(len(rows) * ratio ** (-k / last)))
        keep[rng.permutation(rows)[:number]] = True
    return images.subset(np.flatnonzero(keep).astype(np.int64))


def make_noisy(images: LabelledImages, share: float, seed: int) -> LabelledImages:
    """Give this share of the training items the label of another class, each equally likely."""
    rng = np.random.default_rng([seed, 2])
    rows = np.flatnonzero(images.splits == "train")
    wrong = rng.permutation(rows)[: round(share * len(rows))]
    labels = images.labels.copy()
    shift = rng.integers(1, len(images.classes), len(wrong))
    labels[wrong] = (labels[wrong] + shift) % len(images.classes)
    return replace(images, labels=labels)
