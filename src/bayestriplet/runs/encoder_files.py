"""The encoder on disk: model.safetensors, the metadata of encoder.onnx, and what tells encoders apart."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayestriplet.errors import InputError, reason_of
from bayestriplet.model.info import EncoderInfo
from bayestriplet.model.onnx_file import PREFIX
from bayestriplet.runs.tensors import Tensors, check_format, read_tensors, write_tensors

FIRST_FORMAT = "1"  # of version 0.1.0, whose fingerprint is the hash of the file
FORMAT = "2"
ONNX_FORMAT = "1"
LATER = ("inputs", "source", "invert")  # fields of the description that earlier files do not have


def write_model(path: Path, info: EncoderInfo, tensors: Mapping[str, NDArray[Any]]) -> None:
    """Write the weights of an encoder with its description."""
    write_tensors(path, tensors, {"format": FORMAT, "encoder": _to_json(info)})


def read_model(path: Path) -> tuple[EncoderInfo, Tensors]:
    """Return the description and the weights that a model file holds."""
    tensors, metadata = read_tensors(path, "a model")
    check_format(path, metadata, (FIRST_FORMAT, FORMAT))
    return _read_info(path, metadata, "model"), tensors


def fingerprint_of(path: Path) -> str:
    """Return the digest of a model file's content, which vectors are distinguished by.

    Equal trainings have equal fingerprints. A file of version 0.1.0 keeps the one its index was made with.
    """
    tensors, metadata = read_tensors(path, "a model")
    if check_format(path, metadata, (FIRST_FORMAT, FORMAT)) == FIRST_FORMAT:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    return fingerprint(_read_info(path, metadata, "model"), tensors)


def fingerprint(info: EncoderInfo, tensors: Mapping[str, NDArray[Any]]) -> str:
    """Return the digest of an encoder: its description, and every tensor's name, type, shape and values."""
    digest = hashlib.sha256(_to_json(info).encode())
    for name, value in sorted(tensors.items()):
        digest.update(f"{name} {value.dtype.str} {value.shape}".encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    return digest.hexdigest()


def onnx_metadata(info: EncoderInfo, fingerprint: str) -> dict[str, str]:
    """Return what encoder.onnx says of itself: which model it is, and how an image becomes its input."""
    preprocessing = {
        "colour": "grey" if info.channels == 1 else "RGB",
        "resize": f"shorter side to {info.size}, bicubic",
        "crop": f"centre, {info.size} x {info.size}",
        "scale": "divide by 255",
        "layout": "batch, channel, row, column",
    }
    if info.inputs:
        preprocessing = {"input": f"vectors of length {info.inputs}, as they are", "source": info.source}
    if info.invert:
        preprocessing["scale"] = "subtract from 255, divide by 255"
    if info.backbone.startswith(PREFIX):  # which standardises nothing
        preprocessing["mean"] = "subtract " + ", ".join(map(str, info.mean))
        preprocessing["deviation"] = "divide by " + ", ".join(map(str, info.deviation))
        preprocessing["features"] = f"run backbone.onnx, SHA-256 {info.backbone.removeprefix(PREFIX)}"
    return {
        "format": ONNX_FORMAT,
        "fingerprint": fingerprint,
        "encoder": _to_json(info),
        "preprocessing": json.dumps(preprocessing),
    }


def read_onnx_metadata(path: Path, metadata: Mapping[str, str]) -> tuple[EncoderInfo, str]:
    """Return the description and the fingerprint of an encoder.onnx with these metadata."""
    check_format(path, metadata, (ONNX_FORMAT,))
    if not metadata.get("fingerprint"):
        raise InputError(f"{path} is not a whole encoder: it has no fingerprint")
    return _read_info(path, metadata, "encoder"), metadata["fingerprint"]


def _to_json(info: EncoderInfo) -> str:
    """Return a description as text; what was added later is left out at its default.

    So the fingerprints of runs and indexes made before stay the same.
    """
    later = {field.name: field.default for field in fields(info) if field.name in LATER}
    values = {name: value for name, value in asdict(info).items() if value != later.get(name, ...)}
    return json.dumps(values, sort_keys=True)


def _read_info(path: Path, metadata: Mapping[str, str], what: str) -> EncoderInfo:
    try:
        values: dict[str, Any] = json.loads(metadata["encoder"])
        for name in ("mean", "deviation", "classes"):
            values[name] = tuple(values[name])
        return EncoderInfo(**values).check()
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{path} is not a whole {what}: {reason_of(error)}") from None
