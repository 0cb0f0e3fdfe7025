"""Help texts fit, are in groups, and what is printed without a command leads on."""

import re

import pytest
import typer
from typer.testing import CliRunner

from bayestriplet.cli.app import app
from bayestriplet.cli.panels import PANEL_OF
from bayestriplet.config import TrainConfig
from tests.prose import AVOID

COLUMNS = 100
UNGROUPED = {"--help", "--version"}


def commands(group, prefix=()):
    """Every command with its words, groups of commands included."""
    yield prefix, group
    for name, command in getattr(group, "commands", {}).items():
        yield from commands(command, (*prefix, name))


COMMANDS = dict(commands(typer.main.get_command(app)))


def show_help(words):
    done = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": str(COLUMNS), "TERM": "dumb"})
    assert done.exit_code == 0, done.output
    return done.output


def panels_of(text):
    """The lines of each framed panel by its title."""
    return dict(re.findall(r"^╭─ (.+?) ─+╮\n(.*?)^╰", text, re.DOTALL | re.MULTILINE))


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_fits_and_cuts_no_name(words):
    text = show_help(words)
    assert max(map(len, text.splitlines())) <= COLUMNS
    assert "…" not in text
    shown = set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", text))
    for parameter in COMMANDS[words].params:
        if parameter.param_type_name == "option":
            assert {*parameter.opts, *parameter.secondary_opts} <= shown


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_options_are_in_groups(words):
    panels = panels_of(show_help(words))
    ungrouped = re.findall(r"^│ \*? *(--[\w-]+)", panels["Options"], re.MULTILINE)
    assert ungrouped
    assert set(ungrouped) <= UNGROUPED


def test_every_field_of_a_training_has_its_group():
    assert sorted(PANEL_OF) == sorted(set(TrainConfig.model_fields) - {"data"})


def test_computed_defaults_are_in_words():
    text = " ".join(re.sub("[│╭╰╮╯─]", " ", show_help(("train",))).split())
    assert "Default: 50, and at least 500 steps." in text
    assert "0.005; 0.0005 with --unfreeze-from; 0.00001 in the recipe paper." in text
    assert "Default: False" not in text
    assert not re.search(r"Default: [^.]*\. Default:", text)


def test_without_a_command_the_way_is_shown():
    done = CliRunner().invoke(app, [])
    assert done.exit_code == 0
    typed = re.findall(r"^  bayestriplet (\w+) ", done.output, re.MULTILINE)
    assert typed[:4] == ["train", "index", "search", "serve"]
    assert "bayestriplet COMMAND --help" in done.output


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_uses_the_words_of_the_field(words):
    text = " ".join(re.sub("[│╭╰╮╯─]", " ", show_help(words)).split())
    assert [avoided for avoided in AVOID if re.search(rf"\b{avoided}\b", text)] == []
    assert not re.search(r"\b(?:subfolder|folder|item|image|row|line)s? a (?:class|image|group|step)\b", text)
