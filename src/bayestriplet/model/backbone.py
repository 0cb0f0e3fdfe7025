"""Backbones: the ResNet family of MONAI, official weights for it, or a factory of the user's."""

import importlib
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from bayestriplet.checks import check_choice
from bayestriplet.errors import InputError, reason_of
from bayestriplet.model.efficientnet import FEATURES, EfficientNetLite0, rename_published
from bayestriplet.model.info import EncoderInfo
from bayestriplet.model.onnx_file import PREFIX, OnnxBackbone, open_backbone

EFFICIENTNET = "efficientnet-lite0"
LAYERS = {"resnet18": (2, 2, 2, 2), "resnet34": (3, 4, 6, 3), "resnet50": (3, 4, 6, 3)}
BACKBONES = (*LAYERS, EFFICIENTNET)
BLOCKS = {"resnet18": "basic", "resnet34": "basic", "resnet50": "bottleneck"}


def build_backbone(
    name: str, channels: int, dim: int, width: float = 1.0, weights: str | None = None
) -> nn.Module:
    """Return a network from images (B, channels, H, W) to embeddings (B, dim), freshly initialised.

    ``name`` is a ResNet, or "package:factory": ``factory(channels, dim)`` must return such a module.
    """
    if ":" in name:
        if weights is not None:
            raise InputError("weights are for the ResNets; a backbone of your own loads its own")
        return _from_factory(name, channels, dim)
    check_choice("backbone", name, LAYERS)
    from monai.networks.nets.resnet import ResNet

    network: nn.Module = ResNet(
        block=BLOCKS[name],
        layers=list(LAYERS[name]),
        block_inplanes=[64, 128, 256, 512],
        spatial_dims=2,
        n_input_channels=channels,
        conv1_t_size=7,
        conv1_t_stride=2,
        shortcut_type="B",
        widen_factor=width,
        num_classes=dim,
        bias_downsample=False,
    )
    if weights is not None:
        _load_weights(network, Path(weights), channels)
    return network


def build_features(
    name: str, channels: int, width: float = 1.0, weights: str | None = None
) -> tuple[nn.Module, int]:
    """Return a network from images (B, channels, H, W) to features (B, F) for a head, and F."""
    check_choice("backbone", name, BACKBONES)
    if name == EFFICIENTNET:
        if channels != 3:
            raise InputError(f"{name} takes images of 3 channels; got {channels}")
        network = EfficientNetLite0()
        if weights is not None:
            _load_into(network, rename_published(_read_state(Path(weights))), weights)
        return network, FEATURES
    resnet: Any = build_backbone(name, channels, 1, width, weights)
    number = int(resnet.fc.in_features)
    resnet.fc = nn.Identity()
    return resnet, number


class OnnxFeatures(nn.Module):
    """An ONNX file as a network without parameters: standardised images (B, C, H, W) to features (B, F)."""

    def __init__(self, file: OnnxBackbone) -> None:
        super().__init__()
        self.file = file

    def forward(self, images: Tensor) -> Tensor:
        """Return the features, computed on the CPU."""
        return torch.from_numpy(self.file.describe(images.detach().cpu().numpy())).to(images.device)


def build_onnx(info: EncoderInfo, path: str | None) -> tuple[nn.Module, int]:
    """Return the network of an ONNX file, which must be the one that a description names, and its F."""
    digest, _, output = info.backbone.removeprefix(PREFIX).partition("#")
    if path is None:
        raise InputError(f"the ONNX file of the backbone is missing (SHA-256 {digest[:12]}...): name it, "
                         "--backbone onnx:FILE")  # fmt: skip
    network = OnnxFeatures(open_backbone(Path(path), output, digest))
    # Two images: the features of each must be its own.
    return network, network(torch.zeros(2, len(info.mean), info.size, info.size)).shape[1]


def build_head(kind: str, features: int, dim: int) -> nn.Module:
    """Return a head from features (B, F) to embeddings (B, dim): linear, or with F hidden units."""
    if kind == "linear":
        return nn.Linear(features, dim)
    return nn.Sequential(nn.Linear(features, features), nn.ReLU(), nn.Linear(features, dim))


def _from_factory(name: str, channels: int, dim: int) -> nn.Module:
    package, _, attribute = name.partition(":")
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))  # a module beside the user, as `python -m` would find it
    try:
        factory = getattr(importlib.import_module(package), attribute)
    except Exception as error:
        raise InputError(f"backbone {name!r} cannot be imported: {error}") from None
    try:
        network = factory(channels, dim)
    except Exception as error:
        raise InputError(f"backbone {name!r} cannot be built with ({channels}, {dim}): {error}") from None
    if not isinstance(network, nn.Module):
        raise InputError(f"backbone {name!r} must return a torch module; got {type(network).__name__}")
    return network


def _load_weights(network: nn.Module, path: Path, channels: int) -> None:
    """Load official weights, all but the last layer; a grey image takes the sum over the colours' filters."""
    state = _read_state(path)
    state = {key: value for key, value in state.items() if not key.startswith("fc.")}
    if channels == 1 and "conv1.weight" in state:
        state["conv1.weight"] = state["conv1.weight"].sum(1, keepdim=True)
    _load_into(network, state, path)


def _load_into(network: nn.Module, state: dict[str, Tensor], path: str | Path) -> None:
    """Load tensors that must be all of the network's, but for its last layer."""
    own = network.state_dict()
    wrong = [key for key, value in state.items() if key not in own or own[key].shape != value.shape]
    # Older files lack the counters of batches that batch normalisation has kept since.
    missing = [key for key in own if key not in state and not key.endswith("num_batches_tracked")]
    missing = [key for key in missing if not key.startswith("fc.")]
    if wrong or missing:
        raise InputError(
            f"{path} does not fit this backbone: {len(wrong)} tensors differ, {len(missing)} are missing "
            f"(first: {(wrong + missing)[0]}); it needs the same network at width 1"
        )
    network.load_state_dict(state, strict=False)


def _read_state(path: Path) -> dict[str, Tensor]:
    """Read tensors by name; a .pth file is read without ever running code of it."""
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise InputError(
            f"{path} cannot be read as weights: {type(error).__name__} ({reason_of(error)[:100]})"
        ) from None
    if not isinstance(state, dict) or not all(isinstance(value, Tensor) for value in state.values()):
        raise InputError(f"{path} holds no state dict: tensors by name are needed")
    return state
