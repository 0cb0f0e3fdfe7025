"""What searching costs beside raw FAISS, indexing beside the encoder alone, and a search from the shell.

    python benchmarks/search.py [search] [indexing] [shell]

Run alone on the machine: ``make bench``. Blocks take turns in one process; medians are compared. Vectors are
like embeddings: classes on the sphere that vary in 24 of 128 directions, and a little in all. Every figure is
written down as soon as it is measured, in place of the former one.
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
from machine import memory_status
from numpy.typing import NDArray
from PIL import Image
from rich.console import Console
from rich.table import Table

import bayestriplet as bt
from bayestriplet.retrieval import memory
from bayestriplet.retrieval.cells import WANTED, recall_of
from bayestriplet.retrieval.encoder import OnnxEncoder
from bayestriplet.retrieval.items import Item, Rows

RESULTS = Path(__file__).parent / "results" / "search.json"
MOVED = 3  # exit status of an answer whose files are not where they were
PARTS = ("search", "indexing", "shell")
DIM, K, QUERIES, CLASSES = 128, 10, 100, 10
HNSW_UP_TO = 100_000  # vectors
INDEXED = {  # encoder: width, pixels a side, channels; images; turns
    "ResNet-18, 224 px": (1.0, 224, 3, 512, 3),
    "ResNet-18 at a quarter of its width, 28 px": (0.25, 28, 1, 4096, 5),
}
COMMAND = Path(sys.executable).parent / "bayestriplet"

Vectors = NDArray[np.float32]


def make_run(path: Path, width: float, size: int, channels: int) -> Path:
    """Make a run with an untrained ResNet-18, whose vectors cost what those of a trained one do."""
    import torch

    from bayestriplet.evaluation.embeddings import Embedded
    from bayestriplet.evaluation.encoders import save_encoder
    from bayestriplet.evaluation.predictive_of import fit_predictive
    from bayestriplet.model.encoder import Encoder
    from bayestriplet.model.info import EncoderInfo
    from bayestriplet.runs.encoder_files import fingerprint_of
    from bayestriplet.runs.folder import RunFolder
    from bayestriplet.training.finishing import export

    torch.manual_seed(0)
    names = tuple(map(str, range(CLASSES)))
    mean, deviation = (0.5,) * channels, (0.25,) * channels
    encoder = Encoder(EncoderInfo("resnet18", width, DIM, channels, size, mean, deviation, True, names))
    path.mkdir()
    run = RunFolder(path)
    save_encoder(encoder.eval(), run.model)
    export(run, encoder)
    items = Embedded(make_vectors(300, 0), np.arange(300) % CLASSES)
    posterior = bt.ClassPosterior(CLASSES, DIM)
    posterior.update(torch.from_numpy(items.vectors), torch.from_numpy(items.labels))
    fit_predictive(posterior, names, fingerprint_of(run.model), items, items).save(run.predictive)
    return path


def make_vectors(number: int, seed: int) -> Vectors:
    rng = np.random.default_rng(seed)
    plane = np.random.default_rng(1).normal(size=(24, DIM)).astype(np.float32) / 5
    centres = np.random.default_rng(2).normal(size=(50, DIM)).astype(np.float32)
    vectors = rng.standard_normal((number, 24), np.float32) @ plane
    vectors += centres[rng.integers(0, len(centres), number)]
    vectors += 0.05 * rng.standard_normal((number, DIM), np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


def rows_of(vectors: Vectors) -> Iterator[Rows]:
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


def compare_searches(run: Path, number: int, blocks: int) -> dict[str, dict[str, float]]:
    """Batches of 100 queries with all payload, exactly and approximately, each in a process of its own."""
    in_own_process(fill, run, number)
    found = {}
    for kind, approximate_from in (("exact", number + 1), ("approximate", 1)):
        made = in_own_process(prepare, run, approximate_from)
        found[kind] = made | in_own_process(compare_search, run, number, blocks)
    if "recall@10" not in found["approximate"]:
        raise SystemExit(f"no cells over {number:,} vectors reach the recall")
    return found


def fill(run: Path, number: int) -> None:
    shutil.rmtree(run / "index", ignore_errors=True)
    index = bt.Index.open(run)
    index.store.write(index.encoder.fingerprint, DIM, rows_of(make_vectors(number, 0)), [])


def prepare(run: Path, approximate_from: int) -> dict[str, float]:
    """Make the copy of the table that searches run on."""
    memory.APPROXIMATE_FROM = approximate_from
    shutil.rmtree(run / "index" / "snapshot", ignore_errors=True)
    start = time.perf_counter()
    bt.Index.open(run).store.prepare()
    return {
        "prepared_seconds": time.perf_counter() - start,
        "prepared_peak_megabytes": memory_status("VmHWM") / 1024,
    }


def compare_search(run: Path, number: int, blocks: int) -> dict[str, float]:
    """Compare a search with FAISS: its flat index, or HNSW where the search is approximate."""
    queries, vectors = make_vectors(QUERIES, 1), make_vectors(number, 0)
    before = memory_status("VmRSS")
    index = bt.Index.open(run)
    index.search(queries, K)
    found = {"megabytes": (memory_status("VmRSS") - before) / 1024}
    loaded = memory.Memory.load(*next((f.parent, f.name) for f in (run / "index" / "snapshot").iterdir()))
    if loaded is None:
        raise SystemExit(f"{run}: the copy on disk cannot be loaded")
    raw = faiss.IndexFlatL2(DIM)
    parameters = None
    if loaded.cells is not None:
        found |= {"recall@10": loaded.cells.recall, "breadth": loaded.cells.breadth}
        if number > HNSW_UP_TO:  # it takes minutes to build, and misses the recall
            return found | take_turns(
                lambda: index.search(queries, K), lambda: loaded.cells.search(queries, K), blocks
            )
        raw = faiss.IndexHNSWFlat(DIM, 32)
        raw.hnsw.efConstruction = 128
    raw.add(vectors)
    if loaded.cells is not None:
        breadth, reached = hnsw_breadth(raw, vectors)
        parameters = faiss.SearchParametersHNSW(efSearch=breadth)
        found |= {"hnsw_breadth": breadth, "hnsw_recall@10": reached}
    return found | take_turns(
        lambda: index.search(queries, K), lambda: raw.search(queries, K, params=parameters), blocks
    )


def hnsw_breadth(raw: Any, vectors: Vectors) -> tuple[int, float]:
    """Return the narrowest search of a graph with a recall@10 of 0.99, and its recall."""
    queries = make_vectors(1000, 2)
    exact = faiss.knn(queries, vectors, K)[0]
    breadth, reached = 16, 0.0
    while reached < WANTED and breadth < 2048:
        breadth *= 2
        parameters = faiss.SearchParametersHNSW(efSearch=breadth)
        reached = recall_of(raw.search(queries, K, params=parameters)[0], exact, 1e-5)
    return breadth, reached


def compare_indexing(width: float, size: int, channels: int, number: int, blocks: int) -> dict[str, float]:
    """Images a second of ``index`` on TIFF files, and of the encoder alone on their pixels."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        run = in_own_process(make_run, Path(folder) / "run", width, size, channels)
        for i in range(number):
            path = Path(folder) / "images" / f"class{i % 2}" / f"{i}.tif"
            path.parent.mkdir(parents=True, exist_ok=True)
            small = rng.integers(0, 255, (size // 4, size // 4, 3), dtype=np.uint8)
            tile = Image.fromarray(small).resize((size, size), Image.Resampling.BICUBIC)
            tile.convert("RGB" if channels == 3 else "L").save(path)
        encoder = OnnxEncoder.open(run)
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


def time_shell(run: Path, number: int, times: int) -> dict[str, float]:
    """Seconds of ``bayestriplet search`` as it is typed, the start of Python included."""
    in_own_process(fill, run, number)
    in_own_process(prepare, run, number + 1)
    query = run / "query.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (28, 28), dtype=np.uint8)).save(query)
    seconds = []
    for _ in range(times + 1):
        start = time.perf_counter()
        done = subprocess.run([COMMAND, "search", run, query], capture_output=True, check=False)  # noqa: S603
        if done.returncode != MOVED:  # the files of these items never were
            raise SystemExit(done.stderr.decode())
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


def show(result: dict[str, Any]) -> None:
    table = Table("what", "figure", title="Searching", title_justify="left")
    for number, kinds in result.get("search", {}).items():
        for kind, found in kinds.items():
            times = f"{found['milliseconds']:.1f} ms, {found['ratio']:.2f} times raw FAISS"
            recall = f"; recall@10 {found['recall@10']:.4f}" if "recall@10" in found else ""
            table.add_row(f"{QUERIES} queries, {int(number):,} items, {kind}", times + recall)
            made = f"{found['prepared_seconds']:.0f} s and at most {found['prepared_peak_megabytes']:,.0f} MB"
            table.add_row("  memory", f"{found['megabytes']:,.0f} MB; prepared in {made}")
    for name, found in result.get("indexing", {}).items():
        speed = f"{found['images_per_second']:,.0f} images/s"
        share = f"{found['share_of_encoder']:.0%} of the encoder's own"
        table.add_row(f"indexing TIFFs, {name}", f"{speed}, {share}")
    if shell := result.get("shell"):
        table.add_row(f"`bayestriplet search`, {shell['items']:,} items", f"{shell['seconds']:.2f} s")
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], help="what to measure; all if not given")
    parser.add_argument("--blocks", type=int, default=9)
    parser.add_argument("--numbers", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    result: dict[str, Any] = json.loads(arguments.out.read_text()) if arguments.out.is_file() else {}
    result |= {"threads": faiss.omp_get_max_threads(), "cores": os.cpu_count()}

    def keep() -> None:
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")

    parts = arguments.parts or PARTS
    with tempfile.TemporaryDirectory() as folder:
        run = in_own_process(make_run, Path(folder) / "run", 0.25, 28, 1)
        if "shell" in parts:
            result["shell"] = time_shell(run, 10_000, 5)
            keep()
        if "search" in parts:
            for number in arguments.numbers:
                result.setdefault("search", {})[str(number)] = compare_searches(run, number, arguments.blocks)
                keep()
    if "indexing" in parts:
        for name, options in INDEXED.items():
            result.setdefault("indexing", {})[name] = compare_indexing(*options)
            keep()
    show(result)


if __name__ == "__main__":
    main()
