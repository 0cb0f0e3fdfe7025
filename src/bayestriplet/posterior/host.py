"""Bringing small tensors to the host: the only place where a training step waits for the device."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def read(*tensors: Tensor) -> list[NDArray[Any]]:
    """Return small tensors as arrays, all by one transfer; integers must be below 2^53.

    On a CPU the arrays are the tensors' own memory: read them before the tensors change.
    """
    if all(tensor.device.type == "cpu" for tensor in tensors):
        return [tensor.detach().numpy() for tensor in tensors]
    flat = torch.cat([tensor.detach().flatten().double() for tensor in tensors]).cpu().numpy()
    parts = np.split(flat, np.cumsum([tensor.numel() for tensor in tensors])[:-1])
    return [
        part.reshape(tuple(tensor.shape)).astype(np.float64 if tensor.is_floating_point() else np.int64)
        for part, tensor in zip(parts, tensors, strict=True)
    ]


def send(array: NDArray[np.int64], like: Tensor) -> Tensor:
    """Return an array as a tensor on the device of ``like``, without waiting for it."""
    return torch.from_numpy(array).to(like.device, non_blocking=True)
