import json
import subprocess
import sys

import pytest
import typer
from PIL import Image
from typer.testing import CliRunner

from bayestriplet.cli.figures import figures
from bayestriplet.config import make_config
from bayestriplet.errors import BayesTripletError, InputError
from bayestriplet.report import methods_figures
from bayestriplet.training.run import TrainingRun

BACKBONE = "tests.training.networks:small"
APP = typer.Typer(pretty_exceptions_enable=False)
APP.command("figures")(figures)


def run(*arguments):
    return CliRunner().invoke(APP, [*map(str, arguments), "--backbone", BACKBONE])


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "run"
    options = {"data": "digits", "backbone": BACKBONE, "dim": 16, "max_steps": 10}
    training = TrainingRun(make_config(options, "test"), out)
    training.fit()
    training.finish(export=False)
    return out


def test_the_command_draws_a_run_and_says_what_each_file_shows(trained):
    done = run(trained, "--seed", "3")
    assert done.exit_code == 0, done.exception
    lines = done.stdout.splitlines()
    names = ["umap.png", "retrieval.png", "curves.png", "classes.png", "reliability.png"]
    assert [line.split(": ")[0] for line in lines] == [str(trained / "figures" / name) for name in names]
    assert all(len(line.split(": ")[1]) > 20 for line in lines)
    for name in names:
        with Image.open(trained / "figures" / name) as image:
            assert image.width == 1200


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--split", "tset"], "split must be one of"),
        (["--data", "no-such-folder"], "no-such-folder"),
    ],
)
def test_a_mistake_is_an_error_of_one_line(arguments, message, trained):
    with pytest.raises(BayesTripletError, match=message) as caught:
        raise run(trained, *arguments).exception
    assert "\n" not in str(caught.value)


def test_a_run_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(InputError, match="none: no such run"):
        raise run(tmp_path / "none").exception


def test_a_negative_seed_is_a_wrong_option(trained):
    assert run(trained, "--seed", "-1").exit_code == 2


def test_matplotlib_and_umap_are_not_imported_for_help():
    code = "import sys, bayestriplet.cli.figures; print({'matplotlib', 'umap'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def make_comparison(folder, **settings):
    recalls = {f"recall@{k}": 90.0 + k for k in (1, 4, 8, 16)}
    seed = {**recalls, "seconds": 9.0, "learning": [[10, 1.0, 80.0], [20, 2.0, 90.0]]}
    methods = {name: {"chosen": {"lr": 0.001}, "seeds": {"0": seed, "1": seed}} for name in ("but", "bh")}
    floors = {"raw pixels": recalls}
    settings = {"data": "mnist", "batches": "balanced", **settings}
    folder.mkdir(parents=True)
    summary = {"format": 1, "data": "mnist", "settings": settings, "methods": methods, "floors": floors}
    (folder / "comparison.json").write_text(json.dumps(summary))
    return folder


def test_a_comparison_and_several_as_regimes_are_drawn(tmp_path):
    one, two = make_comparison(tmp_path / "one"), make_comparison(tmp_path / "two", imbalance=50)
    done = run(one)
    assert [line.split(": ")[0] for line in done.stdout.splitlines()] == [
        str(one / "recall.png"),
        str(one / "learning.png"),
    ]
    done = run(one, two, "--out", tmp_path / "figures")
    assert done.stdout.startswith(str(tmp_path / "figures" / "regimes.png"))
    with Image.open(tmp_path / "figures" / "regimes.png") as image:
        assert image.width == 1200
    with pytest.raises(InputError, match="holds no finished comparison"):
        raise run(one, tmp_path).exception


def test_comparisons_of_the_same_name_are_told_apart_by_their_folders(tmp_path, monkeypatch):
    folders = [make_comparison(tmp_path / name) for name in ("hospital1", "hospital2")]
    folders.append(make_comparison(tmp_path / "tail", imbalance=50))
    drawn = []
    original = methods_figures.regimes_figure
    monkeypatch.setattr(
        methods_figures, "regimes_figure", lambda regimes: drawn.extend(regimes) or original(regimes)
    )
    assert run(*folders).exit_code == 0
    assert drawn == ["mnist (hospital1)", "mnist (hospital2)", "mnist, imbalance 1:50"]
