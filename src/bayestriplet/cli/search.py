"""``bayestriplet search``."""

import json as json_text
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayestriplet.cli import panels
from bayestriplet.cli.arguments import Json, Run, Store
from bayestriplet.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bayestriplet.retrieval.answers import Answer
    from bayestriplet.retrieval.index import Index
    from bayestriplet.retrieval.queries import Queries

BATCH = 256  # queries read at a time
MOVED = 3  # exit status of a search that was answered, but with paths that lead nowhere


def search(
    run: Run,
    queries: Annotated[
        list[str],
        typer.Argument(
            help="Images, or folders of them. For a run on vectors: vectors:FILE, vectors:FILE#ROW, "
            "or the id of an indexed item."
        ),
    ],
    k: Annotated[
        int,
        typer.Option("-k", "--neighbours", help="How many neighbours.", rich_help_panel=panels.NEIGHBOURS),
    ] = 10,
    where: Annotated[
        list[str] | None,
        typer.Option(
            help="Only items with this label, group or source, such as label=TUM, or without it, "
            "such as group!=P7; may be repeated.",
            show_default=False,
            rich_help_panel=panels.NEIGHBOURS,
        ),
    ] = None,
    exclude_self: Annotated[
        bool,
        typer.Option(
            "--exclude-self",
            help="Leave out items that are the query's own picture.",
            rich_help_panel=panels.NEIGHBOURS,
        ),
    ] = False,
    exclude_group: Annotated[
        str | None,
        typer.Option(
            help="Leave out items of this group (patient, slide). Default: the query's own, if it is an "
            "item of the index; '' leaves out none.",
            show_default=False,
            rich_help_panel=panels.NEIGHBOURS,
        ),
    ] = None,
    montage: Annotated[
        Path | None,
        typer.Option(
            help="PNG file for a picture of the answer.", show_default=False, rich_help_panel=panels.OUTPUT
        ),
    ] = None,
    store: Store = None,
    json: Json = False,
) -> None:
    """Find the indexed images nearest to query images, with class probabilities and novelty."""
    from bayestriplet.report.answers import note_moved, show_answers
    from bayestriplet.retrieval.conditions import read_conditions
    from bayestriplet.retrieval.index import Index

    read_conditions(where, exclude_group or None, option="--where")
    index = Index.open(run, store)
    index.check_search(k, where, exclude_group or None)
    answers: list[Answer] = []
    for read in _read(index, queries, montage):
        found = index.ask_others(read, k, where, exclude_self, exclude_group)
        if montage is not None:
            from bayestriplet.report.montage import write_montage

            write_montage(montage, index, read, found)
        if not json:
            show_answers(found)
        answers += found
    if json:
        one = len(answers) == 1 and not Path(queries[0]).is_dir()
        values = [answer.to_json() for answer in answers]
        print(json_text.dumps(values[0] if one else values, indent=1))
    elif montage is not None:
        typer.echo(f"{montage}: the query and its nearest neighbours")
    if exclude_group and not index.has_group(exclude_group):
        print(
            f"Note: the index has no group {exclude_group!r}, so that nothing was left out", file=sys.stderr
        )
    if note_moved(answers):
        raise typer.Exit(MOVED)


def _read(index: "Index", queries: list[str], montage: Path | None) -> "Iterator[Queries]":
    """Yield what is asked about, so much at a time as memory can hold decoded."""
    from bayestriplet.retrieval.queries import find_files

    if index.encoder.info.inputs:
        if montage is not None:
            raise InputError("--montage is for images; this run is on vectors, which have no pictures")
        yield from index.read(queries).parts(BATCH)
        return
    files = find_files(map(Path, queries))
    if montage is not None:
        from bayestriplet.report.montage import check_montage

        check_montage(montage, len(files))
    for start in range(0, len(files), BATCH):
        yield index.read(files[start : start + BATCH])
