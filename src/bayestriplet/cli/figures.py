"""``bayestriplet figures``."""

from pathlib import Path
from typing import Annotated

import typer

from bayestriplet.cli.progress import progress_bar


def figures(
    run: Annotated[Path, typer.Argument(help="Folder of a run.")],
    data: Annotated[
        str | None, typer.Option(help="Other data than the run's own.", show_default=False)
    ] = None,
    split: Annotated[str, typer.Option(help="Items to draw.")] = "test",
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the figures; RUN/figures if not given.", show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the sample, the map and the queries.", min=0)] = 0,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out files that cannot be read.")
    ] = False,
    backbone: Annotated[
        str | None,
        typer.Option(help="Code to run for a run with a backbone of your own.", show_default=False),
    ] = None,
) -> None:
    """Draw a run: a map of its embedding, retrievals, training curves, and which classes are close."""
    with progress_bar() as report:
        from bayestriplet.data.sources import absolute_data
        from bayestriplet.evaluation.figures import SHOWS, draw_run_figures
        from bayestriplet.evaluation.run_data import open_run_data
        from bayestriplet.evaluation.run_folder import RunFolder
        from bayestriplet.model.encoder import load_encoder
        from bayestriplet.training.loader import default_workers

        folder = RunFolder.open(run)
        size = load_encoder(folder.model, trusted=backbone).info.size
        name = absolute_data(data or folder.read_config().data)
        images = open_run_data(folder, name, size, skip_bad, report)
        workers = default_workers(images)
        paths = draw_run_figures(
            folder, images, split, out or run / "figures", seed, report, workers=workers, backbone=backbone
        )
    for file, path in paths.items():
        typer.echo(f"{path}: {SHOWS[file]}")
