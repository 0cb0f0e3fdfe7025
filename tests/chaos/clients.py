"""Clients of every kind in one process, apart from the server and from what is measured of it.

    python -m tests.chaos.clients PLAN ANSWERS

A plan says who asks what. The answers are a line each, with the moments at which a request began and ended.
The process watches its own event loop: a client that comes late would make the server look slow.
"""

import asyncio
import contextlib
import gc
import json
import sys
import time
from pathlib import Path

import numpy as np

from tests.service.servers import make_form

PATIENCE = 60.0
GLANCE = 0.01  # seconds between two looks at the event loop
PAGE = ("/api/info", "/api/map", "/healthz", "/")
HEAD_END = b"\r\n\r\n"


class Connection:
    """One connection that is kept, over which requests go one after the other."""

    def __init__(self, host, port):
        self.host, self.port, self.line = host, port, None

    async def ask(self, method, path, body=b"", kind="application/json"):
        """Return status and content. A kept connection that was closed meanwhile is opened anew, once."""
        if self.line is not None:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                return await self._ask(method, path, body, kind)
            self.close()
        self.line = await asyncio.open_connection(self.host, self.port, limit=2**24)
        return await self._ask(method, path, body, kind)

    async def _ask(self, method, path, body, kind):
        reader, writer = self.line
        writer.write(head(method, path, len(body), kind) + body)
        answered = await reader.readuntil(HEAD_END)
        fields = dict(one.lower().split(b": ", 1) for one in answered[: -len(HEAD_END)].split(b"\r\n")[1:])
        content = await reader.readexactly(int(fields.get(b"content-length", b"0")))
        if fields.get(b"connection") == b"close":
            self.close()
        return int(answered.split(b" ", 2)[1]), content

    def close(self):
        if self.line is not None:
            self.line[1].close()
            self.line = None


def head(method, path, length, kind):
    lines = [
        f"{method} {path} HTTP/1.1",
        "Host: localhost",
        f"Content-Type: {kind}",
        f"Content-Length: {length}",
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


class Clients:
    """What they ask, and what they were answered."""

    def __init__(self, plan):
        self.plan, self.host, self.port = plan, plan["host"], plan["port"]
        self.queries = [Path(path).read_bytes() for path in plan["queries"]]
        self.think = plan["think"]
        self.end = time.monotonic() + plan["seconds"]
        self.answers, self.errors, self.lags = [], [], []
        self.idle, self.most_idle = 0, []

    @property
    def goes_on(self):
        return time.monotonic() < self.end

    async def run(self):
        """Let all of them ask until the time is over."""
        watching = asyncio.create_task(self.watch())
        await asyncio.gather(*(self.begin(kind, number) for number, kind in enumerate(self.plan["kinds"])))
        watching.cancel()

    async def begin(self, kind, number):
        """Come at some moment of the first pause, not all at once."""
        draw = np.random.default_rng((self.plan["seed"], number))
        await asyncio.sleep(draw.random() * self.think)
        await getattr(self, kind)(draw)

    async def watch(self):
        """Note how much later than planned this process does what it does."""
        while True:
            began = time.monotonic()
            await asyncio.sleep(GLANCE)
            self.lags.append(time.monotonic() - began - GLANCE)
            self.most_idle.append(self.idle)

    async def pause(self, draw, times=1.0):
        """Read the answer, or whatever a person does between two requests."""
        await asyncio.sleep(draw.exponential(times * self.think) if self.think else 0)

    async def ask(self, connection, what, *request, **noted):
        """Ask and note the answer; return it, or None if there was none."""
        began = time.monotonic()
        try:
            async with asyncio.timeout(PATIENCE):
                status, content = await connection.ask(*request)
            if status != 200:
                raise ValueError(f"{request[1]}: {status} {content[:200]!r}")
        except Exception as error:  # whatever it is, it is counted
            self.errors.append(f"{what}: {type(error).__name__}: {error}")
            connection.close()
            return None
        self.answers.append(({"what": what, "began": began, "ended": time.monotonic(), **noted}, content))
        return content

    async def upload(self, connection, number, what="upload"):
        body, kind = make_form(self.queries[number])
        return await self.ask(connection, what, "POST", "/api/search", body, kind, query=number)

    async def searching(self, draw):
        """Upload a picture; then often search again from its answer, or from an indexed item."""
        connection = Connection(self.host, self.port)
        while self.goes_on:
            number = int(draw.integers(len(self.queries)))
            content = await self.upload(connection, number)
            await self.pause(draw)
            if content is not None and draw.random() < 0.5:
                body, kind = make_form(None, fields={"replay": json.loads(content)["replay"]})
                await self.ask(connection, "replay", "POST", "/api/search", body, kind, query=number)
                await self.pause(draw)
            if draw.random() < 0.5:
                item = int(draw.integers(len(self.plan["items"])))
                body, kind = make_form(None, fields={"item": self.plan["items"][item]})
                await self.ask(connection, "item", "POST", "/api/search", body, kind, item=item)
                await self.pause(draw)
        connection.close()

    async def looking(self, draw):
        """Ask for what the page asks for."""
        connection = Connection(self.host, self.port)
        while self.goes_on:
            await self.ask(connection, "page", "GET", PAGE[int(draw.integers(len(PAGE)))])
            await self.pause(draw)
        connection.close()

    async def teaching(self, draw):
        """Teach the picture of an answer as of a new class, search for it, and undo that."""
        connection = Connection(self.host, self.port)
        while self.goes_on:
            number = int(draw.integers(len(self.queries)))
            content = await self.upload(connection, number, "own")
            for undo in (False, True):
                lesson = {"label": "taught", "replays": [json.loads(content)["replay"]], "undo": undo}
                body = json.dumps(lesson).encode()
                await self.ask(
                    connection, "lesson", "POST", "/api/teach", body, taught=None if undo else number
                )
                await self.pause(draw)
                await self.upload(connection, number, "own")
        connection.close()

    async def cancelling(self, draw):
        """Send a search and go away before the answer."""
        while self.goes_on:
            body, kind = make_form(self.queries[int(draw.integers(len(self.queries)))])
            with contextlib.suppress(OSError):
                writer = (await asyncio.open_connection(self.host, self.port))[1]
                writer.write(head("POST", "/api/search", len(body), kind) + body)
                await writer.drain()
                writer.close()
            await self.pause(draw)

    async def dawdling(self, draw):
        """Send a search byte by byte, and only a part of it."""
        while self.goes_on:
            body, kind = make_form(self.queries[int(draw.integers(len(self.queries)))])
            with contextlib.suppress(OSError):
                writer = (await asyncio.open_connection(self.host, self.port))[1]
                writer.write(head("POST", "/api/search", len(body), kind))
                for byte in body[:40]:
                    writer.write(bytes([byte]))
                    await asyncio.sleep(0.05)
                    if not self.goes_on:
                        break
                writer.close()

    async def idling(self, draw):
        """Hold a connection open that never asks, and open it again when the server closes it."""
        while self.goes_on:
            try:
                reader, writer = await asyncio.open_connection(self.host, self.port)
                self.idle += 1
                with contextlib.suppress(OSError, TimeoutError):
                    async with asyncio.timeout(max(0.0, self.end - time.monotonic())):
                        await reader.read()
                self.idle -= 1
                writer.close()
            except OSError as error:
                self.errors.append(f"idling: {type(error).__name__}: {error}")

    def save(self, path):
        """Write what was noted: first what is said of all, then a line an answer."""
        lags, idle = sorted(self.lags), sorted(self.most_idle)
        about = {"errors": self.errors, "late": lags[int(0.99 * len(lags))], "latest": lags[-1],
                 "idle": idle[len(idle) // 2]}  # fmt: skip
        with path.open("w") as file:
            for noted, content in self.answers:
                told = {"answer": json.loads(content)} if noted["what"] not in ("page", "lesson") else {}
                file.write(json.dumps({**noted, **told}) + "\n")
            file.write(json.dumps(about) + "\n")


def main(plan, answers):
    gc.disable()  # it would look at all answers so far, again and again, and make the clients late
    clients = Clients(json.loads(Path(plan).read_text()))
    asyncio.run(clients.run())
    clients.save(Path(answers))


if __name__ == "__main__":
    main(*sys.argv[1:])
