"""What searching costs beside raw FAISS, indexing beside the encoder alone, and a search from the shell.

Run alone on the machine: ``make bench``. Blocks take turns in one process; medians are compared.
Vectors are like embeddings: classes on the sphere that vary in 24 of 128 directions, and a little in all.
"""

import argparse
import json
import multiprocessing
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import torch
from PIL import Image
from rich.console import Console
from rich.table import Table
from speed import memory_status

import bayestriplet as bt
from bayestriplet.model.encoder import Encoder, EncoderInfo, save_encoder
from bayestriplet.model.onnx_export import export_onnx, fingerprint_of
from bayestriplet.retrieval import memory
from bayestriplet.retrieval.items import Item, Rows

RESULTS = Path(__file__).parent / "results" / "search.json"
DIM, K, QUERIES = 128, 10, 100
COMMAND = Path(sys.executable).parent / "bayestriplet"


def make_run(path: Path, width: float, size: int, channels: int) -> Path:
    """Make a run with an untrained ResNet-18: its vectors cost what those of a trained one do."""
    info = EncoderInfo(
        "resnet18", width, DIM, channels, size, (0.5,) * channels, (0.25,) * channels, True, ("a", "b")
    )
    path.mkdir()
    encoder = Encoder(info).eval()
    save_encoder(encoder, path / "model.safetensors")
    export_onnx(encoder, fingerprint_of(path / "model.safetensors"), path / "encoder.onnx")
    return path


def make_vectors(number: int, rng: np.random.Generator) -> np.ndarray[Any, np.dtype[np.float32]]:
    plane = np.random.default_rng(1).normal(size=(24, DIM)).astype(np.float32) / 5
    centres = np.random.default_rng(2).normal(size=(50, DIM)).astype(np.float32)
    labels = rng.integers(0, len(centres), number)
    vectors = centres[labels] + rng.standard_normal((number, 24), np.float32) @ plane
    vectors += 0.05 * rng.standard_normal((number, DIM), np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def rows_of(vectors: np.ndarray[Any, np.dtype[np.float32]]) -> Iterator[Rows]:
    for start in range(0, len(vectors), 10_000):
        part = vectors[start : start + 10_000]
        items = tuple(
            Item(f"set/{n}.png", str(n % 50), f"/data/set/{n}.png", f"p{n % 200}", "set", f"{n:032x}")
            for n in range(start, start + len(part))
        )
        yield Rows(items, part, (b"",) * len(part))


def take_turns(ours: Callable[[], object], raw: Callable[[], object], blocks: int) -> dict[str, float]:
    """Median milliseconds of both, and the median of their ratios."""
    times: list[tuple[float, float]] = []
    for block in range(blocks + 1):
        start = time.perf_counter()
        ours()
        middle = time.perf_counter()
        raw()
        if block:  # the first warms up
            times.append((middle - start, time.perf_counter() - middle))
    return {
        "milliseconds": 1e3 * statistics.median(a for a, _ in times),
        "raw_milliseconds": 1e3 * statistics.median(b for _, b in times),
        "ratio": statistics.median(a / b for a, b in times),
        "blocks": blocks,
    }


def compare_searches(number: int, blocks: int) -> dict[str, Any]:
    """Batches of 100 queries with all payload, exactly and approximately, in processes of their own."""
    with tempfile.TemporaryDirectory() as folder:
        run = make_run(Path(folder) / "run", 0.25, 28, 1)
        in_own_process(fill, run, number)
        return {
            "exact": in_own_process(compare_exact, run, number, blocks),
            "approximate": in_own_process(compare_approximate, run, number, blocks),
        }


def fill(run: Path, number: int) -> None:
    rows = rows_of(make_vectors(number, np.random.default_rng(0)))
    bt.Index.open(run).store.write(fingerprint_of(run / "model.safetensors"), DIM, rows, [])


def load(run: Path, approximate_from: int) -> tuple[bt.Index, float]:
    """Return the index with its table in memory, and the megabytes that takes."""
    memory.APPROXIMATE_FROM = approximate_from
    shutil.rmtree(run / "index" / "snapshot", ignore_errors=True)
    print(in_own_process(prepare, run, approximate_from))
    index = bt.Index.open(run)  # from the copy on disk
    before = memory_status("VmRSS")
    index.search(make_vectors(QUERIES, np.random.default_rng(1)), K)
    return index, (memory_status("VmRSS") - before) / 1024


def prepare(run: Path, approximate_from: int) -> str:
    memory.APPROXIMATE_FROM = approximate_from
    start = time.perf_counter()
    how = bt.Index.open(run).store.prepare()
    return f"prepared in {time.perf_counter() - start:.0f} s: {how}"


def compare_exact(run: Path, number: int, blocks: int) -> dict[str, float]:
    """Exact search against IndexFlatL2."""
    index, megabytes = load(run, number + 1)
    queries = make_vectors(QUERIES, np.random.default_rng(1))
    flat = faiss.IndexFlatL2(DIM)
    flat.add(make_vectors(number, np.random.default_rng(0)))
    found = take_turns(lambda: index.search(queries, K), lambda: flat.search(queries, K), blocks)
    return {**found, "megabytes": megabytes}


def compare_approximate(run: Path, number: int, blocks: int) -> dict[str, float]:
    """Approximate search against the same graph of FAISS."""
    index, megabytes = load(run, min(number, 50_000))
    queries = make_vectors(QUERIES, np.random.default_rng(1))
    graph = index.store._memory(index.store._key()).graph  # type: ignore[attr-defined]
    if graph is None:
        raise SystemExit(f"no graph over {number:,} vectors reaches the recall")
    parameters = faiss.SearchParametersHNSW(efSearch=graph.breadth)

    def raw() -> None:
        graph.index.search(queries, K, params=parameters)

    found = take_turns(lambda: index.search(queries, K), raw, blocks)
    return {**found, "megabytes": megabytes, "recall@10": graph.recall, "breadth": graph.breadth}


def compare_indexing(number: int, width: float, size: int, channels: int, blocks: int) -> dict[str, float]:
    """Images a second of ``index`` on TIFF files, and of the encoder alone on their pixels."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        run = make_run(Path(folder) / "run", width, size, channels)
        for i in range(number):
            path = Path(folder) / "images" / f"class{i % 2}" / f"{i}.tif"
            path.parent.mkdir(parents=True, exist_ok=True)
            small = rng.integers(0, 255, (size // 4, size // 4, 3), dtype=np.uint8)
            tile = Image.fromarray(small).resize((size, size), Image.Resampling.BICUBIC)
            tile.convert("RGB" if channels == 3 else "L").save(path)
        encoder = bt.Index.open(run).encoder
        pixels = rng.integers(0, 255, (number, size, size, channels), dtype=np.uint8)

        def index() -> None:
            shutil.rmtree(run / "index", ignore_errors=True)
            bt.Index.open(run).update(str(Path(folder) / "images"))

        found = take_turns(index, lambda: encoder.encode(pixels), blocks)
    return {
        "images": number,
        "images_per_second": 1e3 * number / found["milliseconds"],
        "encoder_images_per_second": 1e3 * number / found["raw_milliseconds"],
        "share_of_encoder": 1 / found["ratio"],
        "blocks": blocks,
    }


def time_shell(number: int, times: int) -> dict[str, float]:
    """Seconds of ``bayestriplet search`` as it is typed, the start of Python included."""
    with tempfile.TemporaryDirectory() as folder:
        run = make_run(Path(folder) / "run", 0.25, 28, 1)
        fill(run, number)
        bt.Index.open(run).store.prepare()
        query = Path(folder) / "query.png"
        Image.fromarray(np.random.default_rng(0).integers(0, 255, (28, 28), dtype=np.uint8)).save(query)
        seconds = []
        for _ in range(times + 1):
            start = time.perf_counter()
            subprocess.run([COMMAND, "search", run, query], check=True, capture_output=True)  # noqa: S603
            seconds.append(time.perf_counter() - start)
    return {
        "items": number,
        "seconds": statistics.median(seconds[1:]),
        "slowest": max(seconds[1:]),
        "first": seconds[0],
    }


def in_own_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in a fresh process, so that memory is its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=9)
    parser.add_argument("--numbers", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--images", type=int, default=512)
    arguments = parser.parse_args()
    result: dict[str, Any] = {"threads": faiss.omp_get_max_threads(), "cores": os.cpu_count(), "search": {}}
    table = Table("what", "figure", title="Searching", title_justify="left")
    for number in arguments.numbers:
        result["search"][str(number)] = compare_searches(number, arguments.blocks)
        for kind, found in result["search"][str(number)].items():
            times = f"{found['milliseconds']:.1f} ms, {found['ratio']:.2f} times raw FAISS"
            table.add_row(f"{QUERIES} queries, {number:,} items, {kind}", times)
            table.add_row("  memory", f"{found['megabytes']:.0f} MB")
        table.add_row("  recall@10", f"{found['recall@10']:.4f}")
    result["indexing"] = {
        "224 px, ResNet-18": compare_indexing(arguments.images, 1.0, 224, 3, 3),
        "28 px, ResNet-18 at quarter width": compare_indexing(8 * arguments.images, 0.25, 28, 1, 5),
    }
    for name, found in result["indexing"].items():
        speed = (
            f"{found['images_per_second']:.0f} images/s, {found['share_of_encoder']:.0%} of the encoder's own"
        )
        table.add_row(f"indexing TIFFs, {name}", speed)
    result["shell"] = time_shell(10_000, 5)
    table.add_row("`bayestriplet search`, 10,000 items", f"{result['shell']['seconds']:.2f} s")
    Console().print(table)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")
    print(f"Written to {RESULTS}")


if __name__ == "__main__":
    torch.manual_seed(0)
    main()
