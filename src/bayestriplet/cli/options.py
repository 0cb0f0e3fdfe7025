"""Options of commands made from the fields of TrainConfig, so that both never differ."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from bayestriplet.cli.defaults import describe_default
from bayestriplet.cli.panels import OUTPUT, PANEL_OF
from bayestriplet.config import TrainConfig
from bayestriplet.methods import METHODS

ALIASES = {"per_class": ("--items-per-class",)}


def option_of(name: str) -> inspect.Parameter:
    """Return the command-line option of a field of TrainConfig; None means it was not given."""
    field = TrainConfig.model_fields[name]
    kind = field.annotation
    flag = f"--{name.replace('_', '-')}"
    declared: Any = next((t for t in get_args(kind) if t in (int, float, str, bool)), kind)
    if name in ("method", "recipe", "batches", "logger"):
        declared = str
    elif name == "width":
        declared = float
    default = describe_default(name, field.default)
    shown = f" Default: {default}." if default else ""
    choices = f" One of: {', '.join(METHODS)}." if name == "method" else ""
    extra = (f"{flag}/--no-{name.replace('_', '-')}",) if declared is bool else (flag, *ALIASES.get(name, ()))
    option = typer.Option(
        *extra,
        help=f"{field.description}{choices}{shown}",
        show_default=False,
        rich_help_panel=PANEL_OF[name],
    )
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[declared | None, option]
    )


def path_option(name: str, help_text: str) -> inspect.Parameter:
    """Return an option that is not part of the config: a path."""
    return plain_option(name, Path, help_text)


def plain_option(name: str, kind: type, help_text: str, panel: str = OUTPUT) -> inspect.Parameter:
    """Return an option that is not part of the config; None means it was not given."""
    option = typer.Option(f"--{name}", help=help_text, show_default=False, rich_help_panel=panel)
    annotation = Annotated[kind | None, option]  # type: ignore[valid-type]
    return inspect.Parameter(
        name.split("/")[0], inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
    )


def give_options(
    command: Callable[..., None], own: list[inspect.Parameter], without: tuple[str, ...] = ()
) -> None:
    """Give a command the argument DATA, its own options, and one for each other field of TrainConfig."""
    argument = Annotated[str | None, typer.Argument(help=TrainConfig.model_fields["data"].description)]
    data = inspect.Parameter("data", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=argument)
    fields = [name for name in PANEL_OF if name not in without]
    signature = inspect.Signature([data, *own, *(option_of(name) for name in fields)])
    command.__signature__ = signature  # type: ignore[attr-defined]
    command.__annotations__ = {name: p.annotation for name, p in signature.parameters.items()}
