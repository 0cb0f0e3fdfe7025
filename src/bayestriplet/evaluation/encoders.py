"""An encoder out of its file, and into it."""

from pathlib import Path

from bayestriplet.errors import InputError, reason_of
from bayestriplet.model.encoder import Encoder
from bayestriplet.model.info import EncoderInfo
from bayestriplet.model.onnx_file import PREFIX, split_output
from bayestriplet.runs.encoder_files import read_model, write_model
from bayestriplet.runs.folder import RunFolder
from bayestriplet.runs.tensors import Tensors


def save_encoder(encoder: Encoder, path: Path) -> None:
    """Write weights and description of an encoder to one file."""
    write_model(path, encoder.info, encoder.arrays())


def load_encoder(path: Path, trusted: str | None = None) -> Encoder:
    """Build the encoder that a file describes, with its weights, in eval mode.

    A file runs no code: a backbone of the form "package:factory" is built only if it is the
    ``trusted`` one, which the caller has from somebody else than the file. A backbone that is an ONNX
    file is looked for beside it, and is only what its recorded hash says.
    """
    info, tensors = read_model(path)
    if info.backbone.startswith(PREFIX):
        return _restore(path, info, tensors, _find_onnx(path, trusted))
    if ":" in info.backbone and info.backbone != trusted:
        raise InputError(
            f"{path} needs the backbone {info.backbone!r}, which is code: "
            f"give --backbone {info.backbone} to run it"
        )
    return _restore(path, info, tensors)


def _find_onnx(path: Path, named: str | None) -> str | None:
    """Return the ONNX file of a model: beside it, or where one that has none says."""
    beside = RunFolder(path.parent).backbone
    if beside.is_file():
        return str(beside)
    return str(split_output(named)[0]) if named and named.startswith(PREFIX) else None


def _restore(path: Path, info: EncoderInfo, tensors: Tensors, weights: str | None = None) -> Encoder:
    try:
        return Encoder(info, weights).restore(tensors)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is not a whole model: {reason_of(error)}") from None
