"""The service under load: 64 clients of every kind while the index grows; and what its OpenAPI promises."""

import contextlib
import http.client
import json
import socket
import statistics
import threading
import time
from pathlib import Path

import numpy as np

from tests.chaos.commands import run
from tests.service.servers import Server, make_form, save_scan

PATIENCE = 60.0


def memory_of(pid):
    """Megabytes that a process holds."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


class Clients:
    """Threads that ask in their own way until they are stopped."""

    def __init__(self, server, queries, seed):
        self.server, self.queries, self.seed = server, queries, seed
        self.stop = threading.Event()
        self.lock = threading.Lock()
        self.answers, self.errors = [], []  # (when it ended, seconds, query, answer)
        self.taught = 0

    def run(self, kinds):
        threads = [
            threading.Thread(target=getattr(self, kind), args=(np.random.default_rng((self.seed, number)),))
            for number, kind in enumerate(kinds)
        ]
        for thread in threads:
            thread.start()
        return threads

    def searching(self, draw):
        """Upload one picture after the other, and wait a little."""
        connection = http.client.HTTPConnection(self.server.host, self.server.port, timeout=PATIENCE)
        while not self.stop.is_set():
            number = int(draw.integers(len(self.queries)))
            body, kind = make_form(self.queries[number])
            self.ask(connection, ("POST", "/api/search", body, {"content-type": kind}), number)
            self.stop.wait(draw.exponential(0.2))
        connection.close()

    def looking(self, draw):
        """Ask for what the page asks for."""
        connection = http.client.HTTPConnection(self.server.host, self.server.port, timeout=PATIENCE)
        while not self.stop.is_set():
            path = ("/api/info", "/api/map", "/healthz", "/")[int(draw.integers(4))]
            self.ask(connection, ("GET", path), None)
            self.stop.wait(draw.exponential(0.5))
        connection.close()

    def teaching(self, draw):
        """Give the picture of an answer a class, and undo it."""
        connection = http.client.HTTPConnection(self.server.host, self.server.port, timeout=PATIENCE)
        while not self.stop.is_set():
            number = int(draw.integers(len(self.queries)))
            replay = self.server.search(self.queries[number])[1]["replay"]
            for undo in (False, True):
                body = json.dumps({"label": "taught", "replays": [replay], "undo": undo})
                self.ask(connection, ("POST", "/api/teach", body, {"content-type": "application/json"}), None)
                self.taught += 1
                self.stop.wait(draw.exponential(1.0))
        connection.close()

    def ask(self, connection, request, number):
        began = time.monotonic()
        try:
            connection.request(*request)
            response = connection.getresponse()
            content = response.read()
            if response.status != 200:
                raise ValueError(f"{request[1]}: {response.status} {content[:200]!r}")
        except Exception as error:  # whatever it is, it is counted
            with self.lock:
                self.errors.append(f"{type(error).__name__}: {error}")
            connection.close()
            return
        ended = time.monotonic()
        with self.lock:
            self.answers.append((ended, ended - began, number, content if number is not None else None))

    def cancelling(self, draw):
        """Send a search and go away before the answer."""
        while not self.stop.is_set():
            body, kind = make_form(self.queries[int(draw.integers(len(self.queries)))])
            with contextlib.suppress(OSError), self.connected() as line:
                line.sendall(self.head(kind, len(body)) + body)
            self.stop.wait(draw.exponential(0.3))

    def dawdling(self, draw):
        """Send a search byte by byte, or half of it."""
        while not self.stop.is_set():
            body, kind = make_form(self.queries[int(draw.integers(len(self.queries)))])
            with contextlib.suppress(OSError), self.connected() as line:
                line.sendall(self.head(kind, len(body)))
                for byte in body[:40]:
                    line.sendall(bytes([byte]))
                    if self.stop.wait(0.05):
                        break

    def connected(self):
        return contextlib.closing(socket.create_connection((self.server.host, self.server.port), timeout=5))

    def head(self, kind, length):
        fields = {"Host": "localhost", "Content-Type": kind, "Content-Length": length}
        lines = ["POST /api/search HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()


def grow(server, made, clients, every):
    """Add items in a process of its own, again and again."""
    number, versions = 0, set()
    while not clients.stop.wait(every):
        save_scan(600 + number, made.scans / "0" / f"grown-{number}.png")
        done = run("index", made.run, made.scans)
        assert done.returncode == 0, done.stderr
        number += 1
        with contextlib.suppress(OSError):
            versions.add(server.get("/api/info")[1]["index"])
    clients.grown, clients.versions = number, len(versions)


def expected_answers(made, queries):
    """What a search from the shell would find, by query."""
    from bayestriplet.data.images import decode_bytes
    from bayestriplet.retrieval.index import Index

    index = Index.open(made.run)
    pixels = np.stack([decode_bytes(one, index.encoder.size, index.encoder.channels) for one in queries])
    return [
        [(one.id, one.distance) for one in answer.neighbours] for answer in index.search(list(pixels), 10)
    ]


def load(folder, made, seed, seconds, clients=64, every=15.0, idle=500):
    """Many clients at once, and figures of their answers."""
    queries = [save_scan(900 + i, folder / "queries" / f"{i}.png").read_bytes() for i in range(40)]
    server = Server(made.run)
    kinds = ["searching"] * (clients - clients // 4) + ["looking", "cancelling", "dawdling"] * clients
    many = Clients(server, queries, seed)
    many.grown = many.versions = 0
    try:
        before = expected_answers(made, queries)
        first_version = server.search(queries[0])[1]["index"]
        with idle_connections(server, idle) as opened:
            threads = many.run(["teaching", *kinds[: clients - 1]])
            grower = threading.Thread(target=grow, args=(server, made, many, every))
            grower.start()
            time.sleep(seconds / 4)
            warm = memory_of(server.process.pid)
            time.sleep(3 * seconds / 4)
            many.stop.set()
            for thread in (*threads, grower):
                thread.join()
        grown = memory_of(server.process.pid) / warm - 1
        wrong = settled_answers(server, made, queries)
    finally:
        code = server.stop()[0]
    found = figures(many, before, first_version)
    return {
        **found, "clients": clients, "seconds_of_load": seconds, "idle_connections": opened,
        "reindexed": many.grown, "taught": many.taught, "memory_growth": round(grown, 4),
        "wrong_after": wrong, "exit_code": code,
    }  # fmt: skip


@contextlib.contextmanager
def idle_connections(server, number):
    """Hold connections open that never ask."""
    with contextlib.ExitStack() as stack:
        for _ in range(number):
            line = socket.create_connection((server.host, server.port), timeout=10)
            stack.enter_context(contextlib.closing(line))
        yield number


def figures(many, before, first_version):
    searches = [one for one in many.answers if one[2] is not None]
    times = sorted(seconds for _, seconds, _, _ in searches)
    ends = sorted(one[0] for one in many.answers)
    pauses = np.diff(ends) if len(ends) > 1 else np.zeros(1)
    wrong = 0
    for _, _, number, content in searches:
        answer = json.loads(content)
        if answer["index"] == first_version:
            wrong += not _same([(one["id"], one["distance"]) for one in answer["neighbours"]], before[number])
    median, p99 = statistics.median(times), times[int(0.99 * len(times))]
    return {
        "answers": len(many.answers), "searches": len(searches), "errors": len(many.errors),
        "first_errors": many.errors[:3], "median_milliseconds": round(1e3 * median, 1),
        "p99_milliseconds": round(1e3 * p99, 1), "p99_over_median": round(p99 / median, 2),
        "longest_pause_milliseconds": round(1e3 * float(pauses.max()), 1), "wrong_answers": wrong,
    }  # fmt: skip


def _same(found, expected):
    return len(found) == len(expected) and all(
        one == other and abs(a - b) < 1e-4 for (one, a), (other, b) in zip(found, expected, strict=True)
    )


def settled_answers(server, made, queries):
    """How many answers of the grown index are not those of a search from the shell."""
    from bayestriplet.retrieval.index import Index

    version, end = Index.open(made.run).store.version(), time.monotonic() + 60
    while server.get("/api/info")[1]["index"] != version and time.monotonic() < end:
        time.sleep(0.2)
    expected, wrong = expected_answers(made, queries), 0
    for query, known in zip(queries, expected, strict=True):
        answer = server.search(query)[1]
        wrong += not _same([(one["id"], one["distance"]) for one in answer["neighbours"]], known)
    return wrong


def check_description(made, examples):
    """Have Schemathesis ask what the OpenAPI describes, and what it does not."""
    import hypothesis
    import schemathesis

    server = Server(made.run)
    cases, problems = 0, []
    try:
        schema = schemathesis.openapi.from_url(f"{server.address}/openapi.json")
        for result in schema.get_all_operations():
            operation = result.ok()

            @hypothesis.settings(
                max_examples=examples, deadline=None, database=None, derandomize=True,
                suppress_health_check=list(hypothesis.HealthCheck),
            )  # fmt: skip
            @hypothesis.given(operation.as_strategy())
            def ask(case):
                nonlocal cases
                cases += 1
                response = case.call(base_url=server.address, timeout=30)
                try:
                    case.validate_response(response, checks=conformance())
                except Exception as error:
                    problems.append(f"{case.method} {case.path}: {str(error)[:300]}")

            ask()
        assert server.is_running
    finally:
        server.stop()
    return {"cases": cases, "problems": len(problems), "first_problems": problems[:5]}


def conformance():
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

    return [
        not_a_server_error,
        status_code_conformance,
        content_type_conformance,
        response_schema_conformance,
    ]


def reindex(folder, made, items, seed):
    """The longest answer while an index grows to so many items, and while it is opened."""
    from bayestriplet.retrieval.index import Index
    from bayestriplet.retrieval.items import Item, Rows

    server, draw = Server(made.run), np.random.default_rng(seed)
    query = save_scan(990, folder / "query.png").read_bytes()
    index = Index.open(made.run)
    vectors = draw.normal(size=(items, index.encoder.dim)).astype(np.float32)
    names = tuple(Item(f"many/{i}", str(i % 10), "", "", "", f"{i:032x}") for i in range(items))
    times, known = [], server.search(query)[1]["index"]
    try:
        done = threading.Event()

        def add():
            index.store.write(index.encoder.fingerprint, index.encoder.dim,
                              [Rows(names, vectors, (b"",) * items)], [])  # fmt: skip
            done.set()

        threading.Thread(target=add).start()
        end, answer = time.monotonic() + 240, None
        while time.monotonic() < end and (answer is None or answer["index"] == known or not done.is_set()):
            began = time.monotonic()
            status, answer = server.search(query)
            assert status == 200, answer
            times.append(time.monotonic() - began)
    finally:
        server.stop()
    return {"items": items, "answers_meanwhile": len(times), "found_new": answer["index"] != known,
            "longest_milliseconds": round(1e3 * max(times), 1),
            "median_milliseconds": round(1e3 * statistics.median(times), 1)}  # fmt: skip


def measure(folder, seed, seconds=300, examples=150, items=70_000):
    """All of it, as figures."""
    from tests.chaos.runs import make_run

    made = make_run(folder / "made")
    return {
        "load": load(folder, made, seed, seconds),
        "description": check_description(made, examples),
        "reindex": reindex(folder, made, items, seed),
    }
