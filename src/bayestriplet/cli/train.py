"""``bayestriplet train`` and ``bayestriplet evaluate``."""

import json as json_text
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from bayestriplet.cli import panels
from bayestriplet.cli.arguments import Backbone, Json, OtherData, Run, SkipBad
from bayestriplet.cli.options import give_options, path_option
from bayestriplet.cli.progress import progress_events

if TYPE_CHECKING:
    import bayestriplet.api as api


def train(data: str | None, out: Path | None, config: Path | None, resume: Path | None, **given: Any) -> None:
    """Train an encoder on labelled images, evaluate it on the test split, and write a run folder."""
    from bayestriplet.api import train as train_run
    from bayestriplet.cli.listener import Listener

    with Listener() as listener:
        run = train_run(data, out=out, config=config, resume=resume, on_event=listener, **given)
    show_run(run)
    stopped_by = run.results.get("stopped_by")
    if stopped_by not in (None, signal.SIGINT):
        raise typer.Exit(128 + stopped_by)


def how_to_resume(run: "api.Run") -> str:
    """Return the command that goes on with a run that was stopped; code has to be named again."""
    config = run.config
    return f"bayestriplet train --resume {run.path}" + f" --backbone {config.backbone}" * config.is_code


def show_run(run: "api.Run") -> None:
    """Print what a training made and what to do next."""
    from bayestriplet.report.results import training_tables

    console, results, out = Console(highlight=False, soft_wrap=True), run.results, run.path
    steps, best, seconds = results["steps"], results["best_step"], results["seconds"]
    time = f"{seconds:.0f} seconds" if seconds < 60 else f"{seconds / 60:.1f} minutes"
    if results["status"] == "interrupted":
        console.print(f"Stopped at step {steps}. The network so far is in [bold]{out}[/].")
        console.print(f"Go on with:  {how_to_resume(run)}", markup=False)
        return
    for part in training_tables(results):
        console.print(part, markup=not isinstance(part, str))
    console.print(f"Trained {steps} steps in {time}; kept is the network of step {best}.")
    console.print(f"The run is in [bold]{out}[/]: model, posterior, results.json, metrics.csv, config.toml.")
    if "input" in results:
        console.print(f"It takes {results['input']}.", markup=False)
    console.print(f"Measure it again, or on other data:  bayestriplet evaluate {out}")


give_options(
    train,
    [
        path_option("out", "Folder of the run; new or empty."),
        path_option("config", "TOML file with any of these options."),
        path_option("resume", "Go on with this run where it stopped."),
    ],
)


def evaluate(
    run: Run,
    data: OtherData = None,
    split: Annotated[
        str, typer.Option(help="Items to ask about: train, val, test or all.", rich_help_panel=panels.DATA)
    ] = "test",
    gallery: Annotated[
        str | None,
        typer.Option(
            help="Where to look for neighbours: a split, or data. Default: the queries themselves.",
            show_default=False,
            rich_help_panel=panels.DATA,
        ),
    ] = None,
    split_by: Annotated[
        str | None,
        typer.Option(
            help="How other data without splits are split: item, group, class or class:FILE.csv.",
            show_default=False,
            rich_help_panel=panels.DATA,
        ),
    ] = None,
    few_shot: Annotated[
        bool,
        typer.Option(
            "--few-shot",
            help="Also classify by 1 and 5 examples per class, in episodes of 5 and 20 classes.",
            rich_help_panel=panels.MEASURES,
        ),
    ] = False,
    skip_bad: SkipBad = False,
    backbone: Backbone = None,
    json: Json = False,
) -> None:
    """Measure a run: retrieval beside raw pixels and what it began with, probabilities, novelty."""
    with progress_events() as on_event:
        from bayestriplet.api import Run as OpenedRun

        found = OpenedRun(run).evaluate(
            data,
            split=split,
            gallery=gallery,
            split_by=split_by,
            skip_bad=skip_bad,
            backbone=backbone,
            few_shot=few_shot,
            on_event=on_event,
        )
    if json:
        print(json_text.dumps(found.to_json(), indent=1))
        return
    console = Console()
    for part in found.tables():
        console.print(
            part, highlight=False, soft_wrap=isinstance(part, str), markup=not isinstance(part, str)
        )
