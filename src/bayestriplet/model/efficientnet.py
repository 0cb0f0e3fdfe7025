"""EfficientNet-Lite0 (Tan and Le 2019, the variant for small devices): 3.4 million weights."""

import re
from collections.abc import Mapping

from torch import Tensor, nn
from torch.nn.functional import pad

FEATURES = 1280
STEM = 32
# Kernel, stride, expansion, channels and repeats of every stage.
STAGES = (
    (3, 1, 1, 16, 1),
    (3, 2, 6, 24, 2),
    (5, 2, 6, 40, 2),
    (3, 2, 6, 80, 3),
    (5, 1, 6, 112, 3),
    (5, 2, 6, 192, 4),
    (3, 1, 6, 320, 1),
)
# Names in the published file, and here.
NAMES = {
    r"^_conv_stem\.": "stem.conv.",
    r"^_bn0\.": "stem.norm.",
    r"^_conv_head\.": "head.conv.",
    r"^_bn1\.": "head.norm.",
    r"^_blocks\.": "blocks.",
    r"\._expand_conv\.": ".expand.conv.",
    r"\._bn0\.": ".expand.norm.",
    r"\._depthwise_conv\.": ".depthwise.conv.",
    r"\._bn1\.": ".depthwise.norm.",
    r"\._project_conv\.": ".project.conv.",
    r"\._bn2\.": ".project.norm.",
}


class SamePad(nn.Module):
    """Zeros around a map, so that a convolution of stride s makes ceil(side / s) of a side."""

    def __init__(self, kernel: int, stride: int) -> None:
        super().__init__()
        self.kernel, self.stride = kernel, stride

    def forward(self, x: Tensor) -> Tensor:
        """Pad x (B, C, H, W)."""
        sides = []
        for side in (int(x.shape[3]), int(x.shape[2])):
            more = max((-(-side // self.stride) - 1) * self.stride + self.kernel - side, 0)
            sides += [more // 2, more - more // 2]
        return pad(x, sides)


class ConvNorm(nn.Sequential):
    """A convolution, batch normalisation and, unless it is the last of a block, ReLU6."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int = 1,
        stride: int = 1,
        groups: int = 1,
        linear: bool = False,
    ) -> None:
        super().__init__()
        if kernel > 1:
            self.add_module("pad", SamePad(kernel, stride))
        self.add_module("conv", nn.Conv2d(inputs, outputs, kernel, stride, groups=groups, bias=False))
        self.add_module("norm", nn.BatchNorm2d(outputs, eps=1e-3, momentum=0.01))
        if not linear:
            self.add_module("relu", nn.ReLU6())


class Block(nn.Module):
    """An inverted residual: widen, filter every channel, narrow; added to its input where shapes agree."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = inputs * expansion
        self.expand = ConvNorm(inputs, wide) if expansion > 1 else nn.Identity()
        self.depthwise = ConvNorm(wide, wide, kernel, stride, groups=wide)
        self.project = ConvNorm(wide, outputs, linear=True)
        self.is_residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        """Map x (B, inputs, H, W) to (B, outputs, H / stride, W / stride)."""
        y: Tensor = self.project(self.depthwise(self.expand(x)))
        return x + y if self.is_residual else y


class EfficientNetLite0(nn.Module):
    """From images (B, 3, H, W) to features (B, 1280): the mean over the last map."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = ConvNorm(3, STEM, 3, 2)
        blocks, inputs = [], STEM
        for kernel, stride, expansion, outputs, repeats in STAGES:
            for turn in range(repeats):
                blocks.append(Block(inputs, outputs, kernel, 1 if turn else stride, expansion))
                inputs = outputs
        self.blocks = nn.Sequential(*blocks)
        self.head = ConvNorm(inputs, FEATURES)

    def forward(self, images: Tensor) -> Tensor:
        """Return the features (B, 1280)."""
        features: Tensor = self.head(self.blocks(self.stem(images))).mean((2, 3))
        return features


def rename_published(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors of the published file under our names, without its classifier."""
    out = {}
    for key, value in state.items():
        if key.startswith("_fc."):
            continue
        name = key
        for pattern, replacement in NAMES.items():
            name = re.sub(pattern, replacement, name)
        out[name] = value
    return out
