"""Noticing that somebody changed a tensor."""

from collections.abc import Sequence

from torch import Tensor


def version_of(tensor: Tensor) -> int | None:
    """Return how often a tensor was changed in place; one made in inference mode does not count."""
    try:
        return tensor._version
    except RuntimeError:
        return None


class Noted:
    """The versions of some tensors at a moment.

    An object of its own, since setting an attribute of a module takes longer than all the rest.
    """

    def __init__(self) -> None:
        self.versions: list[int | None] | None = None

    def note(self, tensors: Sequence[Tensor]) -> None:
        """Remember the versions as they are now."""
        self.versions = [version_of(tensor) for tensor in tensors]

    def changed(self, tensors: Sequence[Tensor]) -> bool:
        """Tell whether any tensor was changed since, or none was ever noted."""
        return self.versions != [version_of(tensor) for tensor in tensors]
