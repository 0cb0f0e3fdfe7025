"""What a training criterion costs: BUT and BUNCA beside miners of the batch and the paper's loops.

Run alone on the machine: ``make bench``. One thread; a candidate and the one it is measured by take turns
in blocks of 100 steps, and the median over the blocks of their ratio is told: a slow moment hits both.
"""

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from machine import memory_status
from pytorch_metric_learning import losses, miners
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor
from torch.distributions import MultivariateNormal

import bayestriplet as bt

RESULTS = Path(__file__).parent / "results" / "speed.json"
Step = Callable[[Tensor, Tensor], None]


def batches(size: int, num_classes: int, dim: int, number: int = 32) -> list[tuple[Tensor, Tensor]]:
    """Balanced batches of overlapping classes, as at the start of training.

    Were the classes apart, no mined triplet would be active and PML would skip its backward pass.
    """
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(size) % num_classes
    centers = torch.randn(num_classes, dim, generator=generator)
    return [
        (torch.randn(size, dim, generator=generator) + 0.5 * centers[labels], labels) for _ in range(number)
    ]


def step_of(criterion: Callable[[Tensor, Tensor], Tensor]) -> Step:
    """One step: forward and backward to the embeddings."""

    def step(embeddings: Tensor, labels: Tensor) -> None:
        criterion(embeddings.clone().requires_grad_(), labels).backward()

    return step


def batch_hard() -> Step:
    miner, loss = miners.BatchHardMiner(), losses.TripletMarginLoss()
    return step_of(lambda embeddings, labels: loss(embeddings, labels, miner(embeddings, labels)))


def all_triplets() -> Step:
    return step_of(losses.TripletMarginLoss())


class PaperByLoops:
    """The corrected Algorithm 1 as it is written down: loops over classes, anchors and classes again."""

    def __init__(self, num_classes: int, dim: int) -> None:
        self.num_classes, self.dim = num_classes, dim
        self.state: dict[int, tuple[int, Tensor, Tensor]] = {}

    def __call__(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        with torch.no_grad():
            for j in range(self.num_classes):
                self._update(j, embeddings[labels == j])
        total = embeddings.sum() * 0
        for anchor, label in zip(embeddings, labels.tolist(), strict=True):
            positives, negatives = [], []
            for j in range(self.num_classes):
                count, mean, scatter = self.state[j]
                covariance = scatter / (count - self.dim - 1 if count > self.dim + 1 else count)
                jitter = 0.01 * covariance.diagonal().mean() + 1e-4  # it is singular for a long time
                normal = MultivariateNormal(mean, covariance + jitter * torch.eye(self.dim))
                if j == label:
                    positives = [normal.sample() for _ in range(self.num_classes - 1)]
                else:
                    negatives.append(normal.sample())
            for positive, negative in zip(positives, negatives, strict=True):
                gap = (anchor - positive).square().sum() - (anchor - negative).square().sum()
                total = total + torch.relu(gap + 0.25)
        return total

    def _update(self, j: int, items: Tensor) -> None:
        mean = items.mean(0)
        scatter = (items - mean).mT @ (items - mean)
        if j not in self.state:
            self.state[j] = (len(items), mean, scatter)
            return
        n, old, total = self.state[j]
        both = n + len(items)
        total = total + scatter + n * len(items) / both * torch.outer(old - mean, old - mean)
        self.state[j] = (both, (n * old + len(items) * mean) / both, total)


@dataclass(frozen=True)
class Pair:
    """Medians over blocks in which two candidates take turns."""

    milliseconds: float  # a step of the first
    other_milliseconds: float  # a step of the second
    ratio: float  # of the first to the second


def take_turns(
    title: str,
    first: Step,
    second: Step,
    data: list[tuple[Tensor, Tensor]],
    blocks: int,
    steps: tuple[int, int],
) -> Pair:
    """Measure two candidates alone: a third one between them would leave its traces in the caches."""
    times: list[tuple[float, float]] = []
    for block in track(range(blocks + 1), title, transient=True, console=Console(stderr=True)):
        pair = []
        for step, number in zip((first, second), steps, strict=True):
            start = time.perf_counter()
            for i in range(number):
                step(*data[(block * number + i) % len(data)])
            pair.append(1e3 * (time.perf_counter() - start) / number)
        if block:  # the first one warms up
            times.append((pair[0], pair[1]))
    own, other, ratio = zip(*((a, b, a / b) for a, b in times), strict=True)
    return Pair(statistics.median(own), statistics.median(other), statistics.median(ratio))


def compare(
    size: int, num_classes: int, dim: int, blocks: int, steps: int, with_loops: bool
) -> dict[str, dict[str, float]]:
    """Return the time of every candidate and its ratio to batch-hard; that of the loops to BUT too."""
    data = batches(size, num_classes, dim)
    candidates: dict[str, Callable[[], Callable[[Tensor, Tensor], Tensor]]] = {
        "but": lambda: bt.BUT(num_classes, dim),
        "bunca": lambda: bt.BUNCA(num_classes, dim),
        "but, own draws": lambda: bt.BUT(num_classes, dim, draws="own"),
    }
    rows: dict[str, dict[str, float]] = {}
    for name, make in candidates.items():
        title = f"{size} items, {num_classes} classes: {name}"
        pair = take_turns(title, step_of(make()), batch_hard(), data, blocks, (steps, steps))
        rows.setdefault("bh (PML)", {"milliseconds": pair.other_milliseconds, "times_bh": 1.0})
        rows[name] = {"milliseconds": pair.milliseconds, "times_bh": pair.ratio}
    if with_loops:
        loops, name = step_of(PaperByLoops(num_classes, dim)), "paper, as loops"
        against_bh = take_turns(name, loops, batch_hard(), data, blocks, (1, steps))
        against_but = take_turns(name, loops, step_of(candidates["but"]()), data, blocks, (1, steps))
        rows[name] = {
            "milliseconds": against_bh.milliseconds,
            "times_bh": against_bh.ratio,
            "times_but": against_but.ratio,
        }
    return rows


def measure_memory(method: str, size: int) -> dict[str, float]:
    """Time a step and the peak memory it adds, in this process, which must be a fresh one."""
    data = batches(size, 10, 128, number=4)
    step = all_triplets() if method == "all" else step_of(bt.BUT(10, 128))
    small = batches(20, 10, 128, number=1)[0]
    step(*small)  # libraries load and allocate before the measurement
    Path("/proc/self/clear_refs").write_text("5")  # Linux: the peak starts again from here
    before = memory_status("VmRSS")
    times = []
    for embeddings, labels in data * 2:
        start = time.perf_counter()
        step(embeddings, labels)
        times.append(time.perf_counter() - start)
    added = memory_status("VmHWM") - before
    return {"milliseconds": 1e3 * statistics.median(times), "megabytes": added / 1024}


def memory_table() -> dict[str, dict[str, dict[str, float]]]:
    """Time and peak memory of BUT and of PML's all-triplets loss, each in processes of their own."""
    out: dict[str, dict[str, dict[str, float]]] = {}
    for size in track((64, 128, 256, 512), "all triplets", transient=True):
        for method in ("all", "but"):
            command = [sys.executable, __file__, "--memory", method, str(size)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
            out.setdefault(str(size), {})[method] = json.loads(done.stdout)
    return out


def show(console: Console, title: str, rows: dict[str, dict[str, float]]) -> None:
    table = Table(title=title, title_justify="left")
    table.add_column("criterion")
    for heading in ("ms a step", "times bh (PML)", "times but"):
        table.add_column(heading, justify="right")
    for name, row in rows.items():
        cells = (row.get(key) for key in ("milliseconds", "times_bh", "times_but"))
        table.add_row(name, *("" if cell is None else f"{cell:.2f}" for cell in cells))
    console.print(table)


def show_memory(console: Console, rows: dict[str, dict[str, dict[str, float]]]) -> None:
    table = Table(title="Against PML's all-triplets loss, 10 classes, 128 dimensions", title_justify="left")
    for heading in ("batch", "all: ms", "but: ms", "all: MB", "but: MB"):
        table.add_column(heading, justify="right")
    for size, row in rows.items():
        cells = [f"{row[m][key]:.1f}" for key in ("milliseconds", "megabytes") for m in ("all", "but")]
        table.add_row(size, *cells)
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=21)
    parser.add_argument("--memory", nargs=2, metavar=("METHOD", "SIZE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.memory:
        print(json.dumps(measure_memory(arguments.memory[0], int(arguments.memory[1]))))
        return
    console = Console()
    small = compare(50, 10, 128, arguments.blocks, steps=100, with_loops=True)
    show(console, "50 items, 10 classes, 128 dimensions: forward and backward", small)
    large = compare(512, 100, 128, max(5, arguments.blocks // 3), steps=4, with_loops=False)
    show(console, "512 items, 100 classes, 128 dimensions: forward and backward", large)
    memory = memory_table()
    show_memory(console, memory)
    RESULTS.parent.mkdir(exist_ok=True)
    versions = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "bayestriplet": bt.__version__,
    }
    result = {"versions": versions, "b50_k10_d128": small, "b512_k100_d128": large, "all_triplets": memory}
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")
    console.print(
        f"Written to {RESULTS.relative_to(Path.cwd()) if RESULTS.is_relative_to(Path.cwd()) else RESULTS}"
    )


if __name__ == "__main__":
    main()
