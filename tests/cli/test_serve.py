"""``serve`` as a person starts it; what it serves is tested in tests/service."""

import shutil
import signal
import socket

import pytest

from tests.cli.test_app import assert_one_line, run
from tests.service.servers import Server

ANYWHERE = "0.0.0.0"  # noqa: S104


def test_what_cannot_be_served_is_one_line(digits_run, tmp_path):
    assert_one_line(run("serve", tmp_path / "none"), "no such run", "bayestriplet train")
    assert_one_line(
        run("serve", digits_run, "--host", ANYWHERE), f"--host {ANYWHERE}", "--token SECRET is needed"
    )
    assert_one_line(run("serve", digits_run, "--host", "::"), "--token SECRET is needed")
    assert_one_line(
        run("serve", digits_run, "--token", "two words"), "--token must be printable ASCII without spaces"
    )
    assert_one_line(run("serve", digits_run, "--token", ""), "--token must be", "not empty")
    assert_one_line(run("serve", digits_run, "--port", "70000"), "--port must lie in 0..65535; got 70000")
    assert_one_line(
        run("serve", digits_run, "--host", "no.such.host.invalid", "--token", "x"), "no.such.host.invalid"
    )
    bare = shutil.copytree(digits_run, tmp_path / "bare")
    (bare / "encoder.onnx").unlink()
    assert_one_line(run("serve", bare), f"bayestriplet export {bare}")


def test_a_port_in_use_is_one_line(digits_run):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert_one_line(
            run("serve", digits_run, "--port", port), f"port {port} of 127.0.0.1 is in use", "--port"
        )


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_a_run_without_index_is_served_and_says_so_and_a_signal_ends_it(digits_run, kind, tmp_path):
    run = shutil.copytree(digits_run, tmp_path / "run", ignore=shutil.ignore_patterns("*.ckpt"))
    server = Server(run)
    assert server.said.startswith(f"Serving {run} at http://127.0.0.1:")
    assert server.is_running
    code, said, log = server.stop(kind)
    hint = f"There is no index yet: `bayestriplet index {run} IMAGES` makes one, found at once."
    assert (code, said) == (0, [hint, "Stopped."])
    assert log[-1]["event"] == "stopped"


def test_the_token_can_come_from_the_environment(digits_run, monkeypatch):
    monkeypatch.setenv("BAYESTRIPLET_TOKEN", "from-outside")
    server = Server(digits_run)
    try:
        assert server.get("/api/info")[0] == 401
        assert server.get("/api/info", authorization="Bearer from-outside")[0] != 401
    finally:
        server.stop()


def test_help_tells_of_the_options():
    done = run("serve", "--help")
    assert done.returncode == 0
    for option in ("--host", "--port", "--token", "--store"):
        assert option in done.stdout
