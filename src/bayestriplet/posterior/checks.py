"""Checks of the items given to a posterior, before anything is changed."""

import torch
from torch import Tensor

from bayestriplet.errors import InputError, InputTypeError

LARGEST = 1e15  # its square, summed over many items, still fits into float32


def check_embeddings(embeddings: object, dim: int, argument: str = "embeddings") -> Tensor:
    """Return ``embeddings`` (B, D), in float32 or better, if every value is finite."""
    if not isinstance(embeddings, Tensor):
        raise InputTypeError(f"{argument} must be a torch.Tensor; got {type(embeddings).__name__}")
    if not embeddings.is_floating_point():
        raise InputTypeError(f"{argument} must be floating point; got {embeddings.dtype}")
    if embeddings.ndim != 2 or embeddings.shape[1] != dim:
        raise InputError(f"{argument} must have shape (B, {dim}); got {tuple(embeddings.shape)}")
    if embeddings.numel() and not embeddings.detach().abs().max() < LARGEST:
        finite = bool(torch.isfinite(embeddings).all())
        got = f"{float(embeddings.detach().abs().max()):g}" if finite else "NaN or infinity"
        raise InputError(f"{argument} must be finite and below {LARGEST:g} in size; got {got}")
    return embeddings.to(torch.promote_types(embeddings.dtype, torch.float32))


def check_classes(classes: object, num_classes: int, argument: str = "classes") -> Tensor:
    """Return ``classes`` (N,) as int64 if each is one of 0 .. num_classes - 1."""
    if not isinstance(classes, Tensor):
        raise InputTypeError(f"{argument} must be a torch.Tensor; got {type(classes).__name__}")
    if classes.is_floating_point() or classes.is_complex() or classes.dtype == torch.bool:
        raise InputTypeError(f"{argument} must be integers; got {classes.dtype}")
    if classes.ndim != 1:
        raise InputError(f"{argument} must have shape (N,); got {tuple(classes.shape)}")
    if len(classes):
        low, high = classes.aminmax()
        if low < 0 or high >= num_classes:
            worst = int(low) if low < 0 else int(high)
            raise InputError(f"{argument} must lie in 0 .. {num_classes - 1}; got {worst}")
    return classes.long()


def check_items(embeddings: object, labels: object, num_classes: int, dim: int) -> tuple[Tensor, Tensor]:
    """Return embeddings (B, D) and labels (B,), checked; B may be 0."""
    checked = check_embeddings(embeddings, dim)
    if isinstance(labels, Tensor) and labels.shape != checked.shape[:1]:
        raise InputError(
            f"labels must have shape ({len(checked)},), one per embedding; got {tuple(labels.shape)}"
        )
    checked_labels = check_classes(labels, num_classes, "labels")
    if checked_labels.device != checked.device:
        raise InputError(f"labels must be on {checked.device}, like embeddings; got {checked_labels.device}")
    return checked, checked_labels
