"""``bayestriplet data``: which data sets there are, how to get them, whether one is in order."""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bayestriplet.cli import panels
from bayestriplet.cli.progress import progress_bar

if TYPE_CHECKING:
    from bayestriplet.data.files import Examined

app = typer.Typer(help="List, get and check data sets.", no_args_is_help=True, add_completion=False)

Seed = Annotated[
    int,
    typer.Option(min=0, help="Seed of the splits that the data do not have.", rich_help_panel=panels.DATA),
]
Size = Annotated[
    int | None,
    typer.Option(
        min=1, help="Side to resize the images to. Default: their own.", rich_help_panel=panels.DATA
    ),
]
SplitBy = Annotated[
    str | None,
    typer.Option(
        help="What is never in two splits: item, group, class, or class:FILE.csv. "
        "Default: the data's own splits, else group, else item.",
        rich_help_panel=panels.DATA,
    ),
]
FollowLinks = Annotated[
    bool,
    typer.Option("--follow-links", help="Follow links that leave the folder.", rich_help_panel=panels.DATA),
]


@app.command("list")
def list_sets() -> None:
    """Show the data sets known by name, and what is here already."""
    from bayestriplet.data.named_sets import SOURCES

    table = Table("name", "what", "images", "classes", "from", "here")
    for name, source in SOURCES.items():
        numbers = (f"{source.images:,}", f"{source.classes:,}")
        table.add_row(name, source.what, *numbers, source.origin, _describe_presence(name))
    Console().print(table)
    typer.echo(
        "Beside these: a folder with one subfolder per class, a .csv manifest, an .npz file of MedMNIST, "
        "vectors:FILE."
    )


@app.command()
def get(name: Annotated[str, typer.Argument(help="One of those that 'data list' shows.")]) -> None:
    """Download a data set, or say where to download it, and what to do next."""
    from bayestriplet.data.mnist import get_mnist, mnist_folder
    from bayestriplet.data.named_sets import EXAMPLES, SOURCES
    from bayestriplet.data.sources import check_name

    source = SOURCES[check_name(name)]
    if name == "mnist":
        with progress_bar() as progress:
            get_mnist(progress)
        typer.echo(f"MNIST is in {mnist_folder()}")
    elif name == "digits":
        typer.echo("digits comes with scikit-learn: there is nothing to download.")
    else:
        typer.echo(f"{name} is not downloaded by this command. Get it from {source.url}")
        checksum = " (the checksum published there)" if "MD5" in source.download else ""
        typer.echo(f"{source.download}{checksum}; {source.unpacking}.")
    typer.echo(f"Next: bayestriplet train {EXAMPLES.get(name, name)} --out runs/first")


@app.command()
def check(
    data: Annotated[
        str, typer.Argument(metavar="PATH", help="Folder, .csv manifest, .npz file, vectors:FILE or name.")
    ],
    seed: Seed = 0,
    size: Size = None,
    split_by: SplitBy = None,
    follow_links: FollowLinks = False,
) -> None:
    """Decode every image; show classes, splits, sizes and every bad file. Exit code 1 if there are any."""
    from bayestriplet.data.audit import data_warnings
    from bayestriplet.data.sources import examine_data

    with progress_bar() as progress:
        examined = examine_data(
            data, seed=seed, split_by=split_by, size=size, follow_links=follow_links, progress=progress
        )
    _print_counts(examined)
    _print_facts(examined)
    for name, problem in examined.bad:
        typer.echo(f"{name} {problem}")
    if examined.bad:
        total = len(examined.bad) + len(examined.images)
        typer.echo(f"{len(examined.bad)} of {total} files are bad; --skip-bad leaves them out of a training")
        raise typer.Exit(1)
    typer.echo(f"No bad {'vectors' if examined.images.length else 'files'}.")
    for warning in data_warnings(examined.images, thorough=True):
        typer.echo(f"Warning: {warning}")


def _print_counts(examined: "Examined") -> None:
    """Print a row a class with its number of images in every split."""
    from bayestriplet.data.splits import SPLITS

    images = examined.images
    table = Table("class", *SPLITS, "all", title=escape(images.name))
    for k, name in enumerate(images.classes):
        splits = images.splits[images.labels == k]
        counts = [int((splits == split).sum()) for split in SPLITS]
        table.add_row(escape(name), *map(str, counts), str(len(splits)))
    totals = [len(images.indices(split)) for split in SPLITS]
    table.add_section()
    table.add_row("all", *map(str, totals), str(len(images)))
    Console().print(table)


def _print_facts(examined: "Examined") -> None:
    """Print what the images are like, and what was left out."""
    from bayestriplet.data.depth import FULL
    from bayestriplet.data.vectors import describe_vectors

    images = examined.images
    shown = [f"{count} of {what}" for what, count in examined.seen[:5]]
    more = f" and {len(examined.seen) - 5} other sizes" if len(examined.seen) > 5 else ""
    colour = "grey" if images.channels == 1 else "colour"
    typer.echo(f"Stored: {', '.join(shown)}{more}")
    if images.groups is not None:
        without = int((images.groups == "").sum())
        said = f", and {without:,} {images.noun}s without one" if without else ""
        typer.echo(f"Groups (patients, slides): {len(set(images.groups.tolist()) - {''}):,}{said}")
    typer.echo(f"Read as: {describe_vectors(images) or f'{images.size} x {images.size}, {colour}'}")
    if images.bits < FULL:
        typer.echo(f"16-bit files hold {images.bits} bits: {2**images.bits - 1:,} is white.")
    if examined.ignored:
        typer.echo(f"Ignored: {examined.ignored} (hidden, of other types, or links that leave the folder)")
    if examined.links:
        typer.echo(f"Links that leave the folder: {examined.links}; --follow-links follows them")


def _describe_presence(name: str) -> str:

    from bayestriplet.data.mnist import is_mnist_here

    if name == "mnist":
        return "yes" if is_mnist_here() else "no: data get mnist"
    if name == "digits":
        return "yes" if find_spec("sklearn") else "no: pip install scikit-learn"
    return f"see data get {name}"
