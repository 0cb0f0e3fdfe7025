"""The service under load: 64 clients of every kind while the index grows; and what its OpenAPI promises."""

import json
import shutil
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np

from tests.chaos.commands import environment, run
from tests.chaos.offline import Offline
from tests.service.servers import Server, save_scan

QUERIES = 40
EACH = 4  # of so many clients one does something other than searching
OTHERS = ("looking", "cancelling", "dawdling")


def memory_of(pid):
    """Megabytes that a process holds."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


class Load:
    """Clients in a process of their own, who ask a server for some time."""

    def __init__(self, folder, server, kinds, seconds, think, seed):
        folder.mkdir(parents=True)
        self.queries = [save_scan(900 + i, folder / "queries" / f"{i}.png") for i in range(QUERIES)]
        self.items = [one["id"] for one in server.get("/api/info")[1]["examples"]]
        self.written = folder / "answers"
        plan = {
            "host": server.host, "port": server.port, "queries": list(map(str, self.queries)),
            "items": self.items, "kinds": kinds, "seconds": seconds, "think": think, "seed": seed,
        }  # fmt: skip
        (folder / "plan").write_text(json.dumps(plan))
        command = [sys.executable, "-m", "tests.chaos.clients", folder / "plan", self.written]
        self.process = subprocess.Popen([*map(str, command)], env=environment())

    def results(self):
        """Wait for the end; return the answers, and what is said of all."""
        assert self.process.wait() == 0
        *answers, about = map(json.loads, self.written.read_text().splitlines())
        return answers, about


def kinds_of(clients):
    """What so many clients do: most search, and one teaches."""
    others = [OTHERS[i % len(OTHERS)] for i in range(clients // EACH - 1)]
    return ["teaching", *others, *["searching"] * (clients - 1 - len(others))]


class Growing(threading.Thread):
    """Adds items in a process of its own, again and again; knows which version holds how many of them."""

    def __init__(self, made, every):
        super().__init__()
        self.made, self.every, self.ends = made, every, threading.Event()
        self.versions = {}
        self.note(0)

    def note(self, number):
        from bayestriplet.retrieval.stores import open_store

        self.versions[open_store(self.made.run, None).version()] = number

    def run(self):
        number = 0
        while not self.ends.wait(self.every):
            save_scan(600 + number, self.made.scans / "0" / f"grown-{number}.png")
            done = run("index", self.made.run, self.made.scans, "--name", self.made.scans.name)
            assert done.returncode == 0, done.stderr
            number += 1
            self.note(number)


def load(folder, made, seed, seconds, clients=64, every=15.0, idle=500, think=1.0):
    """Many clients at once, and figures of their answers."""
    server = Server(made.run)
    before = shutil.copytree(made.run, folder / "before", ignore=shutil.ignore_patterns("index", "maps"))
    try:
        growing = Growing(made, every)
        asked = Load(folder / "load", server, [*kinds_of(clients), *["idling"] * idle], seconds, think, seed)
        growing.start()
        time.sleep(seconds / 4)
        warm = memory_of(server.process.pid)
        answers, about = asked.results()
        growing.ends.set()
        growing.join()
        grown = memory_of(server.process.pid) / warm - 1
        wrong = settled_answers(server, made, asked.queries)
    finally:
        code = server.stop()[0]
    offline = Offline(made.run, before, asked.queries, asked.items, growing.versions)
    return {
        **figures(answers, about), **offline.compare(answers), "clients": clients,
        "seconds_of_load": seconds, "think_seconds": think, "idle_connections": about["idle"],
        "reindexed": len(growing.versions) - 1, "memory_growth": round(grown, 4), "wrong_after": wrong,
        "exit_code": code,
    }  # fmt: skip


def without_pauses(folder, made, seed, seconds, clients=64):
    """As many clients who ask again at once, which is all that the machine can do."""
    server = Server(made.run)
    try:
        asked = Load(folder / "at-once", server, ["searching"] * clients, seconds, 0, seed)
        found = figures(*asked.results())
    finally:
        server.stop()
    return {**found, "searches_per_second": round(found["searches"] / seconds, 1)}


def figures(answers, about):
    """How long searches took, and how long all who waited got no answer."""
    times = sorted(one["ended"] - one["began"] for one in answers if "answer" in one)
    median, p99 = statistics.median(times), times[int(0.99 * len(times))]
    return {
        "answers": len(answers), "searches": len(times),
        "lessons": sum(one["what"] == "lesson" for one in answers), "errors": len(about["errors"]),
        "first_errors": about["errors"][:3], "median_milliseconds": round(1e3 * median, 1),
        "p99_milliseconds": round(1e3 * p99, 1), "p99_over_median": round(p99 / median, 2),
        "longest_milliseconds": round(1e3 * times[-1], 1),
        "longest_pause_milliseconds": round(1e3 * longest_pause(answers), 1),
        "client_late_milliseconds": {name: round(1e3 * about[name], 1) for name in ("late", "latest")},
    }  # fmt: skip


def longest_pause(answers):
    """The longest time in which somebody waited and nobody was answered."""
    order = sorted((one["ended"], one["began"]) for one in answers)
    longest, asked = 0.0, np.inf
    for (earlier, _), (ended, began) in zip(reversed(order[:-1]), reversed(order[1:]), strict=True):
        asked = min(asked, began)  # when the first of those asked who are answered from here on
        longest = max(longest, ended - max(earlier, asked))
    return longest


def settled_answers(server, made, queries):
    """How many answers of the grown index are not those of a search from the shell."""
    from bayestriplet.retrieval.index import Index

    version, end = Index.open(made.run).store.version(), time.monotonic() + 60
    while server.get("/api/info")[1]["index"] != version and time.monotonic() < end:
        time.sleep(0.2)
    wrong = 0
    for query in queries[:5]:
        done = run("search", made.run, query, "--json")
        assert done.returncode == 0, done.stderr
        expected = json.loads(done.stdout)
        answer = server.search(query.read_bytes())[1]
        wrong += not same_neighbours(answer["neighbours"], expected["neighbours"])
    return wrong


def same_neighbours(found, expected):
    return len(found) == len(expected) and all(
        one["id"] == other["id"] and abs(one["distance"] - other["distance"]) < 1e-5
        for one, other in zip(found, expected, strict=True)
    )


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


ADD = """
import sys
import numpy as np
from bayestriplet.retrieval.index import Index
from bayestriplet.retrieval.items import Item, Rows

run, items, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
index = Index.open(run)
vectors = np.random.default_rng(seed).normal(size=(items, index.encoder.dim)).astype(np.float32)
names = tuple(Item(f"many/{i}", str(i % 10), "", "", "", f"{i:032x}") for i in range(items))
rows = [Rows(names, vectors, (b"",) * items)]
index.store.write(index.encoder.fingerprint, index.encoder.dim, rows, [])
"""


def reindex(folder, made, items, seed):
    """The longest answer while another process makes an index grow so far, and while that is opened."""
    server = Server(made.run)
    query = save_scan(990, folder / "query.png").read_bytes()
    times, known = [], server.search(query)[1]["index"]
    try:
        command = [sys.executable, "-c", ADD, str(made.run), str(items), str(seed)]
        adding = subprocess.Popen(command, env=environment())
        end, answer = time.monotonic() + 240, None
        while time.monotonic() < end and (answer is None or answer["index"] == known):
            began = time.monotonic()
            status, answer = server.search(query)
            assert status == 200, answer
            times.append(time.monotonic() - began)
        assert adding.wait(60) == 0
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
        "without_pauses": without_pauses(folder, made, seed, 20),
        "description": check_description(made, examples),
        "reindex": reindex(folder, made, items, seed),
    }
