"""Clients that hold connections and send little."""

import contextlib
import logging
import socket
import time
from http import HTTPStatus
from pathlib import Path

import pytest

from bayestriplet.service.connections import MOST_OPEN, RarelyLogged
from bayestriplet.service.refusals import RefusalError
from bayestriplet.service.uploads import Held
from tests.service.servers import Server, save_scan

HEAD = "POST /api/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=b\r\n"


def connect(server, text=""):
    line = socket.create_connection((server.host, server.port), timeout=60)
    line.sendall(text.encode())
    return line


def is_closed(line, seconds):
    line.settimeout(seconds)
    with contextlib.suppress(ConnectionError):
        while line.recv(65536):
            pass
    return True


def test_half_uploads_do_not_keep_others_from_searching_and_are_given_up(server, tmp_path):
    query = save_scan(3, tmp_path / "query.png").read_bytes()
    with contextlib.ExitStack() as stack:
        part = '--b\r\nContent-Disposition: form-data; name="image"; filename="x"\r\n\r\nabc'
        half = f"{HEAD}Content-Length: 1000\r\n\r\n{part}"
        lines = [stack.enter_context(connect(server, half)) for _ in range(40)]
        began = time.monotonic()
        time.sleep(0.5)
        assert server.search(query)[0] == 200
        assert time.monotonic() - began < 5
        lines[0].settimeout(20)
        answer = lines[0].recv(65536)
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert 8 < time.monotonic() - began < 16


def test_connections_without_a_request_are_closed(server):
    with connect(server) as silent, connect(server, "GET /heal") as half:
        began = time.monotonic()
        assert is_closed(silent, 20)
        assert is_closed(half, 20)
        assert 8 < time.monotonic() - began < 16


def test_a_kept_connection_that_sends_half_a_request_is_closed(server):
    with connect(server, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n") as line:
        assert line.recv(65536).startswith(b"HTTP/1.1 200")
        time.sleep(1)
        line.sendall(b"GET /heal")
        assert is_closed(line, 30)


def test_very_many_connections_do_not_keep_others_out_and_are_logged_once(indexed, tmp_path):
    server = Server(indexed)
    query = save_scan(3, tmp_path / "query.png").read_bytes()
    half = f"{HEAD}Content-Length: 1000\r\n\r\n--b"
    for text in ("", "GET /heal", half):
        with contextlib.ExitStack() as stack:
            for _ in range(MOST_OPEN + 20):
                stack.enter_context(connect(server, text))
            time.sleep(0.5)
            assert len(list(Path(f"/proc/{server.process.pid}/fd").iterdir())) < MOST_OPEN + 200
            for _ in range(3):
                assert server.search(query)[0] == 200
        time.sleep(0.5)
    assert server.is_running
    _, _, log = server.stop()
    assert sum(entry["level"] == "warning" for entry in log) == 1


def test_bytes_of_all_uploads_are_bounded_and_given_back():
    held = Held(100)
    with held.upload() as first:
        first(60)
        with held.upload() as second:
            second(40)
            with pytest.raises(RefusalError, match="too many uploads at a time") as refused:
                first(1)
            assert refused.value.status == HTTPStatus.SERVICE_UNAVAILABLE
        first(40)
    assert held.total == 0


def test_a_line_about_refused_connections_passes_once_a_minute():
    rarely = RarelyLogged()
    refused = logging.makeLogRecord({"msg": "socket.accept() out of system resource"})
    other = logging.makeLogRecord({"msg": "something else"})
    assert [rarely.filter(one) for one in (refused, refused, other, other)] == [True, False, True, True]
    rarely.last -= 61
    assert rarely.filter(refused)
