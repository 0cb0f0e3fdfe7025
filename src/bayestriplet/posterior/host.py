"""Bringing small tensors to the host: the only place where a training step waits for the device."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

ALIGNED = 8  # bytes that every array in a transfer begins at a multiple of


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


def send(like: Tensor, *arrays: NDArray[Any]) -> list[Tensor]:
    """Return arrays as tensors on the device of ``like``, all by one transfer, without waiting for it."""
    if like.device.type == "cpu":
        return [torch.from_numpy(array) for array in arrays]
    return unpack(pack(arrays).to(like.device, non_blocking=True), arrays)


def pack(arrays: tuple[NDArray[Any], ...]) -> Tensor:
    """Return the bytes of arrays one after the other."""
    padded = [array.nbytes + -array.nbytes % ALIGNED for array in arrays]
    packed = np.zeros(sum(padded), dtype=np.uint8)
    start = 0
    for array, size in zip(arrays, padded, strict=True):
        packed[start : start + array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        start += size
    return torch.from_numpy(packed)


def unpack(packed: Tensor, arrays: tuple[NDArray[Any], ...]) -> list[Tensor]:
    """Return the tensors in packed bytes, of the types and shapes of arrays."""
    out, start = [], 0
    for array in arrays:
        kind = torch.from_numpy(np.empty(0, array.dtype)).dtype
        out.append(packed[start : start + array.nbytes].view(kind).view(array.shape))
        start += array.nbytes + -array.nbytes % ALIGNED
    return out
