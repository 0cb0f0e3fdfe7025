"""Whether data are what the encoder of a run takes: images, or vectors of its length."""

from bayestriplet.checks import is_vectors
from bayestriplet.data.dataset import LabelledImages
from bayestriplet.errors import InputError
from bayestriplet.model.info import EncoderInfo


def check_kind(info: EncoderInfo, data: str) -> None:
    """Raise if vectors are given for images or the reverse, before anything is read."""
    if info.inputs and not is_vectors(data):
        raise InputError(f"the run needs {info.needs}, not images: give vectors:FILE in place of {data}")
    if is_vectors(data) and not info.inputs:
        raise InputError(f"the run needs images; {data} holds vectors: train a run on vectors for these")


def check_length(info: EncoderInfo, length: int, name: str) -> None:
    """Raise unless vectors have the length that the encoder takes."""
    if length != info.inputs:
        raise InputError(f"the run needs {info.needs}; {name} has {length}")


def check_inputs(info: EncoderInfo, images: LabelledImages, data: str) -> None:
    """Raise if the vectors of some data have another length than the encoder takes."""
    if info.inputs:
        check_length(info, images.length, data.partition(":")[2])
