"""A training that is killed at the worst moment."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import bayestriplet as bt
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
