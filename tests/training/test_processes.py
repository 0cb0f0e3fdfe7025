"""Trainings on two and three real processes: equal where they have to be, resumed, and ended together."""

import csv
import functools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits

from tests.commands import COMMAND, run_command
from tests.commands import environment as plain

TORCHRUN = Path(sys.executable).parent / "torchrun"
BACKBONE = "tests.training.faults:faulty"
SMALL = ["--backbone", BACKBONE, "--dim", "16", "--batches", "random"]
SMALL += ["--batch-size", "31", "--max-steps", "20", "--validate-every", "5"]
SMALL += ["--method", "but"]  # which picks positives at random: every process draws as many numbers as it has
several = pytest.mark.parametrize("ranks", [2, 3])
# Of each fault (a loss that is not finite, a kill, bad data) one test has two processes and another three.
two, three = (pytest.mark.parametrize("ranks", [number]) for number in (2, 3))


@pytest.fixture(autouse=True)
def fault_at(tmp_path, monkeypatch):
    """The file that is touched when a fault happens."""
    monkeypatch.setenv("FAULT_AT", str(tmp_path / "fault"))
    return tmp_path / "fault"


def environment(fault="none:0:0"):
    return plain(FAULT=fault)


def run(*arguments, fault="none:0:0", first=(COMMAND,)):
    if first == (COMMAND,):
        return run_command(*arguments, env=environment(fault))
    command = [*map(str, first), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=180, env=environment(fault))


def train(out, ranks, **options):
    return run("train", "digits", *SMALL, "--devices", ranks, "--out", out, **options)


def metrics_but_times(out):
    with (out / "metrics.csv").open() as file:
        return [{name: row[name] for name in row if name != "seconds"} for row in csv.DictReader(file)]


def processes_of(out):
    """Processes whose command line names the folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(out).encode() in path.read_bytes() and int(path.parent.name) != os.getpid():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def wait_until(is_true, seconds):
    until = time.monotonic() + seconds
    while not is_true() and time.monotonic() < until:
        time.sleep(0.1)
    assert is_true()


def assert_ended_in_time(out):
    """All processes have ended, within 30 seconds of the fault."""
    assert time.time() - (out.parent / "fault").stat().st_mtime < 30
    assert not processes_of(out)


def assert_one_line(done, *parts):
    assert done.returncode == 1, done.stdout + done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert done.stderr.startswith("Error: ")
    for part in parts:
        assert done.stderr.count(part) == 1, done.stderr


# The same state on all processes


@several
def test_nothing_is_broadcast_and_weights_and_posterior_are_equal_on_all_ranks(ranks, tmp_path):
    (tmp_path / "states").mkdir()
    script = Path(__file__).parent / "states_of_ranks.py"
    done = run(tmp_path / "run", ranks, tmp_path / "states", first=(sys.executable, script))
    assert done.returncode == 0, done.stderr
    first, *others = (torch.load(tmp_path / "states" / f"{rank}.pt") for rank in range(ranks))
    assert first["state"]["criterion.sampler.posterior.seen"].sum() == 12 * 31
    for other in others:
        assert not first["broadcasts"]
        assert not other["broadcasts"]
        different = {
            name for name, value in first["state"].items() if not torch.equal(value, other["state"][name])
        }
        assert different == {f"encoder.backbone.network.1.running_{name}" for name in ("mean", "var")}
    kept = torch.load(tmp_path / "run" / "last.ckpt", weights_only=True)
    for name, value in first["state"].items():
        assert torch.equal(kept["state_dict"][name], value), name
    for state, rank in zip([first, *others], kept["ranks"], strict=True):
        assert torch.equal(rank["generators"]["draws"], state["draws"])
        for name, value in rank["buffers"].items():
            assert torch.equal(value, state["state"][f"encoder.{name}"]), name


# Going on


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Return the folder of a training on so many processes that nothing disturbs."""

    @functools.cache
    def of(ranks):
        out = tmp_path_factory.mktemp("undisturbed") / "run"
        done = train(out, ranks)
        assert done.returncode == 0, done.stderr
        return out

    return of


@several
def test_a_resumed_training_on_several_processes_equals_an_undisturbed_one(ranks, undisturbed, tmp_path):
    original = undisturbed(ranks)
    done = train(tmp_path / "parts", ranks, fault="SIGINT:1:8")
    assert done.returncode == 0, done.stderr
    assert "Stopped at step 8." in done.stdout
    states = torch.load(tmp_path / "parts" / "last.ckpt", weights_only=True)["ranks"]
    assert len(states) == ranks
    draws = [state["generators"]["draws"] for state in states]
    assert not torch.equal(draws[0], draws[-1])  # so the first one's would not do for all
    done = run("train", "--resume", tmp_path / "parts", "--backbone", BACKBONE)
    assert done.returncode == 0, done.stderr
    for file in ("model.safetensors", "posterior.safetensors", "predictive.safetensors"):
        assert (original / file).read_bytes() == (tmp_path / "parts" / file).read_bytes(), file
    assert metrics_but_times(original) == [
        row for row in metrics_but_times(tmp_path / "parts") if row["step"] != "8"
    ]
    whole, parts = (
        torch.load(path / "last.ckpt", weights_only=True) for path in (original, tmp_path / "parts")
    )
    for one, other in zip(whole["ranks"], parts["ranks"], strict=True):
        for part in ("generators", "buffers"):
            for name, value in one[part].items():
                assert torch.equal(value, other[part][name]), name


def test_a_run_is_not_resumed_on_another_number_of_processes(tmp_path):
    done = train(tmp_path / "run", 2, fault="SIGINT:0:8")
    assert done.returncode == 0, done.stderr
    path = tmp_path / "run" / "last.ckpt"
    state = torch.load(path, weights_only=True)
    state["ranks"].append(state["ranks"][0])
    torch.save(state, path)
    (tmp_path / "run" / "checksums.json").unlink()  # changed on purpose
    done = run("train", "--resume", tmp_path / "run", "--backbone", BACKBONE)
    assert_one_line(done, "the run was begun on 3 processes; now there are 2")


# Ending together


def assert_last_good_state(out, step):
    """The checkpoint is that of the last validation, and nothing half written lies about."""
    assert torch.load(out / "last.ckpt", weights_only=True)["global_step"] == step
    assert {path.name for path in out.glob(".*")} <= {".lock"}  # which the system has freed


@three
def test_a_loss_that_is_not_finite_on_one_rank_ends_all_with_one_line(ranks, tmp_path):
    done = train(tmp_path / "run", ranks, fault=f"nan:{ranks - 1}:8")
    assert_ended_in_time(tmp_path / "run")
    assert_one_line(done, "at step 7: ", "embeddings must be finite", "what was measured until then is in")
    assert_last_good_state(tmp_path / "run", 5)
    assert json.loads((tmp_path / "run" / "results.json").read_text())["status"] == "diverged"


@two
def test_a_loss_of_a_method_without_posterior_that_is_not_finite_on_one_rank_ends_all(ranks, tmp_path):
    done = run(
        "train", "digits", *SMALL, "--method", "bh", "--devices", ranks, "--out", tmp_path / "run",
        fault="nan:1:8",
    )  # fmt: skip
    assert_ended_in_time(tmp_path / "run")
    assert_one_line(done, "at step 7: ", "try a lower --lr; what was measured until then is in")
    assert_last_good_state(tmp_path / "run", 5)
    assert json.loads((tmp_path / "run" / "results.json").read_text())["status"] == "diverged"


@three
def test_a_rank_that_is_killed_ends_all_with_one_line_and_the_run_can_go_on(ranks, tmp_path):
    done = train(tmp_path / "run", ranks, fault=f"SIGKILL:{ranks - 1}:8")
    out = tmp_path / "run"
    assert_ended_in_time(out)
    assert_one_line(
        done, f"the process of rank {ranks - 1} was killed by signal 9: go on with", f"--resume {out}"
    )
    assert_last_good_state(out, 5)
    done = run("train", "--resume", out, "--backbone", BACKBONE)
    assert done.returncode == 0, done.stderr
    assert json.loads((out / "results.json").read_text())["steps"] == 20


@two
def test_the_others_end_with_one_line_when_the_first_rank_is_killed(ranks, tmp_path):
    with (tmp_path / "errors").open("w") as errors:  # a pipe would be open until the last process has ended
        command = [COMMAND, "train", "digits", *SMALL, "--devices", str(ranks), "--out", tmp_path / "run"]
        process = subprocess.Popen(command, stderr=errors, env=environment("SIGKILL:0:8"))
        assert process.wait(120) == -signal.SIGKILL
    wait_until(lambda: not processes_of(tmp_path / "run"), 30)
    assert_ended_in_time(tmp_path / "run")
    (line,) = (tmp_path / "errors").read_text().splitlines()
    assert line.startswith("Error: the process of rank 0 was killed: go on with")
    assert_last_good_state(tmp_path / "run", 5)


@three
def test_a_rank_that_stands_still_does_not_keep_the_others_waiting(ranks, tmp_path):
    done = train(tmp_path / "run", ranks, fault="SIGSTOP:1:8")
    assert_one_line(done, "the process of rank 1 has not answered for 20 seconds: go on with")
    assert not processes_of(tmp_path / "run")
    assert_last_good_state(tmp_path / "run", 5)


def test_the_others_end_when_the_first_rank_stands_still(tmp_path):
    out = tmp_path / "run"
    command = [COMMAND, "train", "digits", *SMALL, "--devices", "2", "--out", out]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment("SIGSTOP:0:8"))
    wait_until(lambda: (out / "last.ckpt").exists(), 120)
    wait_until(lambda: processes_of(out) == [process.pid] and state_of(process.pid) == "T", 45)
    process.send_signal(signal.SIGCONT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 1
    assert errors.startswith("Error: the process of rank 0 has not answered for 20 seconds: go on with")
    assert len(errors.splitlines()) == 1


def state_of(number):
    return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]


@three
def test_an_image_that_cannot_be_read_by_one_rank_ends_all_with_one_line(ranks, tmp_path):
    digits = load_digits()
    for i in range(200):
        of_class = tmp_path / "scans" / str(digits.target[i])
        of_class.mkdir(parents=True, exist_ok=True)
        pixels = (digits.images[i] * 15).astype("uint8")
        Image.fromarray(pixels).save(of_class / f"{i}.png")
    out = tmp_path / "run"
    options = [
        *SMALL[:-4],
        "--validate-every",
        "5",
        "--max-steps",
        "100000",
        "--patience",
        "0",
        "--workers",
        "1",
        "--size",
        "8",
    ]
    command = [COMMAND, "train", tmp_path / "scans", *options, "--devices", str(ranks), "--out", out]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment()
    )
    wait_until(lambda: (out / "last.ckpt").exists(), 120)
    with (out / "splits.csv").open() as file:
        chosen = next(row["id"] for row in csv.DictReader(file) if row["split"] == "train")
    (tmp_path / "scans" / chosen).write_bytes(b"broken")
    _, errors = process.communicate(timeout=30)
    done = subprocess.CompletedProcess(command, process.returncode, "", errors)
    assert_one_line(done, Path(chosen).name)
    assert not processes_of(out)
    assert torch.load(out / "last.ckpt", weights_only=True)["global_step"] % 5 == 0


def test_data_that_only_a_further_process_finds_missing_end_all_with_one_line(tmp_path):
    code = "import os, sys; sys.argv[1:] = {}; from bayestriplet.cli.app import main; main()"
    arguments = ["train", "digits", *SMALL, "--devices", "2", "--out", str(tmp_path / "run")]
    (tmp_path / "late.py").write_text(
        "import os\n"
        "from bayestriplet.training import run\n"
        "from bayestriplet.errors import DataError\n"
        "def missing(*_, **__): raise DataError('scans/7.png is gone')\n"
        "if os.environ.get('LOCAL_RANK') == '1': run.open_images = missing\n" + code.format(arguments)
    )
    done = run(first=(sys.executable, tmp_path / "late.py"))
    assert_one_line(done, "scans/7.png is gone")
    assert not (tmp_path / "run").exists()  # nothing was trained


# Under torchrun


def run_under_torchrun(out, ranks, fault="none:0:0"):
    first = (TORCHRUN, "--standalone", "--nproc-per-node", ranks, "--no-python", COMMAND)
    return run("train", "digits", *SMALL, "--devices", ranks, "--out", out, first=first, fault=fault)


@pytest.mark.parametrize(
    ("fault", "line", "ranks"),
    [("SIGKILL:1:8", "was lost: go on with", 3), ("nan:1:8", "embeddings must be finite", 2)],
    ids=["killed", "not finite"],
)
def test_a_failure_under_torchrun_ends_all_and_is_one_line_of_ours(fault, line, ranks, tmp_path):
    done = run_under_torchrun(tmp_path / "run", ranks, fault)
    assert_ended_in_time(tmp_path / "run")
    assert done.returncode != 0
    (ours,) = [text for text in done.stderr.splitlines() if text.startswith("Error: ")]
    assert line in ours
    assert "bayestriplet/" not in done.stderr.replace(str(tmp_path), "")  # no traceback of ours
    assert_last_good_state(tmp_path / "run", 5)


def test_torchrun_and_devices_train_the_same_network(undisturbed, tmp_path):
    done = run_under_torchrun(tmp_path / "torchrun", 2)
    assert done.returncode == 0, done.stderr
    models = [(path / "model.safetensors").read_bytes() for path in (undisturbed(2), tmp_path / "torchrun")]
    assert models[0] == models[1]
