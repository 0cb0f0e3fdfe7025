"""Checks of the items given to a posterior, before anything is changed."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bayestriplet.errors import InputError, InputTypeError
from bayestriplet.posterior.host import read

LARGEST = 1e15  # its square, summed over many items, still fits into float32


def check_embeddings(embeddings: object, dim: int, argument: str = "embeddings") -> Tensor:
    """Return ``embeddings`` (B, D), in float32 or better, if every value is finite."""
    checked = _check_form(embeddings, dim, argument)
    lowest, highest = read(*_extremes(checked))
    _check_size(lowest, highest, argument)
    return checked


def check_classes(classes: object, num_classes: int, argument: str = "classes") -> Tensor:
    """Return ``classes`` (N,) as int64 if each is one of 0 .. num_classes - 1."""
    checked = _check_integers(classes, argument)
    _check_range(read(checked)[0], num_classes, argument)
    return checked


def check_items(embeddings: object, labels: object, num_classes: int, dim: int) -> tuple[Tensor, Tensor]:
    """Return embeddings (B, D) and labels (B,), checked; B may be 0."""
    return read_items(embeddings, labels, num_classes, dim)[:2]


def read_items(
    embeddings: object, labels: object, num_classes: int, dim: int
) -> tuple[Tensor, Tensor, NDArray[np.int64]]:
    """Return embeddings (B, D) and labels (B,), checked, and the labels on the host: one transfer."""
    checked = _check_form(embeddings, dim, "embeddings")
    if isinstance(labels, Tensor) and labels.shape != checked.shape[:1]:
        raise InputError(
            f"labels must have shape ({len(checked)},), one per embedding; got {tuple(labels.shape)}"
        )
    integers = _check_integers(labels, "labels")
    if integers.device != checked.device:
        lowest, highest = read(*_extremes(checked))
        _check_size(lowest, highest, "embeddings")
        _check_range(read(integers)[0], num_classes, "labels")
        raise InputError(f"labels must be on {checked.device}, like embeddings; got {integers.device}")
    lowest, highest, numbers = read(*_extremes(checked), integers)
    _check_size(lowest, highest, "embeddings")
    _check_range(numbers, num_classes, "labels")
    return checked, integers, numbers


def _check_form(embeddings: object, dim: int, argument: str) -> Tensor:
    """Return embeddings in float32 or better if their type and shape are right."""
    if not isinstance(embeddings, Tensor):
        raise InputTypeError(f"{argument} must be a torch.Tensor; got {type(embeddings).__name__}")
    if not embeddings.is_floating_point():
        raise InputTypeError(f"{argument} must be floating point; got {embeddings.dtype}")
    if embeddings.ndim != 2 or embeddings.shape[1] != dim:
        raise InputError(f"{argument} must have shape (B, {dim}); got {tuple(embeddings.shape)}")
    if embeddings.dtype in (torch.float32, torch.float64):
        return embeddings
    return embeddings.to(torch.promote_types(embeddings.dtype, torch.float32))


def _extremes(embeddings: Tensor) -> tuple[Tensor, Tensor]:
    """Return the lowest and the highest value, () and (); NaN where one is NaN, 0 without any."""
    if not embeddings.numel():
        return embeddings.new_zeros(()), embeddings.new_zeros(())
    low, high = torch.aminmax(embeddings.detach())
    return low, high


def _check_size(lowest: NDArray[Any], highest: NDArray[Any], argument: str) -> None:
    largest = max(-float(lowest), float(highest))
    if not largest < LARGEST:
        got = f"{largest:g}" if np.isfinite(largest) else "NaN or infinity"
        raise InputError(f"{argument} must be finite and below {LARGEST:g} in size; got {got}")


def _check_integers(classes: object, argument: str) -> Tensor:
    if not isinstance(classes, Tensor):
        raise InputTypeError(f"{argument} must be a torch.Tensor; got {type(classes).__name__}")
    if classes.is_floating_point() or classes.is_complex() or classes.dtype == torch.bool:
        raise InputTypeError(f"{argument} must be integers; got {classes.dtype}")
    if classes.ndim != 1:
        raise InputError(f"{argument} must have shape (N,); got {tuple(classes.shape)}")
    return classes.long()


def _check_range(numbers: NDArray[Any], num_classes: int, argument: str) -> None:
    if not len(numbers):
        return
    low, high = numbers.min(), numbers.max()
    if low < 0 or high >= num_classes:
        worst = int(low) if low < 0 else int(high)
        raise InputError(f"{argument} must lie in 0 .. {num_classes - 1}; got {worst}")
