import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from bayestriplet.cli import data as command
from bayestriplet.errors import DataError, InputError
from tests.data.pictures import make_folder, ramp, save_deep


def run(*arguments):
    return CliRunner().invoke(command.app, [str(one) for one in arguments], catch_exceptions=True)


@pytest.fixture(autouse=True)
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BAYESTRIPLET_DATA", str(tmp_path / "cache"))


def test_help_answers_in_under_a_second():
    call = [sys.executable, "-c", "from bayestriplet.cli.data import app; app()", "--help"]
    subprocess.run(call, capture_output=True, timeout=60)  # compiled bytecode, warm disk
    start = time.perf_counter()
    assert subprocess.run(call, capture_output=True, timeout=60).returncode == 0
    assert time.perf_counter() - start < 1


def test_list_names_every_set_and_whether_it_is_here():
    done = run("list")
    assert done.exit_code == 0
    rows = {line.split("│")[1].strip(): line for line in done.output.splitlines() if "│" in line}
    assert {"mnist", "digits", "crc", "pathmnist", "omniglot", "cub"} <= set(rows)
    assert "no" in rows["mnist"].split("│")[6]
    assert "yes" in rows["digits"].split("│")[6]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "crc",
            [
                "https://zenodo.org/records/1214456",
                "6fd702d11df6292bc054397ae038a464",
                "11.7 GB",
                "published",
            ],
        ),
        ("pathmnist", ["https://zenodo.org/records/10519652", "a8b06965200029087d5bd730944a56c1"]),
        ("digits", ["nothing to download", "bayestriplet train digits"]),
        (
            "omniglot",
            [
                "https://github.com/brendenlake/omniglot",
                "images_background.zip and images_evaluation.zip",
                "unpack both into one folder.",
                "bayestriplet train omniglot:/path/to/omniglot",
            ],
        ),
        (
            "cub",
            [
                "vision.caltech.edu",
                "CUB_200_2011.tgz, about 1.1 GB; unpack it.",
                "train cub:/path/to/CUB_200_2011",
            ],
        ),
    ],
)
def test_get_says_where_to_get_what_it_does_not_download(name, said):
    done = run("get", name)
    assert done.exit_code == 0
    for part in [*said, "bayestriplet train "]:
        assert part in done.output


def test_get_mnist_says_where_it_is_and_what_is_next(monkeypatch, tmp_path):
    monkeypatch.setattr("bayestriplet.data.mnist.get_mnist", lambda progress: {})
    done = run("get", "mnist")
    assert done.exit_code == 0
    assert f"MNIST is in {tmp_path / 'cache' / 'mnist'}" in done.output.replace("\n", " ")
    assert "bayestriplet train mnist --out runs/first" in done.output


def test_get_an_unknown_name_raises_the_library_s_error():
    done = run("get", "minst")
    assert isinstance(done.exception, InputError)
    assert "did you mean 'mnist'" in str(done.exception)


def test_check_counts_classes_and_splits(tmp_path):
    root = make_folder(tmp_path / "[pets]", {"cat": 20, "[dog]": 20}, (40, 40, 3))
    (root / "cat" / "notes.txt").write_text("x")
    done = run("check", root)
    assert done.exit_code == 0
    cells = [
        [cell.strip() for cell in line.split("│")[1:-1]] for line in done.output.splitlines() if "│" in line
    ]
    assert ["cat", "14", "3", "3", "20"] in cells
    assert ["[dog]", "14", "3", "3", "20"] in cells
    assert ["all", "28", "6", "6", "40"] in cells
    assert "40 of 40 x 40 RGB" in done.output
    assert "Read as: 40 x 40, colour" in done.output
    assert "Ignored: 1 " in done.output
    assert "No bad files" in done.output


@pytest.mark.parametrize(("bits", "said"), [(12, "16-bit files hold 12 bits: 4,095 is white."), (16, None)])
def test_check_says_how_many_bits_16_bit_files_hold(tmp_path, bits, said):
    for name in "ab":
        for i in range(3):
            save_deep(tmp_path / name / f"{i}.png", ramp(bits))
    done = run("check", tmp_path)
    assert done.exit_code == 0
    assert said in done.output if said else "16-bit" not in done.output


def test_check_says_how_many_groups_there_are(tmp_path):
    slides = {f"{name}/s{i}": 2 for name in ("a", "b") for i in range(4)}
    done = run("check", make_folder(tmp_path / "slides", slides))
    assert done.exit_code == 0
    assert "Groups (patients, slides): 4\n" in done.output
    done = run("check", make_folder(tmp_path / "slides", {"a": 3}))
    assert "Groups (patients, slides): 4, and 3 images without one\n" in done.output
    assert "Groups" not in run("check", make_folder(tmp_path / "plain", {"a": 3, "b": 3})).output


def test_check_follows_links_where_that_is_wanted(tmp_path):
    root = make_folder(tmp_path / "pets", {"cat": 5, "dog": 5})
    elsewhere = make_folder(tmp_path / "elsewhere", {"cow": 5})
    (root / "cow").symlink_to(elsewhere / "cow", target_is_directory=True)
    done = run("check", root)
    assert "Links that leave the folder: 1; --follow-links follows them" in done.output
    assert "cow" not in done.output
    done = run("check", root, "--follow-links")
    assert "15 of 12 x 12 RGB" in done.output
    assert "Links" not in done.output


def test_check_prints_what_is_doubtful(tmp_path):
    root = make_folder(tmp_path / "pets", {"cat": 20, "Cat": 20, "dog": 6})
    (root / "dog" / "copy.png").write_bytes((root / "cat" / "3.png").read_bytes())
    done = run("check", root)
    assert done.exit_code == 0
    lines = [line for line in done.output.splitlines() if line.startswith("Warning: ")]
    assert len(lines) == 5
    assert "Warning: classes with a single validation image, never a match: dog" in lines
    assert "differ only in letter case or surrounding space: 'Cat' (20 images) and 'cat' (20" in lines[2]
    assert "2 images have an identical one in another class: cat/3.png (cat) and dog/copy.png" in lines[3]


def test_check_lists_every_bad_file_and_fails(tmp_path):
    root = make_folder(tmp_path / "pets", {"cat": 5, "dog": 5})
    for i in range(15):
        (root / "cat" / f"bad{i}.png").write_bytes(b"")
    done = run("check", root)
    assert done.exit_code == 1
    for i in range(15):
        assert f"cat/bad{i}.png is empty" in done.output
    assert "15 of 25 files are bad" in done.output


def test_check_lists_bad_files_where_no_good_one_is_left(tmp_path):
    root = make_folder(tmp_path / "pets", {"cat": 1, "dog": 1})
    for path in root.rglob("*.png"):
        path.write_bytes(b"")
    done = run("check", root)
    assert done.exit_code == 1
    assert "2 of 2 files are bad" in done.output


def test_check_takes_a_name_and_a_size():
    done = run("check", "digits", "--size", "16", "--seed", "3")
    assert done.exit_code == 0
    assert "1797 of 8 x 8 L" in done.output
    assert "Read as: 16 x 16, grey" in done.output


def test_check_of_nothing_raises_the_library_s_error(tmp_path):
    done = run("check", tmp_path / "gone")
    assert isinstance(done.exception, DataError)


def test_a_progress_bar_is_shown_on_a_terminal_only(capfd, monkeypatch):
    with command.progress_bar() as progress:
        progress("checking images", 5, 10)
    assert capfd.readouterr().err == ""
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    with command.progress_bar() as progress:
        progress("downloading", 5, 0)
    assert "downloading" in capfd.readouterr().err


def test_check_splits_by_class(tmp_path):
    root = make_folder(tmp_path / "pets", dict.fromkeys("abcdef", 3))
    done = run("check", root, "--split-by", "class", "--seed", "1")
    assert done.exit_code == 0
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in done.output.splitlines()]
    rows = [row for row in cells if row and row[0] in "abcdef"]
    assert (
        sorted(row[1:4] for row in rows)
        == [["0", "0", "3"]] * 2 + [["0", "3", "0"]] * 2 + [["3", "0", "0"]] * 2
    )
    assert "Warning" not in done.output
    assert "nothing can be measured" in run("check", root).output
