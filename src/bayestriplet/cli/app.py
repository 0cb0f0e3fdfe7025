"""The ``bayestriplet`` command."""

from typing import Annotated

import typer

import bayestriplet
from bayestriplet.errors import BayesTripletError

app = typer.Typer(help=bayestriplet.__doc__.splitlines()[0], no_args_is_help=True, add_completion=False)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(bayestriplet.__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    del version


@app.command()
def demo(
    steps: Annotated[int, typer.Option(min=1, help="Training steps.")] = 400,
    seed: Annotated[int, typer.Option(help="Of the network, the batches and the draws.")] = 0,
) -> None:
    """Train a small network on scikit-learn's digits and print Recall@k before and after."""
    from bayestriplet.cli.demo import train_on_digits

    train_on_digits(steps, seed)


def main() -> None:
    """Run the command; an error of the library becomes one line."""
    try:
        app()
    except BayesTripletError as error:
        typer.echo(f"Error: {error}", err=True)
        raise SystemExit(1) from None
