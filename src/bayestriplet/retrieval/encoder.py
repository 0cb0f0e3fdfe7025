"""The encoder of a run as ONNX Runtime runs it: from pixels to vectors, without torch."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayestriplet.data.images import to_unit
from bayestriplet.errors import InputError
from bayestriplet.model.info import EncoderInfo
from bayestriplet.model.onnx_file import PREFIX, OnnxBackbone, open_backbone, start_session
from bayestriplet.runs.encoder_files import read_onnx_metadata
from bayestriplet.runs.folder import RunFolder

BATCH = 128
Vectors = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class OnnxEncoder:
    """An opened encoder.onnx, and what its metadata say."""

    session: Any
    fingerprint: str
    """Of the model it was made of: vectors of one fingerprint can be compared."""
    info: EncoderInfo
    backbone: OnnxBackbone | None = None
    """What runs before it, where the backbone is an ONNX file of its own."""

    @classmethod
    def open(cls, run: Path | RunFolder) -> "OnnxEncoder":
        """Open the encoder of a run folder."""
        folder = run if isinstance(run, RunFolder) else RunFolder.find(Path(run))
        path = folder.encoder
        if not path.is_file():
            raise InputError(
                f"{folder.path} has no {path.name}; `bayestriplet export {folder.path}` makes it"
            )
        session = start_session(path, path, "an encoder")
        info, fingerprint = read_onnx_metadata(path, session.get_modelmeta().custom_metadata_map)
        if not info.backbone.startswith(PREFIX):
            return cls(session, fingerprint, info)
        digest, _, output = info.backbone.removeprefix(PREFIX).partition("#")
        return cls(session, fingerprint, info, open_backbone(folder.backbone, output, digest))

    @property
    def size(self) -> int:
        """Images are size x size."""
        return self.info.size

    @property
    def channels(self) -> int:
        """1 or 3."""
        return self.info.channels

    @property
    def dim(self) -> int:
        """D, the length of a vector."""
        return self.info.dim

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes it was trained on."""
        return self.info.classes

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
            vectors[part] = self._embed(images)
        return vectors

    def _embed(self, images: Vectors) -> Vectors:
        """Return the vectors (b, D) of images (b, C, H, W) in 0 .. 1."""
        given = {"images": images}
        if self.backbone is not None:
            mean, deviation = (
                np.array(one, np.float32).reshape(-1, 1, 1) for one in (self.info.mean, self.info.deviation)
            )
            given = {"features": self.backbone.describe((images - mean) / deviation)}
        vectors: Vectors = self.session.run(["vectors"], given)[0]
        return vectors
