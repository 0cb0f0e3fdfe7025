"""``bayestriplet serve``."""

import os
from pathlib import Path
from typing import Annotated

import typer

from bayestriplet.cli import panels
from bayestriplet.cli.arguments import Store


def serve(
    run: Annotated[Path, typer.Argument(help="Folder of a run.")],
    store: Store = None,
    host: Annotated[
        str, typer.Option(help="Address to listen at.", rich_help_panel=panels.SERVER)
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="Port to listen at; 0 takes a free one.", rich_help_panel=panels.SERVER)
    ] = 8000,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="BAYESTRIPLET_TOKEN",
            help="Secret that clients have to send; needed at an address that other machines reach.",
            show_default=False,
            rich_help_panel=panels.SERVER,
        ),
    ] = None,
    read_only: Annotated[
        bool | None,
        typer.Option(
            "--read-only/--writable",
            help="Refuse to be taught, or allow it. Default: read-only where other machines reach it.",
            show_default=False,
            rich_help_panel=panels.SERVER,
        ),
    ] = None,
) -> None:
    """Serve the search page and its API until Ctrl-C. Images indexed meanwhile are found at once."""
    # Before NumPy and FAISS are imported: single queries are too small for threads to share.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    from bayestriplet.service.server import serve as serve_run

    def announce(address: str, indexed: bool) -> None:
        typer.echo(f"Serving {run} at {address}  (API: {address}/docs; Ctrl-C stops)")
        if not indexed:
            typer.echo(f"There is no index yet: `bayestriplet index {run} IMAGES` makes one, found at once.")

    serve_run(run, store=store, host=host, port=port, token=token, announce=announce, read_only=read_only)
    typer.echo("Stopped.")
