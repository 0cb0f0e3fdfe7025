"""How long work reports how far it is."""

from typing import Protocol


class Progress(Protocol):
    """Called with what is being done, how much of it is done and how much there is; total 0 means unknown."""

    def __call__(self, description: str, done: int, total: int) -> None: ...


def report(progress: Progress | None, description: str, done: int, total: int) -> None:
    """Call ``progress`` where there is one."""
    if progress is not None:
        progress(description, done, total)
