import pytest
import typer

from bayestriplet.cli.app import app
from bayestriplet.cli.compare import parse_methods, parse_seeds
from bayestriplet.errors import InputError
from bayestriplet.methods import TUNED
from tests.cli.test_app import SMALL, assert_one_line, run


def test_methods_and_seeds_are_lists_or_a_number():
    assert len(parse_methods("all")) == 9
    assert parse_methods("but, bh") == ("but", "bh")
    assert parse_seeds("3") == (0, 1, 2)
    assert parse_seeds("4,7") == (4, 7)


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (parse_methods, "but,hb", "methods must be one of 'but', .*; got 'hb'"),
        (parse_methods, "but,but", "methods must name different ones"),
        (parse_seeds, "1,2,1", "seeds must hold different numbers"),
        (parse_seeds, "0", "must be at least 1"),
        (parse_seeds, "-1,2", "seeds must be at least 0; got -1"),
        (parse_seeds, "two", "must be a number of seeds or a list"),
    ],
)
def test_lists_that_make_no_sense_are_refused(parse, text, message):
    with pytest.raises(InputError, match=message):
        parse(text)


def test_compare_makes_a_table_in_two_processes_and_goes_on_where_it_was(tmp_path):
    options = [
        "--methods",
        "but,bh",
        "--seeds",
        "2",
        "--no-tune",
        *SMALL[:4],
        "--max-steps",
        "6",
        "--out",
        tmp_path / "out",
    ]
    done = run("compare", "digits", *options, "--jobs", "2")
    assert done.returncode == 0, done.stderr
    for part in ("but-seed0", "bh-seed1", "to the best", "raw pixels", "table.md"):
        assert part in done.stdout
    again = run("compare", "digits", *options)
    assert "but-seed0" not in again.stdout
    assert "to the best" in again.stdout
    assert_one_line(run("compare", "digits", *options, "--dim", "9"), "holds a comparison with dim")


def test_compare_needs_a_folder_and_known_methods(tmp_path):
    assert_one_line(run("compare", "digits"), "--out is missing")
    assert_one_line(
        run("compare", "digits", "--methods", "btu", "--out", tmp_path / "x"), "did you mean 'but'"
    )
    assert not (tmp_path / "x").exists()


def test_no_option_of_compare_is_one_that_it_searches():
    command = typer.main.get_command(app).commands["compare"]
    options = {parameter.name for parameter in command.params}
    assert options & {"method", "seed", *TUNED} == set()
    assert {"recipe", "max_steps", "jobs"} <= options
