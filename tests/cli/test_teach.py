"""``bayestriplet teach``."""

import resource
import shlex
import shutil
import signal
import subprocess

import numpy as np
import pytest
from PIL import Image

import bayestriplet as bt
from tests.cli.test_app import assert_one_line, run
from tests.commands import COMMAND, environment
from tests.data.pictures import make_folder


@pytest.fixture(scope="module")
def copied(digits_run, tmp_path_factory):
    path = tmp_path_factory.mktemp("taught") / "run"
    return shutil.copytree(digits_run, path, ignore=shutil.ignore_patterns("index", "*.ckpt"))


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("data") / "scans", {"3": 2, "stripes": 6}, shape=(8, 8))


def test_index_names_the_command_that_teaches_and_search_knows_the_class_after_it(copied, pictures, tmp_path):
    done = run("index", copied, pictures)
    last = done.stdout.splitlines()[-1]
    assert last == (
        "6 images are of 1 class that the run does not know (stripes); "
        f"to teach them:  bayestriplet teach {copied} {pictures} --only-new"
    )
    done = run("teach", copied, pictures, "--only-new")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:2] == ["Taught 6 images of 1 new class.", "New: stripes"]
    assert "torch" not in done.stderr
    assert "do not know" not in run("index", copied, pictures).stdout
    done = run("search", copied, sorted(pictures.rglob("stripes/*.png"))[0], "-k", "3")
    assert "stripes" in done.stdout.splitlines()[0].partition("probability")[2]
    done = run("teach", copied, "--list")
    line = next(line for line in done.stdout.splitlines() if "stripes" in line)
    assert line.split() == ["stripes", "0", "6", "9.1%", "taught"]
    done = run("teach", copied, "--class-prior", "stripes=2", "--list")
    assert "16.7%" in done.stdout
    table = tmp_path / "table.csv"
    done = run("predict", copied, pictures, "--out", table)
    assert done.returncode == 0
    assert "not measured on held-out classes.\n" in done.stdout
    assert "p(stripes)" in table.read_text().splitlines()[0]
    done = run("teach", copied, "--forget", "stripes")
    assert done.stdout.splitlines()[0] == "Forgot 6 taught examples of stripes."
    assert not bt.Run(copied).folder.taught.exists()
    run("teach", copied, "--class-prior", "3=2")
    assert run("teach", copied, "--forget", "3").stdout.splitlines()[0] == "Forgot the class prior of 3."
    assert not bt.Run(copied).folder.taught.exists()


def test_index_counts_the_images_that_the_named_command_would_teach(copied, pictures, tmp_path):
    run("index", copied, pictures)
    known = make_folder(tmp_path / "known ones", {"3": 2}, shape=(8, 8))
    assert "does not know" not in run("index", copied, known).stdout
    (known / "dots").mkdir()
    Image.new("L", (8, 8), 9).save(known / "dots" / "0.png")
    (known / "dots" / "1.png").write_bytes(b"no picture")
    last = run("index", copied, known, "--skip-bad").stdout.splitlines()[-1]
    assert last.startswith("1 image is of 1 class that the run does not know (dots); to teach it:  ")
    done = run(*shlex.split(last.partition(":  ")[2])[1:])
    assert done.stdout.splitlines()[0] == "Taught 1 image of 1 new class."
    bt.Run(copied).forget("dots")


def test_suggestions_are_a_table_and_a_picture(copied, tmp_path):
    picture = tmp_path / "worth.png"
    done = run("teach", copied, "digits", "--suggest", "12", "--montage", picture)
    assert done.returncode == 0, done.stderr
    rows = [
        line.split() for line in done.stdout.splitlines() if line.split()[:1] and line.split()[0].isdigit()
    ]
    assert len(rows) == 12
    assert "Novelty: not measured on held-out classes." in done.stdout
    bits = [float(row[1]) for row in rows]
    assert bits == sorted(bits, reverse=True)
    assert np.asarray(Image.open(picture)).std() > 10
    assert not bt.Run(copied).folder.taught.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "teach needs IMAGES"),
        (("--label", "x"), "--label and --suggest are for IMAGES"),
        (("--forget", "3"), r"nothing was taught of class '3' (it was trained"),
        (("--forget", "stripe"), "nothing was taught of class 'stripe'"),
        (("--class-prior", "3"), "--class-prior must be CLASS=WEIGHT"),
        (("digits", "--suggest", "0"), "--suggest must be at least 1"),
        (("digits", "--montage", "x.png"), "--montage is for --suggest"),
        (("digits", "--only-new"), "the run knows all classes of digits"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_said_in_one_line(copied, options, message):
    assert_one_line(run("teach", copied, *options), message)


def fill_the_disk():
    """Let the system refuse files of more than 1,000 bytes, as a full disk does."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))


def test_a_full_disk_is_said_in_one_line_and_what_was_taught_before_stays(copied, pictures):
    assert run("teach", copied, pictures, "--only-new").returncode == 0
    taught = bt.Run(copied).folder.taught
    before = taught.read_bytes()
    command = [COMMAND, "teach", copied, pictures, "--label", "more"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, env=environment(), preexec_fn=fill_the_disk
    )
    assert_one_line(done, "taught.safetensors cannot be written: File too large")
    assert taught.read_bytes() == before
    taught.unlink()
