"""The ``bayestriplet`` command."""

import signal
import sys
from contextlib import suppress
from types import FrameType
from typing import Annotated

import typer

import bayestriplet
from bayestriplet.cli import (
    compare,
    data,
    doctor,
    export,
    figures,
    index,
    predict,
    search,
    serve,
    teach,
    train,
)
from bayestriplet.errors import BayesTripletError, is_want_of_memory, last_line

app = typer.Typer(
    help=(bayestriplet.__doc__ or "").splitlines()[0],
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(data.app, name="data")
app.command("train")(train.train)
app.command("evaluate")(train.evaluate)
app.command("compare")(compare.compare)
app.command("figures")(figures.figures)
app.command("export")(export.export)
app.command("index")(index.index)
app.command("search")(search.search)
app.command("embed")(predict.embed)
app.command("predict")(predict.predict)
app.command("teach")(teach.teach)
app.command("serve")(serve.serve)
app.command("doctor")(doctor.doctor)

WAY = """\
Four commands lead from a folder of images, one subfolder per class, to a search page:

  bayestriplet train photos --out runs/first    # learn from the images
  bayestriplet index runs/first photos          # make them searchable
  bayestriplet search runs/first query.png      # neighbours, probabilities, novelty
  bayestriplet serve runs/first                 # the search page, at http://127.0.0.1:8000

No images at hand? Begin with scans that come with scikit-learn:

  bayestriplet train digits --size 28 --width 0.25 --out runs/first

Go on:

  bayestriplet --help            # all commands
  bayestriplet COMMAND --help    # the options of one
  bayestriplet doctor            # what is installed, and what is missing

docs/cli.md has every command with its output, examples/ has notebooks to read.
"""


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(bayestriplet.__version__)
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Show the way where no command is named."""
    del version
    if context.invoked_subcommand is None:
        typer.echo(WAY, nl=False)


def _stop(number: int, frame: FrameType | None) -> None:
    """End the process in good order; a training, a comparison and the service see to it themselves."""
    del frame
    with suppress(OSError):  # after SIGHUP nobody may be there to read it
        print("Stopped.", file=sys.stderr)
    raise SystemExit(128 + number)


def main() -> None:
    """Run the command; an error that was foreseen becomes one line, and so does a signal to stop."""
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), _stop)
    try:
        app()
    except BayesTripletError as error:
        print(f"Error: {last_line(error)}", file=sys.stderr)
        raise SystemExit(1) from None
    except SystemExit as ended:
        if isinstance(getattr(ended.__context__, "__cause__", None), KeyboardInterrupt):
            print("Stopped.", file=sys.stderr)  # Typer makes an exit of Ctrl-C, and says nothing
        raise
    except (ImportError, MemoryError, RuntimeError) as error:
        if not is_want_of_memory(error):
            raise
        print("Error: there is not enough memory for this: free some, or ask for less", file=sys.stderr)
        raise SystemExit(1) from None
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"Error: {where}{error.strerror or error}", file=sys.stderr)
        raise SystemExit(1) from None
