"""What Recall@16 of 60,000 embeddings costs beside raw FAISS, and how much memory it takes.

Run alone on the machine: ``make bench``. Blocks take turns in one process; medians are compared.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import faiss
import numpy as np
from machine import memory_status
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
from rich.console import Console
from rich.progress import track
from rich.table import Table

import bayestriplet as bt

RESULTS = Path(__file__).parent / "results" / "recall.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=7)
    parser.add_argument("--number", type=int, default=60_000)
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, arguments.number)
    vectors = (rng.normal(size=(arguments.number, 128)) + 0.5 * rng.normal(size=(10, 128))[labels]).astype(
        np.float32
    )
    bt.recall_at_k(vectors[:2000], labels[:2000])  # libraries load and warm up
    Path("/proc/self/clear_refs").write_text("5")  # Linux: the peak starts again from here
    before = memory_status("VmRSS")
    bt.recall_at_k(vectors, labels)
    added = (memory_status("VmHWM") - before) / 1024
    times: dict[str, list[float]] = {"recall_at_k": [], "faiss": []}
    for _ in track(range(arguments.blocks), "Taking turns", transient=True):
        start = time.perf_counter()
        bt.recall_at_k(vectors, labels)
        times["recall_at_k"].append(time.perf_counter() - start)
        start = time.perf_counter()
        index = faiss.IndexFlatL2(128)
        index.add(vectors)
        index.search(vectors, 17)
        times["faiss"].append(time.perf_counter() - start)
    start = time.perf_counter()
    AccuracyCalculator(include=("precision_at_1",), k=16).get_accuracy(vectors, labels)
    theirs = time.perf_counter() - start
    ratio = statistics.median(a / b for a, b in zip(times["recall_at_k"], times["faiss"], strict=True))
    result = {
        "number": arguments.number,
        "recall_at_k_seconds": statistics.median(times["recall_at_k"]),
        "faiss_seconds": statistics.median(times["faiss"]),
        "ratio": ratio,
        "megabytes_beyond_embeddings": added,
        "pml_precision_at_1_seconds": theirs,
        "threads": faiss.omp_get_max_threads(),
    }
    table = Table("what", "figure", title=f"Recall@16 of {arguments.number:,} x 128", title_justify="left")
    table.add_row("recall_at_k", f"{result['recall_at_k_seconds']:.2f} s")
    table.add_row("faiss.IndexFlatL2, add and search, k = 17", f"{result['faiss_seconds']:.2f} s")
    table.add_row("ratio (median over blocks)", f"{ratio:.3f}")
    table.add_row("memory beyond the embeddings", f"{added:.0f} MB")
    table.add_row("PML's AccuracyCalculator, precision@1, k = 16", f"{theirs:.2f} s")
    Console().print(table)
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
