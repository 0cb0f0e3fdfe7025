"""What commands print: tables, and what to do next."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from bayestriplet.evaluation.report import (
    Scores,
    novelty_table,
    probability_table,
    score_table,
    to_json,
)

if TYPE_CHECKING:
    from bayestriplet.cli.evaluation import Evaluation


def show_evaluation(found: "Evaluation", as_json: bool = False) -> None:
    """Print what was measured as tables, or as JSON for programs."""
    if as_json:
        rows = found.probabilities
        honesty = None if rows is None else {way: asdict(row) for way, row in rows.items()}
        whole = {"retrieval": to_json(found.retrieval), "probabilities": honesty, "novelty": found.novelty}
        print(json.dumps(whole, indent=1))
        return
    Console().print(score_table(found.title, found.retrieval))
    if found.probabilities is not None:
        Console().print(probability_table(found.probabilities))
    if found.novelty is not None:
        Console().print(novelty_table(found.novelty))
    if found.note:
        Console(soft_wrap=True).print(found.note, highlight=False)


def show_run(out: Path, results: dict[str, Any], scores: dict[str, Scores] | None) -> None:
    """Print what a training made and what to do next."""
    console = Console(highlight=False, soft_wrap=True)
    steps, best, seconds = results["steps"], results["best_step"], results["seconds"]
    time = f"{seconds:.0f} seconds" if seconds < 60 else f"{seconds / 60:.1f} minutes"
    if results["status"] == "interrupted":
        console.print(f"Stopped at step {steps}. The network so far is in [bold]{out}[/].")
        console.print(f"Go on with:  bayestriplet train --resume {out}")
        return
    if scores is not None:
        console.print(score_table(f"Test items of {results['data']}, in percent", scores))
    console.print(f"Trained {steps} steps in {time}; kept is the network of step {best}.")
    console.print(f"The run is in [bold]{out}[/]: model, posterior, results.json, metrics.csv, config.toml.")
    console.print(f"Measure it again, or on other data:  bayestriplet evaluate {out}")
