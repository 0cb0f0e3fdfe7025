"""What the service adds to encoder and search, and how it answers 32 clients at once.

Run alone on the machine: ``make bench``. A real server on loopback; requests and plain searches take turns.
"""

import argparse
import http.client
import io
import json
import os
import re
import statistics
import subprocess
import tempfile
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from rich.console import Console
from rich.table import Table
from search import COMMAND, K, fill, make_run

import bayestriplet as bt
from bayestriplet.data.images import decode_bytes
from bayestriplet.retrieval.queries import read_queries

RESULTS = Path(__file__).parent / "results" / "service.json"
CLIENTS = 32
ALLOWED = 15.0  # milliseconds above encoder and search


def make_images(number: int, size: int) -> list[bytes]:
    """Return PNG files of smooth noise."""
    rng = np.random.default_rng(0)
    files = []
    for _ in range(number):
        small = Image.fromarray(rng.integers(0, 255, (size // 4, size // 4), dtype=np.uint8))
        out = io.BytesIO()
        small.resize((size, size), Image.Resampling.BICUBIC).save(out, "PNG")
        files.append(out.getvalue())
    return files


class Client:
    """One connection that is kept."""

    def __init__(self, port: int) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def search(self, image: bytes) -> tuple[float, int, dict[str, Any]]:
        """Return milliseconds from the upload to the answer, the status and the answer."""
        boundary = uuid.uuid4().hex
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="image"; filename="q.png"\r\n\r\n'
        body = head.encode() + image + f"\r\n--{boundary}--\r\n".encode()
        kind = {"content-type": f"multipart/form-data; boundary={boundary}"}
        start = time.perf_counter()
        self.connection.request("POST", "/api/search", body, kind)
        response = self.connection.getresponse()
        answer = json.loads(response.read())
        return 1e3 * (time.perf_counter() - start), response.status, answer


def compare_one(port: int, index: bt.Index, images: list[bytes]) -> dict[str, float]:
    """One client: requests, and encoder and search alone, in turns."""
    client = Client(port)
    encoder = index.encoder
    times: list[tuple[float, float]] = []
    for image in images:
        pixels = decode_bytes(image, encoder.size, encoder.channels)
        start = time.perf_counter()
        index.ask(read_queries(encoder, pixels), K)
        alone = 1e3 * (time.perf_counter() - start)
        took, status, _ = client.search(image)
        if status != 200:
            raise SystemExit(f"the service answered with status {status}")
        times.append((took, alone))
    times = times[len(times) // 10 :]  # the first warm up
    whole, alone = (statistics.median(column) for column in zip(*times, strict=True))
    return {
        "requests": len(times),
        "milliseconds": whole,
        "encoder_and_search_milliseconds": alone,
        "added_milliseconds": whole - alone,
        "allowed_milliseconds": ALLOWED,
    }


def compare_many(port: int, index: bt.Index, images: list[bytes], rounds: int) -> dict[str, Any]:
    """32 clients at once, each with the next request as soon as it has an answer."""
    pixels = [decode_bytes(one, index.encoder.size, index.encoder.channels) for one in images]
    expected = [answer.neighbours for answer in index.search(pixels, K)]

    def ask(number: int) -> list[tuple[float, int, dict[str, Any], int]]:
        client = Client(port)
        mine = [(number + CLIENTS * turn) % len(images) for turn in range(rounds)]
        return [(*client.search(images[i]), i) for i in mine]

    start = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as pool:
        found = [one for part in pool.map(ask, range(CLIENTS)) for one in part]
    seconds = time.perf_counter() - start
    times = sorted(took for took, _, _, _ in found)
    median, p99 = statistics.median(times), times[int(0.99 * len(times))]
    equal = sum(_equal(answer, expected[i]) for _, status, answer, i in found if status == 200)
    return {
        "clients": CLIENTS,
        "requests": len(found),
        "errors": sum(status != 200 for _, status, _, _ in found),
        "median_milliseconds": median,
        "p99_milliseconds": p99,
        "p99_over_median": p99 / median,
        "requests_per_second": len(found) / seconds,
        "answers_equal": equal,
    }


def _equal(answer: dict[str, Any], expected: Any) -> bool:
    """Whether an answer has the items and distances of a plain search."""
    found = [(one["id"], round(one["distance"], 4)) for one in answer["neighbours"]]
    return [name for name, _ in found] == [one.id for one in expected] and all(
        abs(distance - one.distance) < 2e-4 for (_, distance), one in zip(found, expected, strict=True)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, help="An indexed run; made with 10,000 items if not given.")
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=20)
    arguments = parser.parse_args()
    load = os.getloadavg()[0]  # of others: on a quiet machine none
    with tempfile.TemporaryDirectory() as folder:
        run = arguments.run
        if run is None:
            run = make_run(Path(folder) / "run", 0.25, 28, 1)
            fill(run, 10_000)
        index = bt.Index.open(run)
        index.store.prepare()
        items = len(index)
        with tempfile.TemporaryFile() as log:
            server = subprocess.Popen(  # noqa: S603
                [COMMAND, "serve", run, "--port", "0"], stdout=subprocess.PIPE, stderr=log, text=True
            )
            try:
                port = _port_of(server)
                wait_for_map(port)
                images = make_images(arguments.requests, index.encoder.size)
                one = compare_one(port, index, images)
                many = compare_many(port, index, images, arguments.rounds)
            finally:
                server.terminate()
                server.wait()
    threads = os.environ.get("OMP_NUM_THREADS", "")
    report(
        {
            "cores": os.cpu_count(),
            "threads": threads,
            "load": load,
            "items": items,
            "one_client": one,
            "many_clients": many,
        }
    )


def _port_of(server: "subprocess.Popen[str]") -> int:
    line = server.stdout.readline() if server.stdout else ""
    found = re.search(r":(\d+) ", line)
    if found is None:
        raise SystemExit(f"the server did not start: {line}")
    return int(found.group(1))


def wait_for_map(port: int) -> None:
    """Wait until the process that makes the map has ended: it would take a core from what is measured."""
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/api/map")
        if not json.loads(connection.getresponse().read())["pending"]:
            return
        time.sleep(1)


def report(result: dict[str, Any]) -> None:
    one, many = result["one_client"], result["many_clients"]
    table = Table("what", "figure", title="Service", title_justify="left")
    table.add_row("one client, upload to answer", f"{one['milliseconds']:.1f} ms")
    table.add_row("encoder and search alone", f"{one['encoder_and_search_milliseconds']:.1f} ms")
    table.add_row("added (at most 15 ms)", f"{one['added_milliseconds']:.1f} ms")
    table.add_row("32 clients, median", f"{many['median_milliseconds']:.0f} ms")
    table.add_row(
        "p99 (below 10 medians)", f"{many['p99_milliseconds']:.0f} ms, {many['p99_over_median']:.1f} medians"
    )
    table.add_row("requests a second", f"{many['requests_per_second']:.0f}")
    table.add_row("errors", f"{many['errors']} of {many['requests']}")
    table.add_row("answers equal to a search", f"{many['answers_equal']} of {many['requests']}")
    Console().print(table)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")
    print(f"Written to {RESULTS}")


if __name__ == "__main__":
    main()
