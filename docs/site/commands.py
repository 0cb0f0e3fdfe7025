"""The page of commands: the help text of each, as the command prints it."""

from collections.abc import Iterator

import typer
from typer.testing import CliRunner

from bayestriplet.cli.app import app

COLUMNS = 100
HEAD = """# Commands

What `bayestriplet COMMAND --help` prints, of every command. [Commands, with their output](../cli.md) explains
them at length.
"""


def names_of(command: object, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the words of every command that does something."""
    inside = getattr(command, "commands", None)
    if inside is None:
        yield prefix
    for name, one in (inside or {}).items():
        yield from names_of(one, (*prefix, name))


def help_of(words: tuple[str, ...]) -> str:
    """Return the help text of a command, without spaces at the ends of lines."""
    size = {"COLUMNS": str(COLUMNS), "TERM": "dumb"}
    done = CliRunner().invoke(app, [*words, "--help"], env=size, prog_name="bayestriplet")
    if done.exit_code != 0:
        raise RuntimeError(f"{' '.join(words)} --help failed: {done.output}")
    return "\n".join(line.rstrip() for line in done.output.strip("\n").splitlines())


def write_commands() -> str:
    """Return the page."""
    parts = [HEAD]
    for words in names_of(typer.main.get_command(app)):
        name = " ".join(words)
        parts.append(f"## {name}\n\n``` {{ .text .help }}\n{help_of(words)}\n```\n")
    return "\n".join(parts)
