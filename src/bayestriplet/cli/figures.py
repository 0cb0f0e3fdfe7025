"""``bayestriplet figures``."""

from pathlib import Path
from typing import Annotated

import typer

from bayestriplet.cli import panels
from bayestriplet.cli.arguments import Backbone, OtherData, SkipBad
from bayestriplet.cli.progress import progress_events


def figures(
    folders: Annotated[
        list[Path],
        typer.Argument(help="Folder of a run or of a comparison; several comparisons are regimes."),
    ],
    data: OtherData = None,
    split: Annotated[
        str, typer.Option(help="Items to draw: train, val, test or all.", rich_help_panel=panels.DATA)
    ] = "test",
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the figures. Default: inside the first FOLDER.",
            show_default=False,
            rich_help_panel=panels.OUTPUT,
        ),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(
            help="Of the sample, the map and the queries.",
            min=0,
            max=2**32 - 1,
            rich_help_panel=panels.OUTPUT,
        ),
    ] = 0,
    skip_bad: SkipBad = False,
    backbone: Backbone = None,
) -> None:
    """Draw a run (map, retrievals, curves, classes, reliability), a comparison, or regimes."""
    first = folders[0]
    if (first / "comparison.json").exists() or len(folders) > 1:
        for path, what in _draw_comparisons(folders, out or first).items():
            typer.echo(f"{path}: {what}")
        return
    with progress_events() as on_event:
        from bayestriplet.api import Run

        drawn = Run(first).figures(
            out, data=data, split=split, seed=seed, skip_bad=skip_bad, backbone=backbone, on_event=on_event
        )
    typer.echo(str(drawn))


def _draw_comparisons(folders: list[Path], out: Path) -> dict[Path, str]:
    """Draw one comparison, or several as regimes; return what each file shows."""
    from bayestriplet.report.methods_figures import SHOWS, draw_comparison, draw_regimes
    from bayestriplet.report.style import make_folder
    from bayestriplet.runs.comparison_folder import ComparisonFolder

    summaries = {folder: ComparisonFolder(folder).read_summary() for folder in folders}
    make_folder(out)
    paths = (
        draw_regimes(summaries, out) if len(summaries) > 1 else draw_comparison(summaries[folders[0]], out)
    )
    return {path: SHOWS[name] for name, path in paths.items()}
