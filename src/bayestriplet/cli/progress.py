"""A line of progress for work that takes a while."""

from collections.abc import Iterator
from contextlib import contextmanager

from bayestriplet.data.progress import Progress


@contextmanager
def progress_bar(description: str = "starting") -> Iterator[Progress]:
    """Show a bar on a terminal while the block runs, and take it away afterwards."""
    from rich import progress as rich
    from rich.console import Console

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
