"""``bayestriplet teach``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayestriplet.checks import check_whole
from bayestriplet.cli import panels
from bayestriplet.cli.arguments import FollowLinks, Run, SkipBad
from bayestriplet.cli.progress import progress_bar
from bayestriplet.errors import InputError

if TYPE_CHECKING:
    from bayestriplet.data.progress import Progress
    from bayestriplet.retrieval.teaching import Teacher


def teach(
    run: Run,
    images: Annotated[
        str | None,
        typer.Argument(help="Folder, .csv manifest, .npz file, vectors:FILE or name of a set."),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(help="Class of all these images.", show_default=False, rich_help_panel=panels.DATA),
    ] = None,
    only_new: Annotated[
        bool,
        typer.Option(
            "--only-new",
            help="Leave out images without a label, or of classes that the run knows.",
            rich_help_panel=panels.DATA,
        ),
    ] = False,
    forget: Annotated[
        str | None,
        typer.Option(
            help="Take out what was taught of this class.",
            show_default=False,
            rich_help_panel=panels.TEACHING,
        ),
    ] = None,
    listed: Annotated[
        bool,
        typer.Option(
            "--list", help="Print the classes with counts and origin.", rich_help_panel=panels.OUTPUT
        ),
    ] = False,
    class_prior: Annotated[
        list[str] | None,
        typer.Option(
            help="How often a class is expected, as CLASS=WEIGHT; 1 is the average trained class. "
            "May be repeated.",
            show_default=False,
            rich_help_panel=panels.TEACHING,
        ),
    ] = None,
    suggest: Annotated[
        int | None,
        typer.Option(
            help="Teach nothing; name this many images whose labels would say most.",
            show_default=False,
            rich_help_panel=panels.TEACHING,
        ),
    ] = None,
    montage: Annotated[
        Path | None,
        typer.Option(
            help="PNG file for a picture of what --suggest names.",
            show_default=False,
            rich_help_panel=panels.OUTPUT,
        ),
    ] = None,
    skip_bad: SkipBad = False,
    follow_links: FollowLinks = False,
) -> None:
    """Add classes, or examples of known ones, to a trained run without training it again."""
    _check(images, [forget is not None, listed, bool(class_prior)], label, suggest, montage)
    weights = _parse_weights(class_prior or [])
    with progress_bar() as report:
        from bayestriplet.retrieval.teaching import Teacher

        teacher = Teacher.open(run)
        if suggest is not None:
            _suggest(teacher, str(images), suggest, montage, skip_bad, follow_links, report)
            return
        lines = []
        if images is not None:
            lesson = teacher.teach_set(
                images,
                label,
                only_new=only_new,
                skip_bad=skip_bad,
                follow_links=follow_links,
                progress=report,
            )
            lines.append(f"Taught {lesson}.")
            if lesson.new:
                lines.append(f"New: {', '.join(lesson.new[:10])}{', ...' * (len(lesson.new) > 10)}")
        if forget is not None:
            number = teacher.forget(forget)
            what = f"{number:,} taught examples" if number else "the class prior"
            lines.append(f"Forgot {what} of {forget}.")
        if weights:
            teacher.set_weights(weights)
            lines.append("Class prior set for " + ", ".join(weights) + ".")
    for line in lines:
        typer.echo(line)
    if listed:
        _show(teacher)
    elif lines:
        typer.echo(f"`bayestriplet teach {run} --list` shows all classes.")


def _check(
    images: str | None, others: list[bool], label: str | None, suggest: int | None, montage: Path | None
) -> None:
    """Raise unless it is clear what to do."""
    if images is None and (label is not None or suggest is not None):
        raise InputError("--label and --suggest are for IMAGES, which are not given")
    if images is None and not any(others):
        raise InputError("teach needs IMAGES, --list, --forget CLASS or --class-prior CLASS=WEIGHT; got none")
    if suggest is not None:
        check_whole("--suggest", suggest, 1)
        if label is not None or any(others):
            raise InputError(
                "--suggest only names images: leave out --label, --forget, --list and --class-prior"
            )
    if montage is not None and suggest is None:
        raise InputError("--montage is for --suggest, which is not given")


def _parse_weights(texts: list[str]) -> dict[str, float]:
    """Return the weights of CLASS=WEIGHT texts."""
    weights = {}
    for text in texts:
        name, equals, value = text.rpartition("=")
        try:
            weights[name] = float(value)
        except ValueError:
            equals = ""
        if not equals or not name:
            raise InputError(f"--class-prior must be CLASS=WEIGHT, such as tumour=0.5; got {text!r}")
    return weights


def _suggest(
    teacher: "Teacher", images: str, number: int, montage: Path | None, skip_bad: bool, follow_links: bool,
    report: "Progress",
) -> None:  # fmt: skip
    from bayestriplet.report.montage import check_montage
    from bayestriplet.report.suggestions import show_suggestions, write_suggestions
    from bayestriplet.retrieval.suggestions import suggest
    from bayestriplet.runs.predictive import open_predictive

    if montage is not None:
        check_montage(montage, 1)
        if teacher.encoder.info.inputs:
            raise InputError("--montage is for images; this run is on vectors, which have no pictures")
    predictive = open_predictive(teacher.run, teacher.encoder.fingerprint) or teacher.trained
    options = {"skip_bad": skip_bad, "follow_links": follow_links}
    found = suggest(teacher.encoder, predictive, images, number, progress=report, **options)
    show_suggestions(found)
    if montage is not None:
        write_suggestions(found, montage)
        typer.echo(f"{montage}: the images whose labels would say most")


def _show(teacher: "Teacher") -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table("class", box=SIMPLE_HEAD, padding=(0, 0, 0, 1), pad_edge=False)
    for heading in ("trained", "taught", "prior"):
        table.add_column(heading, justify="right")
    table.add_column("origin")
    for one in teacher.classes():
        table.add_row(
            escape(one.name), f"{one.trained:,}", f"{one.taught:,}", f"{100 * one.share:.1f}%", one.origin
        )
    Console().print(table, highlight=False)
