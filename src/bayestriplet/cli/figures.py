"""``bayestriplet figures``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayestriplet.cli.arguments import Backbone, OtherData, SkipBad
from bayestriplet.cli.progress import progress_bar

if TYPE_CHECKING:
    from bayestriplet.data.progress import Progress


def figures(
    folders: Annotated[
        list[Path],
        typer.Argument(help="Folder of a run or of a comparison; several comparisons are regimes."),
    ],
    data: OtherData = None,
    split: Annotated[str, typer.Option(help="Items to draw.")] = "test",
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the figures; inside the first FOLDER if not given.", show_default=False
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Of the sample, the map and the queries.", min=0, max=2**32 - 1)
    ] = 0,
    skip_bad: SkipBad = False,
    backbone: Backbone = None,
) -> None:
    """Draw a run (map, retrievals, curves, classes, reliability), a comparison, or regimes."""
    first = folders[0]
    if (first / "comparison.json").exists() or len(folders) > 1:
        shown = _draw_comparisons(folders, out or first)
    else:
        with progress_bar() as report:
            shown = _draw_run(first, data, split, out or first / "figures", seed, skip_bad, backbone, report)
    for path, what in shown.items():
        typer.echo(f"{path}: {what}")


def _draw_comparisons(folders: list[Path], out: Path) -> dict[Path, str]:
    """Draw one comparison, or several as regimes; return what each file shows."""
    from bayestriplet.evaluation.comparison import read_comparison
    from bayestriplet.evaluation.figure_comparison import SHOWS, draw_comparison, draw_regimes
    from bayestriplet.evaluation.figure_style import make_folder

    summaries = {folder: read_comparison(folder) for folder in folders}
    make_folder(out)
    paths = (
        draw_regimes(summaries, out) if len(summaries) > 1 else draw_comparison(summaries[folders[0]], out)
    )
    return {path: SHOWS[name] for name, path in paths.items()}


def _draw_run(
    run: Path, data: str | None, split: str, out: Path, seed: int, skip_bad: bool, backbone: str | None,
    report: "Progress",
) -> dict[Path, str]:  # fmt: skip
    """Draw the figures of a run; return what each file shows."""
    from bayestriplet.cli.evaluation import open_predictive
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
    probabilities = open_predictive(folder).probabilities
    paths = draw_run_figures(
        folder, images, split, probabilities, out, seed, report, workers=workers, backbone=backbone
    )
    return {path: SHOWS[name] for name, path in paths.items()}
