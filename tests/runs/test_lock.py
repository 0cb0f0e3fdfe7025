"""Two processes that want to work in one folder."""

import json
import os
import subprocess
import sys
import time

import pytest

from bayestriplet.config import make_config
from bayestriplet.errors import InputError, StateError
from bayestriplet.runs.comparison_folder import ComparisonFolder
from bayestriplet.runs.folder import check_free
from bayestriplet.runs.lock import holding
from bayestriplet.training.comparison import Comparison
from bayestriplet.training.events import ignore
from bayestriplet.training.run import TrainingRun

HOLD = """
import sys, time
from pathlib import Path
from bayestriplet.runs.lock import holding
with holding(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds a folder."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()


def test_the_second_is_told_who_holds_a_folder(tmp_path, holder):
    expected = rf"is in use by process {holder.pid} on .+ since {time.strftime('%Y')}-.+: wait for it to end"
    for _ in range(2):
        with pytest.raises(StateError, match=expected), holding(tmp_path):
            pass


def test_a_lock_whose_holder_has_died_is_free(tmp_path, holder):
    holder.kill()
    holder.wait()
    with holding(tmp_path):
        assert json.loads((tmp_path / ".lock").read_text())["pid"] == os.getpid()
    assert not (tmp_path / ".lock").exists()


def test_a_folder_with_a_lock_alone_is_free_for_a_run(tmp_path):
    (tmp_path / ".lock").touch()  # of a process that was killed
    check_free(tmp_path)
    ComparisonFolder(tmp_path).claim({})


def test_a_lock_that_cannot_be_written_is_one_line(tmp_path):
    with (
        pytest.raises(InputError, match="gone cannot be written: no such folder"),
        holding(tmp_path / "gone"),
    ):
        pass


OPTIONS = {"data": "digits", "size": 8, "dim": 8, "backbone": "tests.training.networks:small", "max_steps": 4}


def test_a_run_and_a_comparison_under_way_keep_others_out(tmp_path, holder):
    config = make_config(OPTIONS, "test")
    run = TrainingRun(config, tmp_path)
    with pytest.raises(StateError, match=f"in use by process {holder.pid}"):
        run.fit(resume=True)
    with pytest.raises(StateError, match=f"in use by process {holder.pid}"):
        Comparison(config, ("but",), (0,), tune=False).run(tmp_path, 1, ignore)
