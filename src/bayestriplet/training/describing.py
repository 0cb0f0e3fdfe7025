"""What an encoder is said to be: its network, what it takes, and how pixels are standardised."""

from bayestriplet.config import TrainConfig
from bayestriplet.data.dataset import LabelledImages
from bayestriplet.data.vectors import LabelledVectors
from bayestriplet.evaluation.embeddings import pixel_statistics
from bayestriplet.evaluation.weights import is_official, statistics_of
from bayestriplet.model.info import EncoderInfo
from bayestriplet.training.events import OnEvent, WarningEvent
from bayestriplet.training.onnx_start import name_in_files, pixel_values

OWN_STATISTICS = (
    "the weights are none that are known by their digest: pixels are standardised by the mean and deviation "
    "of the training images"
)


def describe_encoder(config: TrainConfig, images: LabelledImages, on_event: OnEvent) -> EncoderInfo:
    """Return what the encoder of a training is."""
    mean, deviation = _pixel_statistics(config, images, on_event)
    return EncoderInfo(
        backbone=name_in_files(config) if config.is_onnx else config.backbone or "",
        width=config.width,
        dim=config.dim,
        channels=images.channels,
        size=images.size,
        mean=mean,
        deviation=deviation,
        normalize=bool(config.normalize),
        classes=images.classes,
        head=config.head or "none",
        bits=images.bits,
        inputs=images.length,
        source=images.origin if isinstance(images, LabelledVectors) else "",
        invert=images.invert,
    )


def _pixel_statistics(
    config: TrainConfig, images: LabelledImages, on_event: OnEvent
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and deviation of the pixels, of which vectors have none."""
    if images.length:
        return (), ()
    if config.is_onnx:
        return pixel_values(config)
    if is_official(config.backbone or "", config.weights):
        return statistics_of(config.backbone or "")
    if config.weights is not None:
        on_event(WarningEvent(OWN_STATISTICS, is_note=True))
    return pixel_statistics(images, images.indices("train"), config.workers or 0)
