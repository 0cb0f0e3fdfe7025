"""The encoder of a run: from pixels to the vectors that the posterior saw, in one file."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from bayestriplet.errors import InputError, reason_of
from bayestriplet.model.backbone import build_backbone

FORMAT = 1


@dataclass(frozen=True)
class EncoderInfo:
    """What has to be known to build an encoder again and to feed it."""

    backbone: str
    width: float
    dim: int
    channels: int
    size: int
    mean: tuple[float, ...]  # of the training pixels in 0 .. 1, a channel
    deviation: tuple[float, ...]
    normalize: bool
    classes: tuple[str, ...]


class Encoder(nn.Module):
    """Standardises images (B, C, H, W) in 0 .. 1 and embeds them (B, D), on the sphere by option."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, info: EncoderInfo, weights: str | None = None) -> None:
        super().__init__()
        self.info = info
        network = build_backbone(info.backbone, info.channels, info.dim, info.width, weights)
        # The faster memory layout for convolutions on CPUs and GPUs alike.
        self.backbone = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.register_buffer("mean", torch.tensor(info.mean).view(1, -1, 1, 1), persistent=False)
        self.register_buffer("deviation", torch.tensor(info.deviation).view(1, -1, 1, 1), persistent=False)
        if ":" in info.backbone:
            self._try_backbone()

    def _try_backbone(self) -> None:
        """Raise unless a backbone of the user's makes embeddings of such images, before any training."""
        info, training = self.info, self.training
        try:
            with torch.no_grad():
                shape = tuple(self.eval().features(torch.zeros(2, info.channels, info.size, info.size)).shape)
        except Exception as error:
            raise InputError(
                f"backbone {info.backbone!r} fails on images of {info.channels} x {info.size} x {info.size}: "
                f"{reason_of(error)}"
            ) from None
        if shape != (2, info.dim):
            raise InputError(f"backbone {info.backbone!r} must return (B, {info.dim}); got {shape} for B = 2")
        self.train(training)

    def features(self, images: Tensor) -> Tensor:
        """Return the embeddings before normalisation: what a criterion takes."""
        standard = (images - self.mean) / self.deviation
        embeddings: Tensor = self.backbone(standard.contiguous(memory_format=torch.channels_last))
        return embeddings

    def forward(self, images: Tensor) -> Tensor:
        """Return the embeddings (B, D) as the posterior sees them."""
        embeddings = self.features(images)
        return normalize(embeddings) if self.info.normalize else embeddings


def check_info(info: EncoderInfo) -> EncoderInfo:
    """Return what a file says if every value is of its type and in a sensible range."""
    numbers = [*info.mean, *info.deviation, info.width]
    right = (
        isinstance(info.backbone, str)
        and all(isinstance(value, float | int) for value in numbers)
        and info.width in (0.25, 0.5, 1)
        and info.channels in (1, 3)
        and len(info.mean) == len(info.deviation) == info.channels
        and isinstance(info.dim, int)
        and 1 <= info.dim <= 4096
        and isinstance(info.size, int)
        and 1 <= info.size <= 1024
        and isinstance(info.normalize, bool)
        and all(isinstance(name, str) for name in info.classes)
    )
    if not right:
        raise ValueError("its description of the encoder makes no sense")
    return info


def save_encoder(encoder: Encoder, path: Path) -> None:
    """Write weights and info to one safetensors file."""
    from safetensors.torch import save_file

    tensors = {name: value.contiguous().clone() for name, value in encoder.state_dict().items()}
    save_file(tensors, path, {"format": str(FORMAT), "encoder": json.dumps(asdict(encoder.info))})


def load_encoder(path: Path, trusted: str | None = None) -> Encoder:
    """Build the encoder that a file describes, with its weights, in eval mode.

    A file runs no code: a backbone of the form "package:factory" is built only if it is the
    ``trusted`` one, which the caller has from somebody else than the file.
    """
    from safetensors import safe_open
    from safetensors.torch import load_file

    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
        tensors = load_file(path)
    except Exception as error:
        raise InputError(f"{path} cannot be read as a model: {reason_of(error)}") from None
    if metadata.get("format") != str(FORMAT):
        raise InputError(f"{path} has format {metadata.get('format')!r}; this version reads {FORMAT}")
    try:
        values: dict[str, Any] = json.loads(metadata["encoder"])
        for name in ("mean", "deviation", "classes"):
            values[name] = tuple(values[name])
        info = check_info(EncoderInfo(**values))
        if ":" in info.backbone and info.backbone != trusted:
            raise InputError(
                f"{path} needs the backbone {info.backbone!r}, which is code: "
                f"give --backbone {info.backbone} to run it"
            )
        encoder = Encoder(info)
        encoder.load_state_dict(tensors)
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{path} is not a whole model: {reason_of(error)}") from None
    return encoder.eval()
