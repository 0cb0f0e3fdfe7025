"""A run folder that names code, which is run only if whoever resumes it says so."""

import pytest

import bayestriplet as bt
from bayestriplet.cli.train import how_to_resume
from bayestriplet.config import make_config
from bayestriplet.errors import InputError
from bayestriplet.runs.splits import write_splits
from bayestriplet.training.run import TrainingRun

CODE = "foreign_network:factory"
OPTIONS = {"data": "digits", "size": 8, "dim": 8, "backbone": CODE, "max_steps": 4, "validate_every": 2}
MODULE = """
from pathlib import Path
from torch import nn
Path("was_run").touch()
def factory(channels, dim):
    return nn.Sequential(nn.Flatten(), nn.Linear(64 * channels, dim))
"""


@pytest.fixture
def stopped(tmp_path, monkeypatch):
    """A run that was killed before its first checkpoint, in a folder with the module it names."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "foreign_network.py").write_text(MODULE)
    run = TrainingRun(make_config(OPTIONS, "test"), tmp_path / "run")
    run.folder.path.mkdir()
    run.folder.write_config(run.config)
    write_splits(run.folder, run.images)
    return run.folder.path


def test_resuming_does_not_run_the_code_that_the_run_names(stopped):
    expected = f"config.toml needs the backbone '{CODE}', which is code: give --backbone {CODE} to run it"
    with pytest.raises(InputError, match=expected):
        bt.train(resume=stopped)
    assert not (stopped.parent / "was_run").exists()


def test_a_file_of_options_does_not_run_the_code_that_it_names(stopped):
    options = stopped / "config.toml"
    with pytest.raises(InputError, match=f"config.toml needs the backbone '{CODE}', which is code"):
        bt.train(config=options, out=stopped.parent / "other")
    assert not (stopped.parent / "was_run").exists()


def test_code_that_is_named_again_is_run(stopped):
    assert bt.train(resume=stopped, backbone=CODE).results["status"] == "finished"
    assert (stopped.parent / "was_run").exists()


def test_other_code_than_the_runs_is_not_run(stopped):
    with pytest.raises(InputError, match="backbone was 'foreign_network:factory', now 'other:factory'"):
        bt.train(resume=stopped, backbone="other:factory")


def test_how_to_go_on_names_the_code(stopped):
    assert how_to_resume(bt.Run(stopped)) == f"bayestriplet train --resume {stopped} --backbone {CODE}"
