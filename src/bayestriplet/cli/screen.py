"""What commands print: progress, tables, and what to do next."""

import json as json_module
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from bayestriplet.evaluation.report import Scores, score_table, to_json


class Screen:
    """The terminal: a line of progress for anything long, then results."""

    def __init__(self) -> None:
        self.console = Console()
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(bar_width=24), TimeElapsedColumn(),
            console=self.console, transient=True, disable=not self.console.is_terminal,
        )  # fmt: skip
        self._tasks: dict[str, TaskID] = {}

    @contextmanager
    def working(self) -> Iterator[None]:
        """Show a moving bar while libraries load and data are opened."""
        self._bar.start()
        self.report("Starting", 0, 0)
        try:
            yield
        finally:
            self.finish()

    def report(self, description: str, done: int, total: int) -> None:
        """Show how far a piece of work is; total 0 means unknown."""
        self._bar.start()
        if description not in self._tasks:
            for task in self._tasks.values():
                self._bar.update(task, visible=False)
            self._tasks[description] = self._bar.add_task(description, total=total or None)
        self._bar.update(
            self._tasks[description], completed=done, total=total or None, visible=done < total or not total
        )

    def finish(self) -> None:
        """Take the progress away."""
        self._bar.stop()
        for task in self._tasks.values():
            self._bar.remove_task(task)
        self._tasks.clear()

    def show_scores(self, title: str, rows: dict[str, Scores], as_json: bool = False) -> None:
        """Print a table of scores, or JSON for programs."""
        if as_json:
            print(json_module.dumps(to_json(rows), indent=1))
        else:
            self.console.print(score_table(title, rows))

    def show_run(self, out: Path, results: dict[str, Any], scores: dict[str, Scores] | None) -> None:
        """Print what a training made and what to do next."""
        steps, seconds = results["steps"], results["seconds"]
        if results["status"] == "interrupted":
            self.console.print(
                f"Stopped at step {steps}. The network so far is in [bold]{out}[/].", highlight=False
            )
            self.console.print(f"Go on with:  bayestriplet train --resume {out}", highlight=False)
            return
        if scores is not None:
            self.show_scores(f"Test items of {results['data']}, in percent", scores)
        self.console.print(
            f"Trained {steps} steps in {seconds / 60:.1f} minutes; the best network is that of step "
            f"{results['best_step']}.",
            highlight=False,
        )
        files = "model.safetensors, posterior.safetensors, results.json, metrics.csv, config.toml"
        self.console.print(f"In [bold]{out}[/]: {files}", highlight=False)
        self.console.print(f"Evaluate it again with:  bayestriplet evaluate {out}", highlight=False)
