"""What has to be known to build an encoder again and to feed it. No torch."""

import re
from dataclasses import dataclass

from bayestriplet.checks import VECTORS

LONGEST = 65_536  # numbers of a vector that is taken in place of an image
ONNX = re.compile("onnx:[0-9a-f]{64}(#.+)?")  # the hash of a file, and the output that is used
HEADS = ("none", "linear", "mlp")


@dataclass(frozen=True)
class EncoderInfo:
    """The description of an encoder that its files carry."""

    backbone: str
    width: float
    dim: int
    channels: int
    size: int
    mean: tuple[float, ...]  # of the training pixels in 0 .. 1, per channel
    deviation: tuple[float, ...]
    normalize: bool
    classes: tuple[str, ...]
    head: str = "none"  # what makes an embedding of the backbone's features: none, linear or mlp
    bits: int = 16  # that 16-bit files are scaled by which do not say themselves how many they hold
    inputs: int = 0  # length of the vectors that it takes in place of images; 0 for images
    source: str = ""  # what these vectors come from
    invert: bool = False  # whether image files are read with dark and light exchanged

    def check(self) -> "EncoderInfo":
        """Return it if every value is of its type and in a sensible range; a file may say anything."""
        numbers = [*self.mean, *self.deviation, self.width]
        right = self._checks_input() and (
            isinstance(self.backbone, str)
            and (not self.backbone.startswith("onnx:") or ONNX.fullmatch(self.backbone) is not None)
            and all(isinstance(value, float | int) for value in numbers)
            and self.width in (0.25, 0.5, 1)
            and self.head in HEADS
            and isinstance(self.dim, int)
            and 1 <= self.dim <= 4096
            and isinstance(self.normalize, bool)
            and all(isinstance(name, str) for name in self.classes)
            and isinstance(self.bits, int)
            and 8 <= self.bits <= 16
            and isinstance(self.invert, bool)
        )
        if not right:
            raise ValueError("its description of the encoder makes no sense")
        return self

    def _checks_input(self) -> bool:
        """Whether what is said of the images or vectors that it takes makes sense."""
        if not isinstance(self.inputs, int) or not isinstance(self.source, str):
            return False
        if self.inputs or self.backbone == VECTORS:
            images = self.channels, self.size, self.mean, self.deviation
            whole = self.backbone == VECTORS and self.head in HEADS[1:]
            return whole and 1 <= self.inputs <= LONGEST and images == (0, 0, (), ())
        return (
            self.channels in (1, 3)
            and len(self.mean) == len(self.deviation)
            and len(self.mean) in (self.channels, 3)  # a grey image is repeated over three
            and isinstance(self.size, int)
            and 1 <= self.size <= 1024
        )

    @property
    def needs(self) -> str:
        """What it takes, in words."""
        return f"vectors of length {self.inputs} (from {self.source})" if self.inputs else "images"
