"""Arguments and options that several commands take."""

from pathlib import Path
from typing import Annotated

import typer

from bayestriplet.cli import panels

Run = Annotated[Path, typer.Argument(help="Folder of a run.")]
OtherData = Annotated[
    str | None,
    typer.Option(help="Other data. Default: the run's own.", show_default=False, rich_help_panel=panels.DATA),
]
Images = Annotated[
    str, typer.Argument(help="Folder, .csv manifest, .npz file, vectors:FILE or name of a set.")
]
FollowLinks = Annotated[
    bool,
    typer.Option(
        "--follow-links",
        help="Follow links that lead out of a folder of images.",
        rich_help_panel=panels.DATA,
    ),
]
SkipBad = Annotated[
    bool, typer.Option("--skip-bad", help="Leave out files that cannot be read.", rich_help_panel=panels.DATA)
]
Backbone = Annotated[
    str | None,
    typer.Option(
        help="Code to run for a run with a backbone of your own.",
        show_default=False,
        rich_help_panel=panels.NETWORK,
    ),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print JSON instead of a table.", rich_help_panel=panels.OUTPUT)
]
Store = Annotated[
    str | None,
    typer.Option(
        help="Where the index is: a folder or a bucket (LanceDB), a .db file or http address (Milvus). "
        "Default: in the run.",
        show_default=False,
        rich_help_panel=panels.INDEX,
    ),
]
