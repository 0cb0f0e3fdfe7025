"""The encoder of a run: from pixels to the vectors that the posterior saw."""

from collections.abc import Mapping
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import normalize
from torch.nn.modules.batchnorm import _BatchNorm

from bayestriplet.errors import InputError, reason_of
from bayestriplet.model.backbone import build_backbone, build_features, build_head, build_onnx
from bayestriplet.model.info import EncoderInfo
from bayestriplet.model.onnx_file import PREFIX


class Encoder(nn.Module):
    """Standardises images (B, C, H, W) in 0 .. 1 and embeds them (B, D), on the sphere by option.

    Vectors (B, F) in place of images go through the head as they are.
    ``weights`` are official ones that a network begins with, or the file of one that is an ONNX file.
    """

    mean: Tensor
    deviation: Tensor
    keeps_statistics = False
    """Whether batch normalisation of the backbone goes by what it knows, not by its batch, in training."""

    def __init__(self, info: EncoderInfo, weights: str | None = None) -> None:
        super().__init__()
        self.info = info
        inputs = len(info.mean)  # a grey image is repeated over three channels where its mean has three
        self.head: nn.Module = nn.Identity()
        if info.inputs:
            self.backbone: nn.Module = nn.Identity()
            self.head = build_head(info.head, info.inputs, info.dim)
            return
        if info.backbone.startswith(PREFIX):
            network, number = build_onnx(info, weights)
            self.head = build_head(info.head, number, info.dim)
        elif info.head == "none":
            network = build_backbone(info.backbone, inputs, info.dim, info.width, weights)
        else:
            network, number = build_features(info.backbone, inputs, info.width, weights)
            self.head = build_head(info.head, number, info.dim)
        # The faster memory layout for convolutions on CPUs and GPUs alike.
        self.backbone = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.register_buffer("mean", torch.tensor(info.mean).view(1, -1, 1, 1), persistent=False)
        self.register_buffer("deviation", torch.tensor(info.deviation).view(1, -1, 1, 1), persistent=False)
        if ":" in info.backbone and info.head == "none":
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

    def train(self, mode: bool = True) -> "Encoder":
        """Set the mode; statistics that are kept stay as they are."""
        super().train(mode)
        if self.keeps_statistics:
            for module in self.backbone.modules():
                if isinstance(module, _BatchNorm):
                    module.eval()
        return self

    def features(self, images: Tensor) -> Tensor:
        """Return the embeddings before normalisation: what a criterion takes."""
        embeddings: Tensor = self.head(self.describe(images))
        return embeddings

    def describe(self, images: Tensor) -> Tensor:
        """Return the backbone's output (B, F) for images (B, C, H, W) in 0 .. 1; vectors stay as they are."""
        if self.info.inputs:
            return images
        standard = (images - self.mean) / self.deviation
        features: Tensor = self.backbone(standard.contiguous(memory_format=torch.channels_last))
        return features

    def forward(self, images: Tensor) -> Tensor:
        """Return the embeddings (B, D) as the posterior sees them."""
        embeddings = self.features(images)
        return normalize(embeddings) if self.info.normalize else embeddings

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the weights as arrays by name, each with memory of its own."""
        return {name: value.detach().cpu().contiguous().numpy() for name, value in self.state_dict().items()}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> "Encoder":
        """Load weights that :meth:`arrays` returned, and return the encoder in eval mode."""
        self.load_state_dict({name: torch.from_numpy(value) for name, value in arrays.items()})
        return self.eval()


class HeadEncoder(nn.Module):
    """The head of an encoder alone, for features that were computed once: (B, F) to embeddings (B, D)."""

    def __init__(self, whole: Encoder) -> None:
        super().__init__()
        self.info = whole.info
        self.head = whole.head

    def features(self, features: Tensor) -> Tensor:
        """Return the embeddings before normalisation: what a criterion takes."""
        embeddings: Tensor = self.head(features)
        return embeddings

    def forward(self, features: Tensor) -> Tensor:
        """Return the embeddings (B, D) as the posterior sees them."""
        embeddings = self.features(features)
        return normalize(embeddings) if self.info.normalize else embeddings
