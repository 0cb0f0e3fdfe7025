"""The encoder as an ONNX file: what searching runs on, without torch."""

import hashlib
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from bayestriplet.errors import InputError, MissingDependencyError, reason_of
from bayestriplet.model.encoder import Encoder

FORMAT = 1


def export_onnx(encoder: Encoder, fingerprint: str, path: Path) -> None:
    """Write the encoder, in eval mode, as a graph from images (B, C, H, W) in 0 .. 1 to vectors (B, D).

    The file's metadata say how an image becomes such an input, and which model file it is made of.
    """
    try:
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError(
            "encoder.onnx needs onnx and onnxscript: pip install 'bayestriplet[train]'"
        ) from error
    info = encoder.info
    # Two images: a batch of one would be taken for a constant.
    example = torch.zeros(2, info.channels, info.size, info.size)
    try:
        with _quiet():
            program = torch.onnx.export(
                encoder.eval(),
                (example,),
                dynamo=True,
                input_names=["images"],
                output_names=["vectors"],
                dynamic_shapes=({0: torch.export.Dim("batch")},),
                verbose=False,
            )
    except Exception as error:  # a backbone of the user's may use anything
        raise InputError(
            f"backbone {info.backbone!r} cannot be written as ONNX: {reason_of(error)}"
        ) from None
    if program is None:
        raise InputError(f"backbone {info.backbone!r} cannot be written as ONNX")
    program.model.metadata_props.update(describe(encoder, fingerprint))
    program.save(path, external_data=False)


def describe(encoder: Encoder, fingerprint: str) -> dict[str, str]:
    """Return the metadata of the file."""
    info = encoder.info
    preprocessing: dict[str, Any] = {
        "colour": "grey" if info.channels == 1 else "RGB",
        "resize": f"shorter side to {info.size}, bicubic",
        "crop": f"centre, {info.size} x {info.size}",
        "scale": "divide by 255",
        "layout": "batch, channel, row, column",
    }
    return {
        "format": str(FORMAT),
        "fingerprint": fingerprint,
        "encoder": json.dumps(asdict(info)),
        "preprocessing": json.dumps(preprocessing),
    }


def fingerprint_of(model: Path) -> str:
    """Return the SHA-256 of a model file: what vectors are told apart by."""
    with model.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the exporter from telling about packages that are not installed and its own innards."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
