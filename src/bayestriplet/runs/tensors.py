"""Files of tensors with a few words about them: safetensors, the same bytes for the same content."""

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from bayestriplet.errors import InputError, reason_of
from bayestriplet.runs.checksums import record_bytes, verify

Tensors = dict[str, NDArray[Any]]
ALIGNMENT = 8  # bytes, of the header


def write_tensors(path: Path, tensors: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> None:
    """Write tensors by name and metadata; equal ones become equal files."""
    content = save({name: np.asarray(value, order="C") for name, value in tensors.items()}, dict(metadata))
    record_bytes(path, _in_order(content))


def _in_order(content: bytes) -> bytes:
    """Return a safetensors file with its header sorted: the library writes metadata in random order."""
    (size,) = struct.unpack("<Q", content[:8])
    header = json.dumps(json.loads(content[8 : 8 + size]), sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % ALIGNMENT)
    return struct.pack("<Q", len(header)) + header + content[8 + size :]


def read_tensors(path: Path, what: str) -> tuple[Tensors, dict[str, str]]:
    """Return the tensors and metadata of a file, which is expected to be ``what``, such as "a model"."""
    verify(path)
    try:
        with safe_open(path, "np") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except (OSError, SafetensorError, TypeError, ValueError) as error:
        raise InputError(f"{path} cannot be read as {what}: {reason_of(error)}") from None


def read_metadata(path: Path, what: str) -> dict[str, str]:
    """Return the metadata of a file alone."""
    verify(path)
    try:
        with safe_open(path, "np") as file:
            return file.metadata() or {}
    except (OSError, SafetensorError, ValueError) as error:
        raise InputError(f"{path} cannot be read as {what}: {reason_of(error)}") from None


def check_format(path: Path, metadata: Mapping[str, str], known: tuple[str, ...]) -> str:
    """Return the format that the metadata of a file name, if this version reads it."""
    found = metadata.get("format")
    if found not in known:
        raise InputError(f"{path} has format {found!r}; this version reads {' and '.join(known)}")
    return str(found)
