import subprocess
import sys
import time
from pathlib import Path

import bayestriplet

COMMAND = Path(sys.executable).parent / "bayestriplet"


def run(*arguments):
    return subprocess.run([COMMAND, *arguments], capture_output=True, text=True, timeout=120)


def test_help_answers_in_under_a_second():
    run("--help")  # compiled bytecode, warm disk
    for arguments in (["--help"], ["demo", "--help"]):
        start = time.perf_counter()
        assert run(*arguments).returncode == 0
        assert time.perf_counter() - start < 1


def test_version():
    assert run("--version").stdout.strip() == bayestriplet.__version__


def test_the_demo_prints_recall_before_and_after():
    done = run("demo", "--steps", "60")
    assert done.returncode == 0, done.stderr
    rows = {
        line.split("│")[1].strip(): line.split("│")[2].strip()
        for line in done.stdout.splitlines()
        if "│" in line
    }
    assert set(rows) == {"raw pixels", "untrained network", "trained with BUT"}
    assert float(rows["trained with BUT"]) > float(rows["untrained network"])


def test_a_wrong_option_is_one_clear_message():
    done = run("demo", "--steps", "0")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
