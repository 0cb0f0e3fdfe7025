"""Noticing that somebody changed a tensor."""

from torch import Tensor


def version_of(tensor: Tensor) -> int | None:
    """Return how often a tensor was changed in place; one made in inference mode does not count."""
    return None if tensor.is_inference() else tensor._version
