"""Bringing small tensors to the host: the only place where a training step waits for the device."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

KINDS: dict[torch.dtype, np.dtype[Any]] = {
    torch.float32: np.dtype(np.float32),
    torch.float64: np.dtype(np.float64),
    torch.int32: np.dtype(np.int32),
    torch.int64: np.dtype(np.int64),
    torch.bool: np.dtype(np.bool_),
}
ALIGNED = 8  # bytes that every array in a transfer begins at a multiple of


def in_memory(tensor: Tensor) -> bool:
    """Tell whether a tensor's numbers can be read without waiting for a device."""
    return tensor.is_cpu


def read(*tensors: Tensor) -> list[NDArray[Any]]:
    """Return small tensors as arrays, all by one transfer; integers must be below 2^53.

    On a CPU the arrays are the tensors' own memory: read them before the tensors change.
    """
    if all(in_memory(tensor) for tensor in tensors):
        return [(tensor.detach() if tensor.requires_grad else tensor).numpy() for tensor in tensors]
    flat = torch.cat([tensor.detach().flatten().double() for tensor in tensors]).cpu().numpy()
    parts = np.split(flat, np.cumsum([tensor.numel() for tensor in tensors])[:-1])
    return [
        part.reshape(tuple(tensor.shape)).astype(kind_of(tensor))
        for part, tensor in zip(parts, tensors, strict=True)
    ]


def kind_of(tensor: Tensor) -> np.dtype[Any]:
    """Return the type of NumPy that a tensor's numbers have."""
    return KINDS[tensor.dtype]


def send(like: Tensor, *arrays: NDArray[Any]) -> list[Tensor]:
    """Return arrays as tensors on the device of ``like``, all by one transfer, without waiting for it."""
    if in_memory(like):
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
        kind = next(own for own, other in KINDS.items() if other == array.dtype)
        out.append(packed[start : start + array.nbytes].view(kind).view(array.shape))
        start += array.nbytes + -array.nbytes % ALIGNED
    return out
