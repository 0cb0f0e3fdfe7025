"""Commands in processes of their own, to be disturbed."""

import os
import signal
import subprocess
import time

from tests.commands import COMMAND, environment, run_command

BACKBONE = "tests.training.networks:small"
OPTIONS = ("--backbone", BACKBONE, "--size", "8", "--dim", "8")


def run(*arguments, first=(COMMAND,), timeout=300, **options):
    if first == (COMMAND,) and options.keys() <= {"env"}:
        return run_command(*arguments, timeout=timeout, **options)
    command = [*map(str, first), *map(str, arguments)]
    options = {"env": environment(), "capture_output": True, "text": True, "timeout": timeout} | options
    return subprocess.run(command, **options)


def start(*arguments, first=(COMMAND,), env=None):
    """Start a command in a group of its own, so that all its processes can be killed at once."""
    return subprocess.Popen(
        [*map(str, first), *map(str, arguments)], env=env or environment(), start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def kill_after(process, seconds):
    """Kill a command and all its processes at a moment; return whether it was still at work."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        wait_for_group(process.pid)
        return True
    return False


def wait_for_group(group, seconds=30):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)


def error_of(done):
    """The one line of an error; anything else is a defect."""
    lines = done.stderr.strip().splitlines()
    if done.returncode != 1 or len(lines) != 1 or not lines[0].startswith("Error: "):
        raise AssertionError(f"exit {done.returncode}, not one line: {done.stderr[-3000:]}")
    return lines[0]
