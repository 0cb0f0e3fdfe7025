"""An encoder out of its file, and into it."""

from pathlib import Path

from bayestriplet.errors import InputError, reason_of
from bayestriplet.model.encoder import Encoder
from bayestriplet.runs.encoder_files import read_model, write_model


def save_encoder(encoder: Encoder, path: Path) -> None:
    """Write weights and description of an encoder to one file."""
    write_model(path, encoder.info, encoder.arrays())


def load_encoder(path: Path, trusted: str | None = None) -> Encoder:
    """Build the encoder that a file describes, with its weights, in eval mode.

    A file runs no code: a backbone of the form "package:factory" is built only if it is the
    ``trusted`` one, which the caller has from somebody else than the file.
    """
    info, tensors = read_model(path)
    if ":" in info.backbone and info.backbone != trusted:
        raise InputError(
            f"{path} needs the backbone {info.backbone!r}, which is code: "
            f"give --backbone {info.backbone} to run it"
        )
    try:
        return Encoder(info).restore(tensors)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is not a whole model: {reason_of(error)}") from None
