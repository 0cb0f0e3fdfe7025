"""What commands print: tables, and what to do next."""

import json
from pathlib import Path
from typing import Any

from rich.console import Console

from bayestriplet.evaluation.report import Scores, score_table, to_json


def show_scores(title: str, rows: dict[str, Scores], as_json: bool = False) -> None:
    """Print a table of scores, or JSON for programs."""
    if as_json:
        print(json.dumps(to_json(rows), indent=1))
    else:
        Console().print(score_table(title, rows))


def show_run(out: Path, results: dict[str, Any], scores: dict[str, Scores] | None) -> None:
    """Print what a training made and what to do next."""
    console = Console(highlight=False, soft_wrap=True)
    steps, best, minutes = results["steps"], results["best_step"], results["seconds"] / 60
    if results["status"] == "interrupted":
        console.print(f"Stopped at step {steps}. The network so far is in [bold]{out}[/].")
        console.print(f"Go on with:  bayestriplet train --resume {out}")
        return
    if scores is not None:
        show_scores(f"Test items of {results['data']}, in percent", scores)
    console.print(f"Trained {steps} steps in {minutes:.1f} minutes; kept is the network of step {best}.")
    console.print(f"The run is in [bold]{out}[/]: model, posterior, results.json, metrics.csv, config.toml.")
    console.print(f"Measure it again, or on other data:  bayestriplet evaluate {out}")
