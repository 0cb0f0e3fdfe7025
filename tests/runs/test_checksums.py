"""Every file of a run has a checksum: damage is noticed, and a kill at any moment is no damage."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

from bayestriplet.errors import InputError
from bayestriplet.retrieval.encoder import OnnxEncoder
from bayestriplet.runs import checksums
from bayestriplet.runs.checksums import NAME, forget, record_bytes, verify
from bayestriplet.runs.encoder_files import read_model
from bayestriplet.runs.folder import RunFolder
from bayestriplet.runs.metrics import read_metrics
from bayestriplet.runs.posterior import read_posterior
from bayestriplet.runs.predictive import Predictive
from bayestriplet.runs.splits import read_splits
from bayestriplet.runs.teaching import Teaching
from bayestriplet.training.checkpoint import read_step

READERS = {
    "config": RunFolder.read_config,
    "splits": read_splits,
    "metrics": lambda run: read_metrics(run.metrics),
    "results": RunFolder.read_results,
    "model": lambda run: read_model(run.model),
    "posterior": lambda run: read_posterior(run.posterior),
    "predictive": lambda run: Predictive.load(run.predictive),
    "teaching": lambda run: Teaching.load(run.teaching),
    "encoder": OnnxEncoder.open,
    "checkpoint": read_step,
}


@pytest.fixture
def run(digits_run, tmp_path):
    return RunFolder(shutil.copytree(digits_run, tmp_path / "run"))


@pytest.mark.parametrize("name", READERS)
def test_a_single_flipped_bit_is_noticed_wherever_it_is(run, name):
    path, read = getattr(run, name), READERS[name]
    read(run)
    content = path.read_bytes()
    for place in np.random.default_rng(0).integers(len(content), size=10):
        changed = bytearray(content)
        changed[place] ^= 1
        path.write_bytes(changed)
        with pytest.raises(InputError, match=rf"{path.name} is damaged: it is not what was written; "):
            read(run)
    path.write_bytes(content)
    read(run)
    path.write_bytes(content + b" ")
    (run.path / NAME).unlink()  # as runs of version 0.1.0, and after a change on purpose
    verify(path)


def test_every_file_of_a_run_has_its_sum(run):
    sums = json.loads((run.path / NAME).read_text())["sha256"]
    files = {path.name for path in run.path.iterdir() if path.is_file()} - {NAME}
    assert set(sums) == files == {getattr(run, name).name for name in READERS}
    for name in files:
        found = subprocess.run(["sha256sum", run.path / name], capture_output=True, text=True).stdout
        assert found.split()[0] == sums[name][0]


def test_a_file_is_read_once_in_a_process_and_again_when_it_has_changed(run, monkeypatch):
    read, original = [], checksums._sum_of
    monkeypatch.setattr(checksums, "_sum_of", lambda path: read.append(path) or original(path))
    for _ in range(3):
        verify(run.model)
    assert len(read) == 1
    os.utime(run.model, (1, 1))
    verify(run.model)
    assert len(read) == 2


@pytest.mark.parametrize("content", ["{", "[]", '{"sha256": {"model.safetensors": "x"}}', "[" * 100_000])
def test_a_damaged_list_of_sums_is_one_line(run, content):
    (run.path / NAME).write_text(content)
    with pytest.raises(InputError, match=r"checksums\.json (cannot be|holds no).*, or delete it"):
        run.read_config()


def test_sums_of_a_newer_version_are_refused_by_name(run):
    (run.path / NAME).write_text('{"format": 2, "sha256": {}}')
    with pytest.raises(InputError, match=r"checksums\.json has format 2; this version reads 1"):
        run.read_config()


KILLED = """
import os, signal, sys
from pathlib import Path
from bayestriplet.runs.checksums import record_bytes

path = Path(sys.argv[1])
replace = Path.replace
def die(self, target):
    if Path(target).name == path.name and sys.argv[2] == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    replace(self, target)
    if Path(target).name in (path.name, sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
Path.replace = die
record_bytes(path, os.urandom(1000))
"""


def test_a_kill_at_any_moment_of_writing_is_no_damage(tmp_path):
    (tmp_path / "config.toml").touch()
    path = tmp_path / "model.safetensors"
    record_bytes(path, b"first")
    for when in ("before", "before", "after", NAME, "before"):
        done = subprocess.run([sys.executable, "-c", KILLED, path, when], capture_output=True, text=True)
        assert done.returncode == -signal.SIGKILL, done.stderr
        verify(path)
    forget(path)
    assert json.loads((tmp_path / NAME).read_text())["sha256"] == {}


def test_several_writers_at_once_lose_no_sum(tmp_path):
    (tmp_path / "config.toml").touch()
    files = [tmp_path / f"{i}.csv" for i in range(16)]
    threads = [threading.Thread(target=record_bytes, args=(file, os.urandom(100))) for file in files]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(json.loads((tmp_path / NAME).read_text())["sha256"]) == 16
    for file in files:
        verify(file)


def test_files_outside_of_a_run_have_no_sum(tmp_path):
    record_bytes(tmp_path / "model.safetensors", b"alone")
    assert [path.name for path in tmp_path.iterdir()] == ["model.safetensors"]
