"""What a person sees while a network trains: one bar, and lines for what matters."""

import math

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


class TrainingProgress:
    """A bar with loss, share of active triplets and Recall@1, on a terminal; plain lines elsewhere."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.recall = math.nan
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[values]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self.task = self.bar.add_task("Training", total=None, values="", start=False)
        self.check = self.bar.add_task("Validating", total=None, values="", visible=False)

    def start(self, step: int, steps: int) -> None:
        """Show the bar."""
        self.bar.update(self.task, total=steps, completed=step)
        self.bar.start_task(self.task)
        self.bar.start()

    def step(self, step: int, loss: float, active: float | None) -> None:
        """Move the bar to a step."""
        parts = [f"loss {loss:.3f}"]
        parts += [] if active is None else [f"active {active:4.0%}"]
        parts += [] if math.isnan(self.recall) else [f"R@1 {100 * self.recall:.1f}"]
        self.bar.update(self.task, completed=step, values="  ".join(parts))

    def validating(self, done: int, total: int) -> None:
        """Show how far a validation is."""
        self.bar.update(self.check, completed=done, total=total, visible=done < total)

    def validated(self, step: int, recall: float) -> None:
        """Say what a validation found."""
        self.recall = recall
        self.console.print(f"step {step:>6}  validation R@1 {100 * recall:.1f}", highlight=False)

    def warn(self, text: str) -> None:
        """Say what a person should know."""
        self.console.print(f"[yellow]Warning:[/] {text}", highlight=False)

    def stop(self) -> None:
        """Take the bar away."""
        self.bar.stop()
