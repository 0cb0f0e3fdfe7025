"""The encoder of a run as ONNX Runtime runs it: from pixels to vectors, without torch."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayestriplet.data.images import to_unit
from bayestriplet.errors import InputError, MissingDependencyError, reason_of

FORMAT = "1"
BATCH = 128
Vectors = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class OnnxEncoder:
    """An opened encoder.onnx, and what its metadata say."""

    session: Any
    fingerprint: str
    """SHA-256 of the model file it was made of: vectors of one fingerprint can be compared."""
    size: int
    channels: int
    dim: int
    classes: tuple[str, ...]

    @classmethod
    def open(cls, run: Path) -> "OnnxEncoder":
        """Open the encoder of a run folder."""
        path = run / "encoder.onnx"
        if not run.is_dir():
            raise InputError(f"{run}: no such run; `bayestriplet train DATA --out {run}` makes one")
        if not path.is_file():
            raise InputError(f"{run} has no {path.name}; `bayestriplet export {run}` makes it")
        session = _start(path)
        found = session.get_modelmeta().custom_metadata_map
        if found.get("format") != FORMAT:
            raise InputError(f"{path} has format {found.get('format')!r}; this version reads {FORMAT}")
        try:
            info = json.loads(found["encoder"])
            return cls(
                session=session,
                fingerprint=str(found["fingerprint"]),
                size=int(info["size"]),
                channels=int(info["channels"]),
                dim=int(info["dim"]),
                classes=tuple(map(str, info["classes"])),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{path} is not a whole encoder: {error}") from None

    def encode(self, pixels: NDArray[np.uint8]) -> Vectors:
        """Return the vectors (n, D) of images (n, size, size, channels)."""
        shape = (self.size, self.size, self.channels)
        if pixels.dtype != np.uint8 or pixels.shape[1:] != shape:
            raise InputError(f"pixels must be uint8 of shape (n, {', '.join(map(str, shape))}); "
                             f"got {pixels.dtype} of shape {pixels.shape}")  # fmt: skip
        vectors = np.empty((len(pixels), self.dim), np.float32)
        for start in range(0, len(pixels), BATCH):
            part = slice(start, start + BATCH)
            images = np.ascontiguousarray(to_unit(pixels[part]).transpose(0, 3, 1, 2))  # (b, C, H, W)
            vectors[part] = self.session.run(["vectors"], {"images": images})[0]
        return vectors


def _start(path: Path) -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingDependencyError(
            "searching needs ONNX Runtime: pip install 'bayestriplet[search]'"
        ) from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # what goes wrong is raised as well
    threads = os.environ.get("OMP_NUM_THREADS", "")
    if threads.isdecimal():  # ONNX Runtime has threads of its own and does not look there
        options.intra_op_num_threads = int(threads)
    try:
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its errors have no common base
        raise InputError(f"{path} cannot be read as an encoder: {reason_of(error)}") from None
