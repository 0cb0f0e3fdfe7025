"""Some of the classes, known on the device and on the host."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bayestriplet.posterior import host


@dataclass
class Chosen:
    """Classes (P,), as a tensor and, where they are known on the host, as an array. All K are ascending."""

    classes: Tensor
    known: NDArray[np.int64] | None

    @property
    def numbers(self) -> NDArray[np.int64]:
        """The classes on the host, which are read from the device if they have to be."""
        if self.known is None:
            (self.known,) = host.read(self.classes)
        return self.known

    def __len__(self) -> int:
        return self.classes.shape[0]

    @classmethod
    def all_of(cls, num_classes: int, like: Tensor) -> "Chosen":
        """Return all classes, on the device of ``like``."""
        return cls(torch.arange(num_classes, device=like.device), np.arange(num_classes))

    def sorted(self) -> "Chosen":
        """Return them in ascending order."""
        return Chosen(self.classes.sort().values, None if self.known is None else np.sort(self.known))

    def at(self, mask: NDArray[np.bool_]) -> "Chosen":
        """Return those where a mask (P,) is true."""
        if mask.all():
            return self
        numbers = self.numbers[mask]
        return Chosen(host.send(self.classes, numbers)[0], numbers)


def take(tensor: Tensor, classes: Tensor) -> Tensor:
    """Return the rows of distinct, ascending ``classes`` (P,): a copy, unless that is all of them."""
    return tensor if classes.shape[0] == tensor.shape[0] else tensor.index_select(0, classes)


def put_(tensor: Tensor, classes: Tensor, rows: Tensor) -> None:
    """Replace the rows of distinct, ascending ``classes``, in place."""
    if classes.shape[0] == tensor.shape[0]:
        tensor.copy_(rows)
    else:
        tensor.index_copy_(0, classes, rows)
