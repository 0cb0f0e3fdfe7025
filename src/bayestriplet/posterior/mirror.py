"""Small buffers on the host too, so that a training step knows them without waiting for the device."""

from typing import Any

from numpy.typing import NDArray
from torch import Tensor

from bayestriplet.posterior import host
from bayestriplet.posterior.chosen import Chosen, put_
from bayestriplet.posterior.versions import version_of


class Mirror:
    """Arrays of one number per class, as buffers hold them.

    On a CPU they are the buffers' own memory. Elsewhere they are copies, which are read again where
    somebody else changed a buffer.
    """

    def __init__(self) -> None:
        self._arrays: list[NDArray[Any]] = []
        self._noted: list[int | None] = []
        self._is_memory = True

    def read(self, *buffers: Tensor) -> list[NDArray[Any]]:
        """Return the arrays of buffers (K,), which are always the same ones."""
        if self._noted != self._state(buffers):
            self._is_memory = host.in_memory(buffers[0])
            self._arrays, self._noted = host.read(*buffers), self._state(buffers)
        return self._arrays

    def _state(self, buffers: tuple[Tensor, ...]) -> list[int | None]:
        """Return where buffers are, and how often they were changed if the arrays are copies."""
        where: list[int | None] = [buffer.data_ptr() for buffer in buffers]
        return where if self._is_memory else where + [version_of(buffer) for buffer in buffers]

    def write(self, buffers: tuple[Tensor, ...], chosen: Chosen, *values: NDArray[Any] | float) -> None:
        """Set the numbers of some classes, on the host and in the buffers."""
        arrays = self.read(*buffers)
        for array, value in zip(arrays, values, strict=True):
            array[chosen.numbers] = value
        if not self._is_memory:
            sent = host.send(chosen.classes, *(array[chosen.numbers] for array in arrays))
            for buffer, rows in zip(buffers, sent, strict=True):
                put_(buffer, chosen.classes, rows)
            self._noted = self._state(buffers)

    def __getstate__(self) -> dict[str, Any]:
        return {}  # a copy has buffers of its own

    def __setstate__(self, _: dict[str, Any]) -> None:
        self.__init__()  # type: ignore[misc]
