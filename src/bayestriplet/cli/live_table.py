"""What ``bayestriplet compare`` shows while it works."""

import time

import numpy as np
from rich.console import Console
from rich.live import Live
from rich.table import Table

from bayestriplet.report.methods_table import describe
from bayestriplet.training.comparison import least_runs
from bayestriplet.training.events import Event, TrialEvent, WarningEvent
from bayestriplet.training.tuning import options_of


class LiveTable:
    """Listens to the runs of a comparison: a table that fills on a terminal, a line per run elsewhere."""

    def __init__(self, methods: tuple[str, ...], seeds: int, tune: bool, jobs: int) -> None:
        self.console = Console()
        self.state: dict[str, list[tuple[float, str]]] = {method: [] for method in methods}
        self.now = ""
        self.began = time.monotonic()
        self.live = Live(console=self.console, transient=True, refresh_per_second=2)
        number = f"{least_runs(len(methods), seeds, tune)} runs{' or more' if tune else ''}"
        print(f"{number}, {jobs} at a time; those that are there are not repeated.", flush=True)

    def __enter__(self) -> "LiveTable":
        if self.console.is_terminal:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.live.stop()

    def __call__(self, event: Event) -> None:
        """Show which run is being made, or what one found."""
        if isinstance(event, WarningEvent):
            self.console.print(f"Note: {event.text}", highlight=False, markup=False, soft_wrap=True)
        if not isinstance(event, TrialEvent):
            return
        if event.results is None:
            self.now = event.name
        else:
            words = describe(options_of(event.config))
            self.state[event.config.method].append((100 * event.recall, words))
            if not self.console.is_terminal and not event.was_there:
                self.console.print(f"{event}  {words}".rstrip(), highlight=False, soft_wrap=True)
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
