"""``bayestriplet train`` and ``bayestriplet evaluate``."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from bayestriplet.cli.arguments import Backbone, Json, OtherData, Run, SkipBad
from bayestriplet.cli.options import give_options, path_option
from bayestriplet.cli.progress import progress_bar
from bayestriplet.config import make_config, read_toml
from bayestriplet.errors import InputError


def train(data: str | None, out: Path | None, config: Path | None, resume: Path | None, **given: Any) -> None:
    """Train an encoder on labelled images, evaluate it on the test split, and write a run folder."""
    from bayestriplet.cli.screen import show_run
    from bayestriplet.data.sources import absolute_data
    from bayestriplet.evaluation.run_folder import check_free

    values = {name: value for name, value in {"data": data, **given}.items() if value is not None}
    source: Path | None = None
    if "data" in values:
        values["data"] = absolute_data(values["data"])
    if resume is not None:
        if out is not None or config is not None:
            raise InputError("--resume takes out and options from the run: do not give --out or --config")
        out, source = resume, resume / "config.toml"
        values = read_toml(source) | values
    elif config is not None:
        source = config
        values = read_toml(config) | values
    checked = make_config(values, str(source or "train"))
    if out is None:
        raise InputError("--out is missing: name a folder for the run, such as --out runs/first")
    if resume is None and "LOCAL_RANK" not in os.environ:
        check_free(out)  # before any image is read; a further process finds what the first one has begun
    with progress_bar() as report:
        from rich.console import Console

        from bayestriplet.training.run import TrainingRun

        run = TrainingRun(checked, out, Console(), report)
    run.fit(resume=resume is not None)
    if not run.is_first:
        return
    with progress_bar("finishing") as report:
        scores = run.finish(report)
    show_run(out, run.folder.read_results(), scores)


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
    split: Annotated[str, typer.Option(help="Items to ask about.")] = "test",
    gallery: Annotated[
        str | None,
        typer.Option(
            help="Where to look for neighbours: a split, or data. The queries themselves if not given.",
            show_default=False,
        ),
    ] = None,
    skip_bad: SkipBad = False,
    backbone: Backbone = None,
    json: Json = False,
) -> None:
    """Measure a run: retrieval beside raw pixels and the untrained network, probabilities, novelty."""
    from bayestriplet.cli.screen import show_evaluation

    with progress_bar() as report:
        from bayestriplet.cli.evaluation import Evaluator

        found = Evaluator(run, skip_bad, backbone, report).evaluate(data, split, gallery)
    show_evaluation(found, json)
