"""What is doubtful about a data set: labels that are no classes, images that are there twice."""

import re
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bayestriplet.data.dataset import LabelledImages, few_items
from bayestriplet.data.digests import digests_of

NAMED = ("mnist", "digits", "pathmnist")  # sets that everyone has, as they are
SEPARATORS = (";", "|", ",")
DECIMAL = re.compile(r"[+-]?(\d+[.,]\d*|[.,]\d+|\d+)([eE][+-]?\d+)?")
PART = 4096  # vectors that are read at a time
MANY = 0.5  # of the labels that hold several values, or of the items that have a number of their own


def data_warnings(images: LabelledImages, *, thorough: bool = False) -> list[str]:
    """Return what is doubtful about a set, at most a line for each kind of doubt.

    Whether named sets, such as mnist, hold identical images is looked at only if ``thorough``.
    """
    counts = np.bincount(images.labels, minlength=len(images.classes))
    names = [name for name, count in zip(images.classes, counts, strict=True) if count]
    out = few_items(images)
    out += _no_classes(names, len(images), images.noun) + _similar_names(images.classes, counts, images.noun)
    if thorough or images.paths is not None or images.name not in NAMED:
        out += _identical_images(images)
    return out


def _no_classes(names: Sequence[str], items: int, noun: str) -> list[str]:
    """Ask whether labels are classes that hold several values each, or measured numbers."""
    if all(DECIMAL.fullmatch(name) for name in names):
        broken = [name for name in names if not name.lstrip("+-").isdecimal()]
        if len(broken) <= MANY * len(names) or len(names) <= MANY * items:
            return []
        return [
            f"the labels are {len(names):,} different decimal numbers for {items:,} {noun}s, "
            f"such as {broken[0]!r}: are these classes at all?"
        ]
    for separator in SEPARATORS:
        parts = {name: [part.strip() for part in name.split(separator)] for name in names}
        several = [name for name in names if len(parts[name]) > 1 and all(parts[name])]
        # Commas stand in names too ("carcinoma, ductal"); values of several labels recur among them.
        recurring = separator != "," or len({part for found in parts.values() for part in found}) < len(names)
        if len(several) > MANY * len(names) and recurring:
            return [
                f"{len(several):,} of {len(names):,} labels hold several values, such as {several[0]!r}: "
                f"are these classes at all?"
            ]
    return []


def _similar_names(classes: Sequence[str], counts: NDArray[np.int64], noun: str) -> list[str]:
    """Warn of classes that are probably one, written in two ways."""
    alike = defaultdict(list)
    for k, name in enumerate(classes):
        alike[name.strip().casefold()].append(k)
    groups = [found for found in alike.values() if len(found) > 1]
    if not groups:
        return []
    first, second = (f"{classes[k]!r} ({counts[k]:,} {noun}s)" for k in groups[0][:2])
    return [
        f"{sum(map(len, groups)):,} classes differ only in letter case or surrounding space: "
        f"{first} and {second}"
    ]


def _identical_images(images: LabelledImages) -> list[str]:
    """Warn of images that are in two classes, or in two splits, where what they show is known."""
    digests = images.digests
    if digests is None and images.pixels is not None:
        digests = digests_of(images.pixels)
    elif images.length:
        parts = np.array_split(np.arange(len(images)), 1 + len(images) // PART)
        digests = np.concatenate([digests_of(images.read(part)) for part in parts])
    if digests is None or not len(digests):
        return []
    same = np.unique(digests, return_inverse=True)[1]  # (n,) the number of an image's content
    splits, split_of = np.unique(images.splits, return_inverse=True)
    out = []
    for what, names, codes in (("class", images.classes, images.labels), ("split", splits, split_of)):
        apart = _in_two(same, codes)
        if len(apart):
            first = apart[0]
            second = next(i for i in apart if same[i] == same[first] and codes[i] != codes[first])
            pair = [f"{images.ids[i]} ({names[codes[i]]})" for i in (first, second)]
            several = f"{len(apart):,} {images.noun}s"
            out.append(f"{several} have an identical one in another {what}: {' and '.join(pair)}")
    return out


def _in_two(same: NDArray[np.int64], codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the positions of the items whose content also has another code."""
    low, high = np.full(same.max() + 1, codes.max()), np.zeros(same.max() + 1, dtype=codes.dtype)
    np.minimum.at(low, same, codes)
    np.maximum.at(high, same, codes)
    return np.flatnonzero((low != high)[same])
