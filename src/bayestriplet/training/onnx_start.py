"""What a backbone from an ONNX file takes: from its options, from the file itself, or ImageNet's pixels."""

from pathlib import Path

from bayestriplet.config import TrainConfig, to_numbers
from bayestriplet.errors import InputError
from bayestriplet.evaluation.weights import STATISTICS
from bayestriplet.model.onnx_file import (
    PREFIX,
    OnnxBackbone,
    open_backbone,
    refuse_external_data,
    split_output,
)

PIXELS = ("input_mean", "input_deviation", "input_range")  # keys of metadata as well
ASSUMED = (
    "{path} does not say which pixels it takes: those of ImageNet are assumed, mean {mean} and deviation "
    "{deviation} of values in 0 to 1; --input-mean and --input-deviation say otherwise"
)


def settle_onnx(config: TrainConfig, kept: Path | None = None) -> tuple[TrainConfig, str]:
    """Return the options with what an ONNX backbone takes filled in, and a note where that is assumed.

    ``kept`` is the copy of the file in a run that goes on. Other backbones change nothing.
    """
    if not config.is_onnx:
        return config, ""
    path, output = split_output(config.backbone or "")
    source = kept if kept is not None and kept.is_file() else path
    refuse_external_data(source)
    opened = open_backbone(source, output, config.backbone_sha256 or "")
    if opened.size and config.size not in (None, opened.size):
        raise InputError(f"--size {config.size}: {path} takes images of {opened.size} pixels; leave it out")
    mean, deviation, highest, note = _find_pixels(config, opened)
    changes = {
        "backbone": f"{PREFIX}{path.absolute()}{'#' * bool(output)}{output}",
        "backbone_sha256": opened.sha256,
        "freeze": True,
        "head": config.head or "linear",
        "size": config.size or opened.size or None,
        "input_mean": _in_full(mean, opened, "input_mean"),
        "input_deviation": _in_full(deviation, opened, "input_deviation"),
        "input_range": highest,
    }
    return config.model_copy(update=changes), note


def pixel_values(config: TrainConfig) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and deviation, per channel of the network, of pixels in 0 .. 1."""
    highest = config.input_range or 1
    mean, deviation = (
        tuple(one / highest for one in to_numbers((text or "0").split(",")))
        for text in (config.input_mean, config.input_deviation)
    )
    return mean, deviation


def name_in_files(config: TrainConfig) -> str:
    """Return how the files of a run name its backbone: by its hash, wherever it lies, and its output."""
    output = split_output(config.backbone or "")[1]
    return f"{PREFIX}{config.backbone_sha256}{'#' * bool(output)}{output}"


def _find_pixels(config: TrainConfig, opened: OnnxBackbone) -> tuple[str, str, int, str]:
    """Return mean, deviation, the highest pixel value they refer to, and a note where they are assumed."""
    if config.input_mean is not None and config.input_deviation is not None:
        return config.input_mean, config.input_deviation, config.input_range or 1, ""
    said = opened.metadata
    if "input_mean" in said and "input_deviation" in said:
        values = {name: value for name, value in said.items() if name in PIXELS}
        try:
            found = TrainConfig.model_validate(values | {"data": "", "backbone": config.backbone})
        except ValueError:
            raise InputError(
                f"{opened.path}: its metadata input_mean, input_deviation and input_range make no sense; "
                "give --input-mean and --input-deviation"
            ) from None
        return found.input_mean or "", found.input_deviation or "", found.input_range or 1, ""
    if {"encoder", "fingerprint"} <= said.keys():  # one of ours standardises by itself
        return "0.0", "1.0", 1, ""
    known = [list(values) for values in STATISTICS["resnet"]]
    if opened.channels == 1:  # that of the colours together
        known = [[round(sum(values) / 3, 3)] for values in known]
    texts = [",".join(map(str, values)) for values in known]
    note = ASSUMED.format(path=opened.path, mean=texts[0], deviation=texts[1])
    return texts[0], texts[1], 1, note


def _in_full(text: str, opened: OnnxBackbone, name: str) -> str:
    """Return as many numbers as the network has channels."""
    numbers = text.split(",")
    if len(numbers) not in (1, opened.channels):
        raise InputError(f"{name} has {len(numbers)} numbers; {opened.path} takes {opened.channels} channels")
    return ",".join(numbers * (opened.channels // len(numbers)))
