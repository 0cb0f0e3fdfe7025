"""The file of what a run was taught."""

import os
import signal
import subprocess
import sys
import threading
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from bayestriplet.errors import InputError, StateError
from bayestriplet.runs import taught as module
from bayestriplet.runs.adapting import Adapted
from bayestriplet.runs.folder import RunFolder
from bayestriplet.runs.taught import LOCK, Taught, check_names, open_taught, writing
from bayestriplet.runs.tensors import read_tensors, write_tensors

WRITE = """
import sys, numpy as np
from pathlib import Path
from bayestriplet.runs.taught import Taught
if sys.argv[2] == "full":  # the system refuses larger files, as a full disk does
    import resource, signal
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
path = Path(sys.argv[1])
while True:
    Taught.nothing("e", 64).plus(np.random.rand(40, 64), ["new"] * 40).save(path)
    print("written", flush=True)
"""


WAIT = """
import sys
from pathlib import Path
from bayestriplet.runs import taught
from bayestriplet.runs.folder import RunFolder
taught.PATIENCE = 0.1
with taught.writing(RunFolder(Path(sys.argv[1]))):
    pass
"""


def lesson(number=6, dim=5, encoder="of an encoder"):
    x = np.random.default_rng(0).normal(size=(number, dim)).astype(np.float32)
    return Taught.nothing(encoder, dim).plus(x, ["cat", "döner kebab"] * (number // 2)), x


def test_what_is_read_is_what_was_written(tmp_path):
    found, x = lesson()
    found = replace(found, adapted=Adapted(1.5, 0.75, -0.25))
    path = RunFolder(tmp_path).taught
    found.save(path)
    first = path.read_bytes()
    back = open_taught(RunFolder(tmp_path), "of an encoder", 5)
    assert (back.classes, back.count("cat"), back.count("dog")) == (("cat", "döner kebab"), 3, 0)
    for name in ("count", "mean", "scatter"):
        np.testing.assert_array_equal(getattr(back.statistics, name), getattr(found.statistics, name))
    assert back.adapted == found.adapted
    np.testing.assert_array_equal(np.sort(back.kept.vectors, 0), np.sort(x, 0))
    back.save(path)
    assert path.read_bytes() == first
    left = back.minus(x[::2], ["cat"] * 3)
    assert left.classes == back.without("cat").classes == ("döner kebab",)
    with pytest.raises(InputError, match="'cat' was taught 3 examples; 4 cannot be undone"):
        back.minus(x[:4], ["cat"] * 4)
    with pytest.raises(InputError, match="were not taught"):
        back.minus(1000 * x[:3], ["cat"] * 3)


def test_examples_leave_with_their_class_and_when_they_are_undone():
    found, x = lesson()
    assert found.without("cat").kept.rows.tolist() == [0, 0, 0]
    undone = found.minus(x[1:], ["döner kebab", "cat", "döner kebab", "cat", "döner kebab"])
    np.testing.assert_array_equal(undone.kept.vectors, x[:1])
    assert undone.classes == ("cat",)


def test_a_file_of_the_first_version_is_read_without_examples(tmp_path):
    path = tmp_path / "taught.safetensors"
    found, x = lesson()
    found.save(path)
    tensors, metadata = read_tensors(path, "what a run was taught")
    del tensors["examples"], tensors["examples_of"], metadata["checksum"]
    metadata["format"] = "1"
    write_tensors(path, tensors, metadata | {"checksum": module._checksum(tensors, metadata)})
    back = Taught.load(path)
    assert (back.classes, back.adapted, len(back.kept.rows)) == (found.classes, None, 0)
    assert len(back.plus(x, ["cat"] * 6).kept.rows) == 6


def test_a_file_of_another_encoder_or_of_other_bytes_is_refused_in_a_line(tmp_path):
    run = RunFolder(tmp_path)
    assert open_taught(run, "of an encoder", 5).classes == ()
    lesson(encoder="another")[0].save(run.taught)
    with pytest.raises(StateError, match=r"another encoder.*move taught\.safetensors away"):
        open_taught(run, "of an encoder", 5)
    content = bytearray(run.taught.read_bytes())
    content[-3] ^= 1
    run.taught.write_bytes(bytes(content))
    with pytest.raises(InputError, match="is damaged: its content is not what was written"):
        open_taught(run, "another", 5)
    run.taught.write_bytes(bytes(content[:100]))
    with pytest.raises(InputError, match="cannot be read as what a run was taught"):
        open_taught(run, "another", 5)


def test_a_full_disk_is_an_error_in_a_line_and_a_killed_writer_leaves_the_last_whole_file(tmp_path):
    path = tmp_path / "taught.safetensors"
    lesson()[0].save(path)
    before = path.read_bytes()
    done = subprocess.run(
        [sys.executable, "-c", WRITE, path, "full"], capture_output=True, text=True, check=False
    )
    assert "cannot be written: File too large" in done.stderr.splitlines()[-1]
    assert path.read_bytes() == before
    assert sorted(tmp_path.iterdir()) == [path]
    process = subprocess.Popen([sys.executable, "-c", WRITE, path, ""], stdout=subprocess.PIPE, text=True)
    for _ in range(20):
        process.stdout.readline()
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert Taught.load(path).count("new") == 40


def test_writers_wait_for_each_other(tmp_path, monkeypatch):
    run = RunFolder(tmp_path)
    x = np.random.default_rng(0).normal(size=(20, 5))

    def teach(one):
        with writing(run):
            open_taught(run, "e", 5).plus(one[None], ["new"]).save(run.taught)

    threads = [threading.Thread(target=teach, args=(one,)) for one in x]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = open_taught(run, "e", 5)
    assert found.count("new") == 20
    np.testing.assert_allclose(found.statistics.mean[0], x.mean(0))
    monkeypatch.setattr(module, "PATIENCE", 0.1)
    with writing(run):
        assert (tmp_path / LOCK).exists()
        done = subprocess.run(
            [sys.executable, "-c", WAIT, tmp_path], capture_output=True, text=True, check=False
        )
    assert "is being taught by another process; try again" in done.stderr


def test_names_in_other_letters_and_names_that_are_none_are_refused():
    check_names(["Tumour", "new"], ["Tumour", "other"])
    for name in ("tumour", "TUMOUR ", "\uff34umour"):
        with pytest.raises(InputError, match="is there as 'Tumour'"):
            check_names([name], ["Tumour"])
    with pytest.raises(InputError, match="'A' is there as 'a'"):
        check_names(["a", "A"], [])
    for name in ("", "  ", "a\nb"):
        with pytest.raises(InputError, match="a line of text"):
            check_names([name], [])


def test_more_classes_than_memory_holds_are_refused(monkeypatch):
    monkeypatch.setattr(module, "MOST_BYTES", 5 * 5 * 8 * 2)
    found, x = lesson()
    with pytest.raises(InputError, match="at most 2 classes of 5 dimensions"):
        found.plus(x[:1], ["third"])


def test_an_example_costs_no_more_after_many_than_after_few(tmp_path):
    rng, found, peaks, sizes = np.random.default_rng(0), Taught.nothing("e", 16), [], []
    tracemalloc.start()
    for _ in range(10):
        for x in rng.normal(size=(500, 1, 16)):
            found = found.plus(x, ["new"])  # which looks at nothing but what it has and the example
        peaks.append(tracemalloc.get_traced_memory()[1])
        found.save(tmp_path / "taught.safetensors")
        sizes.append((tmp_path / "taught.safetensors").stat().st_size)
    tracemalloc.stop()
    assert found.count("new") == 5000
    assert len(set(sizes)) == 1
    assert peaks[-1] < 1.1 * peaks[0] + 100_000  # with what writing takes
