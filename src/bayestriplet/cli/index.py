"""``bayestriplet index``."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayestriplet.cli import panels
from bayestriplet.cli.arguments import FollowLinks, Run, SkipBad, Store
from bayestriplet.cli.progress import progress_bar
from bayestriplet.errors import InputError
from bayestriplet.priority import let_others_go_first

if TYPE_CHECKING:
    from bayestriplet.retrieval.index import Index
    from bayestriplet.retrieval.indexing import Change
    from bayestriplet.runs.predictive import Predictive


def index(
    run: Run,
    images: Annotated[
        str | None,
        typer.Argument(help="Folder, .csv manifest, .npz file, vectors:FILE or name of a data set."),
    ] = None,
    store: Store = None,
    split: Annotated[
        str | None,
        typer.Option(
            help="Only this split: train, val or test. Default: all items.",
            show_default=False,
            rich_help_panel=panels.DATA,
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            help="Name of the set, to go on with one whose folder was moved. "
            "Default: the last name of its path.",
            show_default=False,
            rich_help_panel=panels.DATA,
        ),
    ] = None,
    skip_bad: SkipBad = False,
    follow_links: FollowLinks = False,
    remove: Annotated[
        list[str] | None,
        typer.Option(
            help="Take out items of this group, label, source or id, such as group=P7; may be repeated.",
            show_default=False,
            rich_help_panel=panels.INDEX,
        ),
    ] = None,
    purge: Annotated[
        bool,
        typer.Option(
            "--purge",
            help="Also remove what was taken out or replaced from the disk.",
            rich_help_panel=panels.INDEX,
        ),
    ] = False,
) -> None:
    """Make images searchable. Again: add new ones, replace changed ones, remove those that are gone."""
    _check(images, bool(remove), purge, split is not None or name is not None or skip_bad or follow_links)
    conditions = _parse_conditions(remove or [])
    let_others_go_first()  # a server may be answering from this index
    with progress_bar() as report:
        from bayestriplet.retrieval.index import Index

        opened = Index.open(run, store)
        if images is not None:
            change = opened.update(
                images, split=split, name=name, skip_bad=skip_bad, follow_links=follow_links, progress=report
            )
            lines = _tell_change(change)
        else:
            lines = _take_out(opened, conditions, purge)
        how = opened.store.prepare(report)
    for line in lines:
        typer.echo(line)
    typer.echo(f"{opened.store.uri} holds {len(opened):,} items; {how}.")
    if images is not None:
        option = "" if store is None else f" --store {store}"
        query = "vectors:FILE#ROW" if opened.encoder.info.inputs else "QUERY.png"
        typer.echo(f"Try next:  bayestriplet search {run} {query}{option}")
        options = " --skip-bad" * skip_bad + " --follow-links" * follow_links
        _offer_teaching(opened.predictive, change, run, f"{shlex.quote(images)} --only-new{options}")


def _offer_teaching(predictive: "Predictive | None", change: "Change", run: Path, images: str) -> None:
    """Say which command teaches classes that the run does not know, where labelled images are of such."""
    if predictive is None:
        return
    known = predictive.known_classes
    unknown = {name: n for name, n in change.labels.items() if name and name not in known}
    if unknown:
        number, names = sum(unknown.values()), ", ".join(sorted(unknown)[:3]) + ", ..." * (len(unknown) > 3)
        typer.echo(
            f"{number:,} {change.noun}{'s are' if number > 1 else ' is'} of {len(unknown):,} "
            f"class{'es' * (len(unknown) > 1)} that the run does not know ({names}); "
            f"to teach {'them' if number > 1 else 'it'}:  "
            f"bayestriplet teach {shlex.quote(str(run))} {images}"
        )


def _check(images: str | None, remove: bool, purge: bool, options: bool) -> None:
    """Raise unless it is clear what to do."""
    if images is None and not remove and not purge:
        raise InputError("index needs IMAGES to add, --remove FIELD=VALUE or --purge; got none of them")
    if images is not None and (remove or purge):
        option = "--remove" if remove else "--purge"
        raise InputError(f"index takes IMAGES or {option}, not both: run it twice")
    if images is None and options:
        raise InputError("--split, --name, --skip-bad and --follow-links are for IMAGES, which are not given")


def _parse_conditions(texts: list[str]) -> dict[str, str]:
    """Return the conditions of FIELD=VALUE texts."""
    conditions = {}
    for text in texts:
        field, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"--remove must be FIELD=VALUE, such as group=P7; got {text!r}")
        if field in conditions:
            raise InputError(f"--remove names {field} twice")
        conditions[field] = value
    return conditions


def _take_out(index: "Index", conditions: dict[str, str], purge: bool) -> list[str]:
    """Remove and purge, as far as is asked for; return what was done."""
    lines = [f"{index.remove(conditions):,} removed"] if conditions else []
    if purge:
        index.purge()
        lines.append(index.store.after_purge)
    return lines


def _tell_change(change: "Change") -> list[str]:
    """Return the line that says what an update did; what else one should know goes to standard error."""
    own = change.set
    if own is not None and change.moved_from:
        print(f"Note: set {own.name} was moved from {change.moved_from} to {own.data}", file=sys.stderr)
    if own is not None and change.taken_over:
        print(
            f"Note: the {change.taken_over:,} items that version 0.1.0 indexed as {own.name} "
            f"are now those of {own.data}", file=sys.stderr,
        )  # fmt: skip
    if own is not None and change.beside is not None and _is_gone(change.beside.data):
        print(
            f"Note: {change.beside.data} is gone, and its items are still in the index: if it was moved "
            f"to {own.data}, index that with --name {change.beside.name} after --remove source={own.name}",
            file=sys.stderr,
        )
    return [f"Set {own}: {change}"]


def _is_gone(data: str) -> bool:
    """Return whether data were at a path where nothing is any more; named data have none."""
    path = Path(data if Path(data).is_absolute() else data.partition(":")[2])
    return path.is_absolute() and not path.exists()
