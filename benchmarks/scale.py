"""What a step of BUNCA costs as the classes become many: time, its slowest step, and memory.

Run alone on the machine: ``python benchmarks/scale.py``. One thread. Candidates take turns step by step, so
a slow moment hits all of them; medians over the steps, and their ratios, are told. Every class is seen
before anything is measured. Peak memory is that of a fresh process. ``--glyphs FILE.npz`` (images of many
classes) also trains a small network with BUNCA and with batch-hard in turn, from images to the optimiser.
``--run FILE.npz`` measures a whole run on such a file alone: its folder, and the seconds of ``evaluate`` and
``figures`` in fresh processes. What is not measured stays in benchmarks/results/scale.json.
"""

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from machine import memory_status
from rich.console import Console
from rich.progress import track
from rich.table import Table
from speed import batch_hard, batches, step_of, take_turns
from torch import Tensor

import bayestriplet as bt

RESULTS = Path(__file__).parent / "results" / "scale.json"
BATCH, DIM = 64, 128
CLASSES = {10: "auto", 100: "auto", 1_000: "auto", 10_000: "auto", 100_000: "lowrank", 1_000_000: "diagonal"}
FIXED = 64  # classes of the second kind of stream
REFERENCE = 100  # classes that the others are compared with
GLYPH_STEPS = 150  # of a training end to end
AT_ONCE = 4096  # items that the first pass over all classes adds at a time


@dataclass
class Candidate:
    """A criterion that has seen every class, its stream of batches, and the seconds of its steps."""

    classes: int
    fixed: bool
    criterion: bt.BUNCA
    generator: torch.Generator
    seconds: list[float]

    def step(self) -> float:
        """Take one step, forward and backward, and return its seconds."""
        number = min(FIXED, self.classes) if self.fixed else self.classes
        labels = torch.randint(0, number, (BATCH,), generator=self.generator)
        if self.fixed:
            labels = torch.arange(BATCH) % number
        embeddings = torch.randn(BATCH, DIM, generator=self.generator).requires_grad_()
        start = time.perf_counter()
        self.criterion(embeddings, labels).backward()
        return time.perf_counter() - start


def see_all(criterion: bt.BUNCA, classes: int) -> None:
    """Give the posterior two items of every class."""
    generator = torch.Generator().manual_seed(1)
    for _ in range(2):
        for labels in torch.arange(classes).split(AT_ONCE):
            items = torch.nn.functional.normalize(torch.randn(len(labels), DIM, generator=generator))
            criterion.posterior.update(items, labels)


def candidate(classes: int, fixed: bool) -> Candidate:
    criterion = bt.BUNCA(classes, DIM, structure=CLASSES.get(classes, "auto"))
    see_all(criterion, classes)
    return Candidate(classes, fixed, criterion, torch.Generator().manual_seed(2), [])


def measure(numbers: list[int], fixed: bool, steps: int) -> dict[str, dict[str, float | str]]:
    """Let criteria for these numbers of classes take turns; return what their steps took."""
    candidates = [candidate(number, fixed) for number in numbers]
    title = f"{FIXED} fixed classes" if fixed else "random batches"
    for step in track(range(steps + 5), title, transient=True):
        for one in candidates:
            seconds = one.step()
            if step >= 5:  # the first ones warm up
                one.seconds.append(seconds)
    reference = next(one for one in candidates if one.classes == min(REFERENCE, max(numbers)))
    return {str(one.classes): _row(one, reference) for one in candidates}


def _row(one: Candidate, reference: Candidate) -> dict[str, float | str]:
    median = statistics.median(one.seconds)
    ratio = statistics.median(a / b for a, b in zip(one.seconds, reference.seconds, strict=True))
    return {
        "structure": one.criterion.posterior.structure.name,
        "milliseconds": 1e3 * median,
        f"times_{reference.classes}": ratio,
        "slowest_over_median": max(one.seconds) / median,
    }


def measure_memory(classes: int) -> dict[str, float | str]:
    """Return the peak memory of a few steps and the time of one, in this process, which must be fresh."""
    one = candidate(classes, fixed=False)
    times = [one.step() for _ in range(5)]
    return {
        "structure": one.criterion.posterior.structure.name,
        "milliseconds": 1e3 * statistics.median(times),
        "megabytes": memory_status("VmHWM") / 1024,
    }


def memory_table(numbers: list[int]) -> dict[str, dict[str, float | str]]:
    """Return peak memory for each number of classes, each in a process of its own."""
    out = {}
    for number in track(numbers, "memory", transient=True):
        out[str(number)] = in_fresh_process("--memory", number)
    return out


def in_fresh_process(option: str, value: int) -> dict[str, Any]:
    """Return what this program measures with an option, in a process of its own."""
    command = [sys.executable, __file__, option, str(value)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def batch_hard_table(processes: int, blocks: int) -> dict[str, dict[str, float]]:
    """Return the median of several processes' ratios to batch-hard, and their span.

    Where a process finds its memory moves the ratio by some hundredths.
    """
    found = [
        in_fresh_process("--batch-hard", blocks)
        for _ in track(range(processes), "batch-hard", transient=True)
    ]
    return {
        name: {
            "median": statistics.median(one[name] for one in found),
            "least": min(one[name] for one in found),
            "most": max(one[name] for one in found),
        }
        for name in found[0]
    }


def against_batch_hard(blocks: int) -> dict[str, float]:
    """Return how many times as long as batch-hard's a step of BUNCA takes.

    Single steps in turn, as they stand between the steps of a network; and the small batches also in
    blocks of 50 steps, in which each finds its own numbers still in the caches.
    """
    out = {}
    kinds = ((50, 10, 1, 50 * blocks), (512, 100, 1, 4 * blocks), (50, 10, 50, blocks))
    for size, classes, steps, turns in kinds:
        data: list[tuple[Tensor, Tensor]] = batches(size, classes, DIM)
        criterion, other = step_of(bt.BUNCA(classes, DIM)), batch_hard()
        for items in data:
            criterion(*items)  # warms up
            other(*items)
        pair = take_turns("batch-hard", criterion, other, data, turns, (steps, steps))
        out[f"b{size}_k{classes}" + ("" if steps == 1 else "_blocks")] = pair.ratio
    return out


def end_to_end(data: Path, turns: int) -> dict[str, float]:
    """Return milliseconds a training step takes with BUNCA and batch-hard, and the median of their ratio."""
    seconds: dict[str, list[float]] = {"bunca": [], "bh": []}
    for _ in track(range(turns), "end to end", transient=True):
        for method, found in seconds.items():
            with tempfile.TemporaryDirectory() as folder:
                run = bt.train(
                    str(data), out=Path(folder) / "run", method=method, width=0.25, max_steps=GLYPH_STEPS,
                    validate_every=0, workers=0,
                )  # fmt: skip
                found.append(run.results["seconds"] / GLYPH_STEPS)
    ratios = [ours / other for ours, other in zip(seconds["bunca"], seconds["bh"], strict=True)]
    medians = {f"{method}_milliseconds": 1e3 * statistics.median(found) for method, found in seconds.items()}
    return medians | {"ratio": statistics.median(ratios)}


def whole_run(data: Path) -> dict[str, float]:
    """Return the size of a run's folder, and the seconds of its commands in fresh processes."""
    command = Path(sys.executable).with_name("bayestriplet")
    with tempfile.TemporaryDirectory() as folder:
        options = {"width": 0.25, "max_steps": GLYPH_STEPS, "validate_every": GLYPH_STEPS // 2, "workers": 0}
        run = bt.train(str(data), out=Path(folder) / "run", method="bunca", **options)
        files = [path for path in run.path.rglob("*") if path.is_file()]
        found = {
            "classes": len(run.results["classes"]),
            "megabytes": sum(path.stat().st_size for path in files) / 1e6,
        }
        for name in ("evaluate", "figures"):
            start = time.perf_counter()
            subprocess.run([command, name, run.path], check=True, capture_output=True)  # noqa: S603
            found[f"{name}_seconds"] = time.perf_counter() - start
    return found


def show(console: Console, title: str, rows: dict[str, dict[str, float | str]]) -> None:
    table = Table(title=title, title_justify="left")
    for heading in ("classes", *next(iter(rows.values()))):
        table.add_column(heading.replace("_", " "), justify="right")
    for number, row in rows.items():
        cells = (f"{cell:.2f}" if isinstance(cell, float) else cell for cell in row.values())
        table.add_row(number, *cells)
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--quick", action="store_true", help="a few steps with few classes, for a test")
    parser.add_argument("--glyphs", type=Path, help="images of many classes, to train end to end")
    parser.add_argument("--run", type=Path, help="images of many classes: measure a whole run, nothing else")
    parser.add_argument("--memory", type=int, metavar="CLASSES", help=argparse.SUPPRESS)
    parser.add_argument("--batch-hard", type=int, metavar="BLOCKS", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.memory:
        print(json.dumps(measure_memory(arguments.memory)))
        return
    if arguments.batch_hard:
        print(json.dumps(against_batch_hard(arguments.batch_hard)))
        return
    console = Console()
    known = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    if arguments.run:
        known["run"] = whole_run(arguments.run)
        console.print(known["run"])
        RESULTS.write_text(json.dumps(known, indent=1) + "\n")
        return
    timed = [10, 100] if arguments.quick else [10, 100, 1_000, 10_000]
    steps = 3 if arguments.quick else arguments.steps
    result: dict[str, object] = {
        "versions": {"python": platform.python_version(), "torch": torch.__version__}
    }
    for name, fixed in (("random batches", False), (f"{FIXED} fixed classes", True)):
        rows = measure(timed, fixed, steps)
        show(console, f"{name}: {BATCH} items, {DIM} dimensions, forward and backward", rows)
        result[name] = rows
    memory = memory_table([100] if arguments.quick else list(CLASSES))
    show(console, "peak memory of a fresh process", memory)
    result["memory"] = memory
    result["times_batch_hard"] = batch_hard_table(*((1, 1) if arguments.quick else (7, 21)))
    console.print(result["times_batch_hard"])
    if arguments.glyphs:
        result["end_to_end"] = end_to_end(arguments.glyphs, turns=5)
        console.print(result["end_to_end"])
    if not arguments.quick:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(
            json.dumps(known | result, indent=1) + "\n"
        )  # what is not measured this time stays
        console.print(f"Written to {RESULTS}")


if __name__ == "__main__":
    main()
