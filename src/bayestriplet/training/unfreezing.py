"""The network of a frozen run, to be trained as a whole."""

from dataclasses import replace
from pathlib import Path

from bayestriplet.config import TrainConfig
from bayestriplet.data.dataset import LabelledImages
from bayestriplet.errors import InputError
from bayestriplet.evaluation.encoders import load_encoder
from bayestriplet.model.encoder import Encoder
from bayestriplet.runs.folder import RunFolder
from bayestriplet.runs.unfreezing import open_frozen

NOTE = (
    "goes on from {run}: the whole {backbone} is trained, its backbone at a tenth of the rate of its head, "
    "and batch normalisation keeps its statistics"
)


def unfreeze(config: TrainConfig, images: LabelledImages) -> Encoder:
    """Return the network of the frozen run that the options name, with its weights, for these images."""
    path = Path(config.unfreeze_from or "")
    open_frozen(path)
    before = load_encoder(RunFolder(path).model)
    if before.info.channels != images.channels:
        raise InputError(
            f"{config.data} has {images.channels} channels; {path} was trained on {before.info.channels}"
        )
    info = replace(
        before.info,
        classes=images.classes,
        normalize=bool(config.normalize),
        size=images.size,
        bits=images.bits,
        invert=images.invert,
    )
    whole = Encoder(info).restore(before.arrays())
    whole.keeps_statistics = True
    return whole.train()
