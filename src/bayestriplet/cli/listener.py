"""What a person sees of a training's events: one bar, and lines for what matters."""

import math

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars

from bayestriplet.training.events import Event, PhaseEvent, StepEvent, ValidationEvent, WarningEvent


class Listener:
    """Bars with loss, share of active triplets and Recall@1 on a terminal; plain lines elsewhere."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console()
        self.recall = math.nan
        shown = self.console if self.console.is_terminal else Console(stderr=True)
        self.bar = Bars(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[values]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=shown,
            transient=True,
            disable=not shown.is_terminal,
            redirect_stdout=shown is self.console,
        )
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> "Listener":
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def __call__(self, event: Event) -> None:
        """Show an event."""
        if isinstance(event, StepEvent):
            self._show_step(event)
        elif isinstance(event, PhaseEvent):
            self._show_phase(event)
        elif isinstance(event, ValidationEvent):
            self.recall = event.recall
            self.console.print(str(event), highlight=False)
        elif isinstance(event, WarningEvent):
            kind = "Note" if event.is_note else "Warning"
            self.console.print(f"[yellow]{kind}:[/] {escape(event.text)}", highlight=False, soft_wrap=True)

    def _task(self, description: str) -> TaskID:
        if description not in self._tasks:
            self._tasks[description] = self.bar.add_task(description, total=None, values="")
        return self._tasks[description]

    def _show_step(self, event: StepEvent) -> None:
        parts = [f"loss {event.loss:.3f}"]
        parts += [] if event.active is None else [f"active {event.active:4.0%}"]
        parts += [] if math.isnan(self.recall) else [f"R@1 {100 * self.recall:.1f}"]
        self.bar.update(
            self._task("Training"), completed=event.step, total=event.steps, values="  ".join(parts)
        )

    def _show_phase(self, event: PhaseEvent) -> None:
        """Show how far a phase is; others, but for the training, are over."""
        for description, task in self._tasks.items():
            is_over = description not in ("Training", event.what)
            self.bar.update(task, visible=not is_over)
        done = bool(event.total) and event.done >= event.total
        self.bar.update(
            self._task(event.what), completed=event.done, total=event.total or None, visible=not done
        )
