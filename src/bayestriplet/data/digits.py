"""The scans of handwritten digits that come with scikit-learn."""

import numpy as np

from bayestriplet.data.dataset import LabelledImages
from bayestriplet.data.splits import split_stratified
from bayestriplet.errors import MissingDependencyError

SHARES = {"train": 0.6, "val": 0.2, "test": 0.2}


def open_digits(seed: int) -> LabelledImages:
    """Return scikit-learn's bundled digits, 60/20/20; their values 0..16 become 0..255."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise MissingDependencyError(
            "digits needs scikit-learn: pip install 'bayestriplet[train]'"
        ) from error
    found = load_digits()
    labels = found.target.astype(np.int64)
    return LabelledImages(
        name="digits",
        classes=tuple("0123456789"),
        labels=labels,
        splits=split_stratified(labels, SHARES, seed),
        ids=tuple(f"digits/{i}" for i in range(len(labels))),
        channels=1,
        size=8,
        kind="digits",
        pixels=np.rint(found.images * (255 / 16)).astype(np.uint8)[..., None],
    )
