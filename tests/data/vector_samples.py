"""Small files of vectors: scikit-learn's digits, each of them 64 numbers."""

import numpy as np
from sklearn.datasets import load_digits

NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def digit_vectors(per_class=20, number=10):
    """Return vectors (n, 64) float32 and labels (n,) of so many digits of each of the first classes."""
    found = load_digits()
    rows = np.concatenate([np.flatnonzero(found.target == k)[:per_class] for k in range(number)])
    return (found.data[rows] / 16).astype(np.float32), found.target[rows].astype(np.int64)


def write_npz(path, per_class=20, number=10, **more):
    """Write a file of digits; a keyword replaces an array, or takes it out where it is None."""
    vectors, labels = digit_vectors(per_class, number)
    arrays = {"vectors": vectors, "labels": labels, "classes": np.array(NAMES[:number]), **more}
    np.savez(path, **{name: value for name, value in arrays.items() if value is not None})
    return f"vectors:{path}"
