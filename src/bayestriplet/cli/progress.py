"""A line of progress for work that takes a while."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich import progress as rich
from rich.console import Console

from bayestriplet.data.progress import Progress
from bayestriplet.training.events import Event, OnEvent, PhaseEvent


@contextmanager
def progress_bar(description: str = "starting") -> Iterator[Progress]:
    """Show a bar on a terminal while the block runs, and take it away afterwards."""
    console = Console(stderr=True)
    bar = rich.Progress(
        rich.TextColumn("{task.description}"),
        rich.BarColumn(bar_width=24),
        rich.TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    task = bar.add_task(description, total=None)

    def show(description: str, done: int, total: int) -> None:
        bar.update(task, description=description, completed=done, total=total or None)

    with bar:
        yield show


@contextmanager
def progress_events(description: str = "starting") -> Iterator[OnEvent]:
    """Show the phases of work that tells events as a bar."""
    with progress_bar(description) as show:

        def listen(event: Event) -> None:
            if isinstance(event, PhaseEvent):
                show(event.what, event.done, event.total)

        yield listen
