"""What ``bayestriplet compare`` shows while it works and at the end."""

import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.live import Live
from rich.table import Table

from bayestriplet.evaluation.comparison import cells, describe, floor_cells, rows_of, to_rich
from bayestriplet.training.trials import Trial
from bayestriplet.training.tuning import options_of


class LiveTable:
    """A table that fills while runs finish, on a terminal; a line a run elsewhere."""

    def __init__(self, methods: tuple[str, ...], seeds: tuple[int, ...]) -> None:
        self.methods, self.seeds = methods, seeds
        self.console = Console()
        self.state: dict[str, list[tuple[float, str]]] = {method: [] for method in methods}
        self.now = ""
        self.began = time.monotonic()
        self.live = Live(console=self.console, transient=True, refresh_per_second=2)

    def __enter__(self) -> "LiveTable":
        if self.console.is_terminal:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.live.stop()

    def started(self, trial: Trial) -> None:
        """Show which run is being made."""
        self.now = trial.name
        self._refresh()

    def finished(self, trial: Trial, results: dict[str, Any], was_there: bool) -> None:
        """Show what a run found."""
        recall = 100 * (results["validation_recall@1"] or 0.0)
        words = describe(options_of(trial.config))
        self.state[trial.config.method].append((recall, words))
        if not self.console.is_terminal and not was_there:
            figure = "broke down" if results["status"] == "diverged" else f"validation R@1 {recall:.2f}"
            line = f"{trial.name}  {figure}  {words}"
            self.console.print(line.rstrip(), highlight=False, soft_wrap=True)
        self._refresh()

    def _refresh(self) -> None:
        minutes = (time.monotonic() - self.began) / 60
        table = Table(title=f"{minutes:.0f} minutes; now: {self.now}", title_justify="left")
        for heading in ("method", "runs", "best validation R@1", "with"):
            table.add_column(heading)
        for method, runs in self.state.items():
            best = max(runs, default=(np.nan, ""))
            table.add_row(method, str(len(runs)), f"{best[0]:.2f}" if runs else "", best[1])
        self.live.update(table)


def show_comparison(out: Path, summary: dict[str, Any]) -> None:
    """Print the table and what was made."""
    seeds = len(next(iter(summary["methods"].values()))["seeds"])
    title = f"{summary['data']}: test recall in percent, {seeds} seed{'s' * (seeds > 1)}, best first"
    table = [*cells(rows_of(summary), summary["data"]), *floor_cells(summary["floors"])]
    console = Console(soft_wrap=True)
    console.print(to_rich(table, title))
    console.print("± half of a 95% interval; 'to the best' is paired by seed.", highlight=False)
    console.print(
        f"In [bold]{out}[/]: table.md, table.csv, recall.png, learning.png, comparison.json and every run.",
        highlight=False,
    )
