import csv
import json
import resource
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from sklearn.datasets import load_digits

import bayestriplet
from bayestriplet.cli.app import last_line
from bayestriplet.errors import DataError
from tests.commands import COMMAND, environment
from tests.commands import run_command as run

SMALL = [
    "--backbone",
    "tests.training.networks:small",
    "--dim",
    "16",
    "--max-steps",
    "20",
    "--validate-every",
    "10",
]

BACKBONE = SMALL[:2]


def run_itself(*arguments):
    """Run the command as a person starts it, imports and all."""
    command = [COMMAND, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment())


def assert_one_line(done, *parts):
    """The command failed with a single line that holds all the parts."""
    assert done.returncode == 1, done.stdout + done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert done.stderr.startswith("Error: ")
    for part in parts:
        assert part in done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Real scans as PNG files, a folder a class."""
    root = tmp_path_factory.mktemp("scans")
    digits = load_digits()
    for i in range(300):
        of_class = root / str(digits.target[i])
        of_class.mkdir(exist_ok=True)
        pixels = np.kron(np.rint(digits.images[i] * 15.9).astype(np.uint8), np.ones((4, 4), np.uint8))
        Image.fromarray(pixels).save(of_class / f"{i}.png")
    return root


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run on digits, made by the command itself."""
    out = tmp_path_factory.mktemp("runs") / "first"
    done = run_itself("train", "digits", *SMALL, "--out", out)
    assert done.returncode == 0, done.stderr
    return out, done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["train", "--help"],
        ["evaluate", "--help"],
        ["data", "--help"],
        ["data", "check", "--help"],
    ],
)
def test_help_answers_in_under_a_second(arguments):
    run_itself(*arguments)  # compiled bytecode, warm disk
    fastest = []
    for _ in range(2):
        before = seconds_of_children()
        assert run_itself(*arguments).returncode == 0
        fastest.append(seconds_of_children() - before)
    assert min(fastest) < 1


def seconds_of_children():
    """What ended processes have computed, however busy the machine is."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_version():
    assert run_itself("--version").stdout.strip() == bayestriplet.__version__


def test_train_prints_the_table_and_what_to_do_next(trained):
    out, printed = trained
    for part in ("R@1", "MAP@R", "untrained", "raw pixels", "±", f"bayestriplet evaluate {out}"):
        assert part in printed
    assert max(map(len, printed.splitlines()[:12])) <= 80
    results = json.loads((out / "results.json").read_text())
    assert results["status"] == "finished"


def test_evaluate_repeats_the_figures_of_training(trained):
    out, _ = trained
    done = run("evaluate", out, *BACKBONE, "--json")
    found = json.loads(done.stdout)
    assert found["retrieval"] == json.loads((out / "results.json").read_text())["test"]
    assert found["novelty"] is None
    assert list(found["probabilities"]) == ["posterior", "kNN vote", "distance to means"]
    for row in found["probabilities"].values():
        assert 0 < row["log_loss"]["low"] < row["log_loss"]["value"] < 2
        assert 0 <= row["ece"] < 0.2


def test_evaluate_prints_probabilities_and_says_where_they_are_missing(trained, tmp_path):
    out, _ = trained
    done = run("evaluate", out, *BACKBONE)
    for part in ("log loss", "ECE", "posterior", "kNN vote", "distance to means"):
        assert part in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    shutil.copytree(out, tmp_path / "run")
    (tmp_path / "run" / "predictive.safetensors").unlink()
    done = run("evaluate", tmp_path / "run", *BACKBONE)
    assert done.returncode == 0, done.stderr
    assert "No probabilities" in done.stdout


def test_probabilities_of_another_model_are_refused(trained, tmp_path):
    out, _ = trained
    shutil.copytree(out, tmp_path / "run")
    other = load_file(out / "model.safetensors")
    with safe_open(out / "model.safetensors", "pt") as file:
        metadata = file.metadata()
    save_file({name: value + 0 if name.endswith("bias") else -value for name, value in other.items()},
              tmp_path / "run" / "model.safetensors", metadata)  # fmt: skip
    (tmp_path / "run" / "checksums.json").unlink()  # changed on purpose
    done = run("evaluate", tmp_path / "run", *BACKBONE)
    assert_one_line(done, "predictive.safetensors is of another network than the encoder")


def test_a_run_without_some_classes_tells_their_items_as_novel(tmp_path):
    out = tmp_path / "run"
    options = [*SMALL[:4], "--max-steps", "150", "--validate-every", "150", "--without", "0,6"]
    done = run("train", "digits", *options, "--out", out)
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader((out / "splits.csv").open()))
    assert {row["label"] for row in rows} == set("12345789")
    done = run("evaluate", out, *BACKBONE, "--json")
    found = json.loads(done.stdout)
    assert found["retrieval"] == json.loads((out / "results.json").read_text())["test"]
    assert 0.7 < found["novelty"]["posterior"] <= 1
    assert 0.7 < found["novelty"]["nearest training item"] <= 1
    assert "AUROC" in run("evaluate", out, *BACKBONE).stdout
    assert_one_line(run("train", "digits", "--without", "x", "--out", tmp_path / "new"), "no class of digits")
    assert not (tmp_path / "new").exists()


def test_evaluate_takes_a_gallery_and_other_data(trained, folder):
    out, _ = trained
    done = run("evaluate", out, *BACKBONE, "--gallery", "train")
    assert "359 test items of digits against 1,078 training items" in done.stdout, done.stderr
    done = run("evaluate", out, *BACKBONE, "--data", folder, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert 0.2 < found["retrieval"]["bunca"]["recall@1"]["value"] <= 1
    assert found["probabilities"] is None  # other data than the run's own


def test_evaluate_measures_few_shot_accuracy_where_there_are_enough_classes(trained):
    out, _ = trained
    done = run("evaluate", out, *BACKBONE, "--few-shot", "--json")
    found = json.loads(done.stdout)
    assert [(task["ways"], task["shots"]) for task in found["few_shot"]["tasks"]] == [(5, 1), (5, 5)]
    assert found["few_shot"]["tasks"][1]["rows"]["raw pixels"]["value"] > 0.8
    assert "Not measured 20-way 1-shot" in found["note"]
    assert "Few-shot accuracy on" in run("evaluate", out, *BACKBONE, "--few-shot").stdout


def test_a_folder_of_images_is_trained_on_with_worker_processes(folder, tmp_path):
    done = run("train", folder, *SMALL[2:], "--width", "0.25", "--workers", "2", "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader((tmp_path / "run" / "splits.csv").open()))
    assert {row["split"] for row in rows} == {"train", "val", "test"}
    assert rows[0]["id"].endswith(".png")


def test_options_come_from_a_toml_file_and_the_command_line_wins(tmp_path):
    (tmp_path / "options.toml").write_text('data = "digits"\nmethod = "bh"\nmax_steps = 4\ndim = 8\n')
    done = run(
        "train", *SMALL[:2], "--config", tmp_path / "options.toml", "--dim", 12, "--out", tmp_path / "run"
    )
    assert done.returncode == 0, done.stderr
    written = (tmp_path / "run" / "config.toml").read_text()
    assert 'method = "bh"' in written
    assert "dim = 12" in written
    assert "lr = 0.005" in written


def test_two_devices_train_one_network_with_one_posterior(tmp_path):
    done = run("train", "digits", *SMALL, "--devices", 2, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    state = torch.load(tmp_path / "run" / "last.ckpt", weights_only=True)["state_dict"]
    seen = state["criterion.sampler.posterior.seen"]
    assert seen.tolist() == [100] * 10  # 20 steps of 50 items: both ranks' halves were merged


def test_ctrl_c_leaves_a_usable_run_and_resume_finishes_it(tmp_path):
    out = tmp_path / "run"
    command = [
        COMMAND,
        "train",
        "digits",
        *SMALL[:4],
        "--max-steps",
        "900",
        "--validate-every",
        "50",
        "--patience",
        "0",
    ]
    process = subprocess.Popen([*command, "--out", out], stdout=subprocess.PIPE, text=True, env=environment())
    for _ in range(600):
        if (out / "last.ckpt").exists():
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert f"Go on with:  bayestriplet train --resume {out} {' '.join(BACKBONE)}" in printed
    stopped = json.loads((out / "results.json").read_text())
    assert stopped["status"] == "interrupted"
    assert 0 < stopped["steps"] < 900
    assert run("evaluate", out, *BACKBONE).returncode == 0
    assert_one_line(run("train", "--resume", out), "which is code: give --backbone")
    done = run("train", "--resume", out, *BACKBONE)
    assert done.returncode == 0, done.stderr
    assert json.loads((out / "results.json").read_text())["steps"] == 900


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_to_stop_saves_everything_says_so_and_has_its_exit_code(number, code, tmp_path):
    out = tmp_path / "run"
    options = [*SMALL[:4], "--max-steps", "100000", "--validate-every", "0"]
    process = subprocess.Popen(
        [COMMAND, "train", "digits", *options, "--out", out],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(),
    )  # fmt: skip
    for _ in range(600):
        if (out / "metrics.csv").exists() and len((out / "metrics.csv").read_text().splitlines()) > 2:
            break
        time.sleep(0.1)
    process.send_signal(number)
    printed, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (code, "")
    assert printed.startswith("Stopped at step ")
    assert f"Go on with:  bayestriplet train --resume {out} {' '.join(BACKBONE)}" in printed
    assert (out / "last.ckpt").is_file()
    assert json.loads((out / "results.json").read_text())["status"] == "interrupted"
    assert run("evaluate", out, *BACKBONE).returncode == 0


def test_wrong_input_is_one_line(tmp_path, trained, folder):
    out, _ = trained
    new = tmp_path / "new"
    assert_one_line(run("train", "mnst", "--out", new), "there is no data set 'mnst'", "did you mean 'mnist'")
    assert_one_line(run("train", tmp_path / "gone", "--out", new), "there is no file or folder")
    assert_one_line(run("train", "digits"), "--out is missing")
    assert_one_line(run("train", "--out", new), "data is missing")
    assert_one_line(
        run("train", "digits", "--method", "btu", "--out", new),
        "there is no method 'btu'; did you mean 'but'",
    )
    assert_one_line(run("train", "digits", "--width", "0.7", "--out", new), "width must be one of")
    assert_one_line(run("train", "digits", "--out", out), "is not empty")
    assert_one_line(
        run("train", "--resume", tmp_path / "none"), "holds no run to resume: start one with --out"
    )
    assert_one_line(run("train", "--resume", out, *BACKBONE, "--lr", "0.5"), "lr was 0.005, now 0.5")
    assert_one_line(run("evaluate", tmp_path / "none"), "no such run")
    assert_one_line(run("evaluate", folder), "holds no finished run")
    assert_one_line(
        run("evaluate", out, *BACKBONE, "--split", "tset"), "split must be one of", "did you mean 'test'"
    )
    (tmp_path / "options.toml").write_text("lerning_rate = 1\n")
    done = run("train", "digits", "--config", tmp_path / "options.toml", "--out", new)
    assert_one_line(done, "unknown option 'lerning_rate'")
    assert not new.exists()


def test_bad_images_are_listed_before_training_and_can_be_skipped(folder, tmp_path):
    images = tmp_path / "images"
    shutil.copytree(folder, images)
    (images / "3" / "broken.png").write_bytes(b"not an image")
    (images / "4" / "empty.png").touch()
    done = run("train", images, *SMALL[2:], "--width", "0.25", "--out", tmp_path / "run")
    assert_one_line(done, "2 bad files", "broken.png is not an image", "empty.png is empty", "--skip-bad")
    assert not (tmp_path / "run").exists()
    done = run(
        "train",
        images,
        *SMALL[2:],
        "--width",
        "0.25",
        "--skip-bad",
        "--workers",
        0,
        "--out",
        tmp_path / "run",
    )
    assert done.returncode == 0, done.stderr


def test_a_run_is_measured_on_the_items_it_did_not_train_on_also_after_files_were_added(folder, tmp_path):
    images = tmp_path / "images"
    shutil.copytree(folder, images)
    (images / "3" / "broken.png").write_bytes(b"not an image")
    options = ["--width", "0.25", "--seed", "5", "--skip-bad", "--workers", "0", *SMALL[2:]]
    assert run("train", "images", *options, "--out", "run", cwd=tmp_path).returncode == 0
    printed = json.loads((tmp_path / "run" / "results.json").read_text())["test"]
    for i in range(7):
        shutil.copy(next((folder / "1").iterdir()), images / "0" / f"00{i}.png")
    again = run("evaluate", tmp_path / "run", "--json")  # from another folder, too
    assert json.loads(again.stdout)["retrieval"] == printed
    same = run("evaluate", tmp_path / "run", "--gallery", images, "--json")
    assert json.loads(same.stdout)["retrieval"] == printed  # no item finds itself
    next((images / "7").iterdir()).unlink()
    assert_one_line(run("evaluate", tmp_path / "run"), "1 items", "are gone")


def test_odd_values_are_one_line(tmp_path, folder):
    new = tmp_path / "new"
    assert_one_line(run("train", "digits", "--seed", "9" * 25, "--out", new), "seed")
    assert_one_line(run("train", "digits", "--backbone", "os:getcwd", "--out", new), "cannot be built")
    rows = ["path,label"] + [f"{path},x[/y]" for path in sorted((folder / "1").iterdir())[:1]]
    rows += [f"{path},b" for path in sorted((folder / "2").iterdir())[:9]]
    (tmp_path / "few.csv").write_text("\n".join(rows))
    done = run("train", tmp_path / "few.csv", "--width", "0.25", *SMALL[2:], "--workers", 0, "--out", new)
    assert "Traceback" not in done.stderr
    assert "x[/y]" in done.stdout + done.stderr


def test_an_error_in_a_worker_process_is_one_line():
    error = DataError("Caught DataError in DataLoader worker process 0.\nOriginal Traceback:\n  File ...\n"
                      "bayestriplet.errors.DataError: 3/a.png cannot be read: gone\n")  # fmt: skip
    assert last_line(error) == "3/a.png cannot be read: gone"


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    assert_one_line(
        run("train", "digits", *SMALL, "--out", tmp_path / "file" / "run"), "cannot be used for a run"
    )
