"""The latest result of a function: balanced batches of all classes have the same labels in every step."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


class Latest(Generic[Result]):
    """Keeps a result until it is asked for with another key."""

    def __init__(self) -> None:
        self._entry: tuple[tuple[Any, ...], Result] | None = None  # one tuple: threads see both its parts

    def get(self, key: tuple[Any, ...], make: Callable[[], Result]) -> Result:
        """Return what ``make`` returned for this key, the last time or now."""
        entry = self._entry
        if entry is None or entry[0] != key:
            entry = self._entry = key, make()
        return entry[1]
