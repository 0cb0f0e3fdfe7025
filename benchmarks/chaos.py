"""Faults, load, bad input and several at once: what holds, as figures.

    make chaos
    python benchmarks/chaos.py --only killed hostile --seed 1

Run alone on the machine, under half an hour on two cores. The service is measured first and alone, the other
parts two at a time. Each is written down as soon as it is measured, in place of the former figures, together
with the load that there was on the machine before it.
"""

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from chaos_tables import fill

sys.path.insert(0, str(Path(__file__).parent.parent))

RESULTS = Path(__file__).parent / "results" / "chaos.json"
DOCUMENT = Path(__file__).parent.parent / "docs" / "reliability.md"
ALONE = ("served",)  # its figures are times
PARTS = (*ALONE, "killed", "numbers", "scarce", "hostile", "together")
AT_A_TIME = 2


def measure(part: str, seed: int) -> dict[str, Any]:
    """Return the figures of one part, the seconds it took, and how busy the machine was before."""
    load, began = os.getloadavg()[0], time.monotonic()
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        found = importlib.import_module(f"tests.chaos.{part}").measure(Path(folder), seed)
    seconds = time.monotonic() - began
    return {**found, "seed": seed, "seconds": round(seconds), "load_before": round(load, 2)}


def measure_apart(part: str, seed: int) -> dict[str, Any]:
    """Return the figures of one part, measured in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        out = Path(folder) / "found.json"
        command = [sys.executable, __file__, "--only", part, "--seed", str(seed), "--apart", str(out)]
        if subprocess.run(command).returncode:  # noqa: S603
            raise SystemExit(f"{part} was not measured")
        found: dict[str, Any] = json.loads(out.read_text())
        return found


def write(part: str, found: dict[str, Any], results: Path) -> None:
    """Put the figures of a part in place of the former ones."""
    known = json.loads(results.read_text()) if results.is_file() else {}
    known |= {"cores": os.cpu_count(), part: found}
    results.write_text(json.dumps(known, indent=1) + "\n")
    print(f"{part}: {json.dumps(found)}", flush=True)
    if results == RESULTS:
        DOCUMENT.write_text(fill(DOCUMENT.read_text(), json.loads(RESULTS.read_text())))


def measure_all(parts: Iterable[str], seed: int, results: Path) -> None:
    """Measure parts, some of them alone and the others two at a time."""
    began, parts = time.monotonic(), set(parts)
    for part in ALONE:
        if part in parts:
            write(part, measure_apart(part, seed), results)
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        others = [part for part in PARTS if part in parts and part not in ALONE]
        waiting = {pool.submit(measure_apart, part, seed): part for part in others}
        for done in as_completed(waiting):
            write(waiting[done], done.result(), results)
    minutes = (time.monotonic() - began) / 60
    if parts == set(PARTS):
        write("all", {"minutes": round(minutes, 1)}, results)
    print(f"Written to {results} after {minutes:.1f} minutes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--apart", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.apart:
        arguments.apart.write_text(json.dumps(measure(arguments.only[0], arguments.seed)))
    else:
        measure_all(arguments.only, arguments.seed, arguments.results)


if __name__ == "__main__":
    main()
