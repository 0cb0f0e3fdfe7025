"""A training that is killed at the worst moment."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import bayestriplet as bt
from bayestriplet.errors import InputError
from bayestriplet.runs.metrics import read_metrics

SMALL = "tests.training.networks:small"
KILLED = """
import os, signal, sys
import bayestriplet as bt
from bayestriplet.training import callbacks

save, when = callbacks.save_checkpoint, sys.argv[2]

def save_and_die(trainer, run):
    if trainer.global_step == 20 and when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    save(trainer, run)
    if trainer.global_step == 20:
        os.kill(os.getpid(), signal.SIGKILL)

callbacks.save_checkpoint = save_and_die
bt.train("digits", out=sys.argv[1], size=8, dim=8, backbone="tests.training.networks:small", max_steps=30,
         validate_every=10)
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_around_a_checkpoint_loses_no_validation(tmp_path, when):
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", KILLED, str(tmp_path / "run"), when]
    assert subprocess.run(command, cwd=root, capture_output=True).returncode == -signal.SIGKILL
    run = bt.train(resume=tmp_path / "run", backbone=SMALL)
    curves = read_metrics(run.folder.metrics)
    assert [step for step, _, _ in curves.validations] == [10, 20, 30]
    assert curves.step.tolist() == [10, 20, 30]


DYING = """
import os, signal, sys
from pathlib import Path
import bayestriplet as bt

replace = Path.replace
def die(self, target):
    name, when = sys.argv[2].split(":")
    if Path(target).name == name and when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    replace(self, target)
    if Path(target).name == name:
        os.kill(os.getpid(), signal.SIGKILL)
Path.replace = die
bt.train("digits", out=sys.argv[1], size=8, dim=8, backbone="tests.training.networks:small", max_steps=4,
         validate_every=2)
"""


@pytest.mark.parametrize("moment", ["checksums.json:before", "config.toml:before", "config.toml:after"])
def test_a_kill_as_a_training_begins_is_no_dead_end(tmp_path, moment):
    out = tmp_path / "run"
    command = [sys.executable, "-c", DYING, str(out), moment]
    assert subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True).returncode == -9
    assert out.is_dir()
    if moment.endswith("after"):
        run = bt.train(resume=out, backbone=SMALL)
    else:
        with pytest.raises(InputError, match=r"run holds no run to resume: start one with --out$"):
            bt.train(resume=out, backbone=SMALL)
        run = bt.train("digits", out=out, size=8, dim=8, backbone=SMALL, max_steps=4, validate_every=2)
    assert run.results["status"] == "finished"
    assert run.folder.splits.is_file()
