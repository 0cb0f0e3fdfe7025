"""A real server in a process of its own, and a client of few lines."""

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from urllib.parse import quote

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

COMMAND = Path(sys.executable).parent / "bayestriplet"
DIGITS = load_digits()
HOSTILE = "<img src=x onerror=alert(1)>"


def save_scan(number, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.rint(DIGITS.images[number] * (255 / 16)).astype(np.uint8)).save(path)
    return path


def fill_folder(root, numbers):
    """Write scans a folder a class; sevens are of a class whose name is a script, in files named like one."""
    for i in numbers:
        hostile = DIGITS.target[i] == 7
        label, name = (HOSTILE, f"<b>{i}&.png") if hostile else (str(DIGITS.target[i]), f"{i}.png")
        save_scan(i, root / label / name)
    return root


class Server:
    """``bayestriplet serve`` on a free port."""

    def __init__(self, run, *options):
        self.output, self.log = (tempfile.TemporaryFile("w+") for _ in range(2))  # noqa: SIM115
        self.process = subprocess.Popen(
            [COMMAND, "serve", str(run), "--port", "0", *options],
            stdout=self.output, stderr=self.log, env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        wait_until(lambda: "http://" in self.said or self.process.poll() is not None)
        if self.process.poll() is not None:
            raise AssertionError(f"the server did not start: {self.said}{read(self.log)}")
        self.address = re.search(r"http://\S+", self.said).group()
        self.host, _, port = self.address.removeprefix("http://").rpartition(":")
        self.port = int(port)

    @property
    def said(self):
        return read(self.output)

    def stop(self, kind=signal.SIGTERM):
        """Stop the server; return its exit code, what it said after its address, and its log."""
        self.process.send_signal(kind)
        code = self.process.wait(60)
        said, written = self.said.splitlines()[1:], read(self.log)
        assert all(line.startswith("{") for line in written.splitlines()), written[-4000:]
        log = [json.loads(line) for line in written.splitlines()]
        self.output.close()
        self.log.close()
        return code, said, log

    def request(self, method, path, body=None, headers=None):
        """Return status, headers and content; the path is sent as it is."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=120)
        with contextlib.closing(connection):
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return response.status, response.headers, response.read()

    def get(self, path, **headers):
        status, _, content = self.request("GET", path, headers=headers)
        return status, json.loads(content)

    def search(self, image=None, name="query.png", headers=None, **fields):
        """Return status and answer of a search; more than one value of a field is a list."""
        body, kind = make_form(image, name, fields)
        status, _, content = self.request(
            "POST", "/api/search", body, {"content-type": kind, **(headers or {})}
        )
        return status, json.loads(content)

    @property
    def is_running(self):
        return self.process.poll() is None and self.get("/healthz") == (200, {"status": "ok"})


def read(file):
    file.flush()
    return Path(f"/proc/self/fd/{file.fileno()}").read_text()


def make_form(image=None, name="query.png", fields=None):
    """Return the body and the content type of a form."""
    boundary = uuid.uuid4().hex
    parts = []
    for field, value in {"image": image, **(fields or {})}.items():
        if value is None:
            continue
        parts += [(field, one) for one in (value if isinstance(value, list) else [value])]
    body = b""
    for field, value in parts:
        file = isinstance(value, bytes)
        shown = f'; filename="{name}"' if file else ""
        body += f'--{boundary}\r\nContent-Disposition: form-data; name="{field}"{shown}\r\n\r\n'.encode()
        body += (value if file else str(value).encode()) + b"\r\n"
    return body + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"


def item_path(name):
    return f"/api/items/{quote(name)}"


def wait_until(holds, seconds=90):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.1)
