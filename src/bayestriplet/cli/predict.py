"""``bayestriplet embed`` and ``bayestriplet predict``."""

from pathlib import Path
from typing import Annotated

import typer

from bayestriplet.cli import panels
from bayestriplet.cli.arguments import FollowLinks, Images, Run, SkipBad, Store
from bayestriplet.cli.progress import progress_events


def embed(
    run: Run,
    images: Images,
    out: Annotated[
        Path, typer.Option(help="File for the vectors: .npz or .parquet.", rich_help_panel=panels.OUTPUT)
    ],
    skip_bad: SkipBad = False,
    follow_links: FollowLinks = False,
) -> None:
    """Write the vectors of images to a file, with their ids, labels and groups."""
    with progress_events("encoding") as on_event:
        from bayestriplet.api import Run as OpenedRun
        from bayestriplet.retrieval.predictions import check_embedding_file

        check_embedding_file(out)
        found = OpenedRun(run).embed(images, skip_bad=skip_bad, follow_links=follow_links, on_event=on_event)
        found.save(out)
    typer.echo(f"{out}: {found}")


def predict(
    run: Run,
    images: Images,
    out: Annotated[Path, typer.Option(help="CSV file for the table.", rich_help_panel=panels.OUTPUT)],
    k: Annotated[
        int,
        typer.Option(
            "-k", "--neighbours", help="How many neighbours vote.", rich_help_panel=panels.NEIGHBOURS
        ),
    ] = 10,
    store: Store = None,
    skip_bad: SkipBad = False,
    follow_links: FollowLinks = False,
) -> None:
    """Write class probabilities, novelty and the vote of the nearest indexed images to a table."""
    with progress_events("encoding") as on_event:
        from bayestriplet.api import Run as OpenedRun
        from bayestriplet.retrieval.predictions import check_table_file

        check_table_file(out)
        found = OpenedRun(run).predict(
            images, k=k, store=store, skip_bad=skip_bad, follow_links=follow_links, on_event=on_event
        )
        found.save(out)
    typer.echo(f"{out}: {found}")
    if found.answers is None:
        typer.echo(f"There is no index to vote: `bayestriplet index {run} IMAGES` makes one.")
