"""The encoder of a run as ONNX Runtime runs it: from pixels to vectors, without torch."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayestriplet.data.images import to_unit
from bayestriplet.errors import InputError, InputTypeError, reason_of
from bayestriplet.model.info import EncoderInfo
from bayestriplet.model.onnx_file import PREFIX, OnnxBackbone, open_backbone, start_session
from bayestriplet.runs.checksums import verify
from bayestriplet.runs.encoder_files import read_onnx_metadata
from bayestriplet.runs.folder import RunFolder
from bayestriplet.runs.inputs import check_length

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
        verify(path)
        session = start_session(path, path, "an encoder")
        try:
            info, fingerprint = read_onnx_metadata(path, session.get_modelmeta().custom_metadata_map)
            _check_shapes(path, session, info)
        except UnicodeDecodeError as error:  # of a name, or of what it says of itself
            raise InputError(f"{path} is not a whole encoder: {reason_of(error)}") from None
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

    def encode(self, pixels: NDArray[Any]) -> Vectors:
        """Return the vectors (n, D) of images (n, size, size, channels), or of vectors (n, F)."""
        if self.info.inputs:
            return self._encode_vectors(pixels)
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

    def _encode_vectors(self, given: NDArray[Any]) -> Vectors:
        """Return the embeddings (n, D) of vectors (n, F)."""
        if given.dtype.kind != "f" or given.ndim != 2:
            got = f"{given.dtype} of shape {given.shape}"
            raise InputTypeError(f"the run needs {self.info.needs}; got {got}")
        check_length(self.info, given.shape[1], f"an array of shape {given.shape}")
        embeddings = np.empty((len(given), self.dim), np.float32)
        for start in range(0, len(given), BATCH):
            part = slice(start, start + BATCH)
            inputs = np.ascontiguousarray(given[part], np.float32)
            if not np.isfinite(inputs).all():
                raise InputError("vectors must be finite numbers; got NaN or infinite ones")
            embeddings[part] = self.session.run(["embeddings"], {"vectors": inputs})[0]
        return embeddings

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


def _check_shapes(path: Path, session: Any, info: EncoderInfo) -> None:
    """Refuse metadata that the network itself contradicts, where it has fixed sizes."""
    images = (info.channels, info.size, info.size)
    wanted = {"vectors": (info.dim,), "embeddings": (info.dim,)}
    for one in session.get_outputs():
        _compare(path, one, wanted.get(one.name, ()))
    for one in session.get_inputs():
        _compare(path, one, {"images": images, "vectors": (info.inputs,)}.get(one.name, ()))


def _compare(path: Path, found: Any, wanted: tuple[int, ...]) -> None:
    sizes = tuple(found.shape[1:])
    if not wanted:
        return
    fixed = [one if isinstance(one, int) else said for one, said in zip(sizes, wanted, strict=False)]
    if len(sizes) != len(wanted) or tuple(fixed) != wanted:
        said = f"its description says {found.name} of {wanted}, the network {sizes}"
        raise InputError(f"{path} is not a whole encoder: {said}")
