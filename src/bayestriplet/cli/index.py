"""``bayestriplet index``."""

from typing import Annotated

import typer

from bayestriplet.cli.arguments import Run, SkipBad, Store
from bayestriplet.cli.progress import progress_bar


def index(
    run: Run,
    images: Annotated[str, typer.Argument(help="Folder, .csv manifest, .npz file or name of a data set.")],
    store: Store = None,
    split: Annotated[
        str | None,
        typer.Option(help="Only this split: train, val or test. All items if not given.", show_default=False),
    ] = None,
    skip_bad: SkipBad = False,
) -> None:
    """Make images searchable; again, to add what is new, replace what changed and remove what is gone."""
    with progress_bar() as report:
        from bayestriplet.retrieval.index import Index

        opened = Index.open(run, store)
        change = opened.update(images, split=split, skip_bad=skip_bad, progress=report)
        how = opened.store.prepare(report)
    typer.echo(
        f"{change.added:,} added, {change.replaced:,} replaced, {change.removed:,} removed, "
        f"{change.unchanged:,} unchanged; {change.seconds:.1f} s, {change.images_per_second:,.0f} images/s"
    )
    typer.echo(f"{opened.store.uri} holds {len(opened):,} items; {how}.")
    option = "" if store is None else f" --store {store}"
    typer.echo(f"Try next:  bayestriplet search {run} QUERY.png{option}")
