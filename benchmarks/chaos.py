"""Faults, load, bad input and several at once: what holds, as figures.

    make chaos
    python benchmarks/chaos.py --only killed hostile --seed 1

Run alone on the machine, under half an hour on two cores. Every part is written down as soon as it is
measured, in place of the former figures, together with the load that others put on the machine.
"""

import argparse
import importlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from chaos_tables import fill

sys.path.insert(0, str(Path(__file__).parent.parent))

RESULTS = Path(__file__).parent / "results" / "chaos.json"
DOCUMENT = Path(__file__).parent.parent / "docs" / "reliability.md"
PARTS = ("killed", "scarce", "hostile", "served", "together", "numbers")


def measure(part: str, seed: int) -> dict[str, Any]:
    """Return the figures of one part, the seconds it took, and how busy the machine was before."""
    load, began = os.getloadavg()[0], time.monotonic()
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        found = importlib.import_module(f"tests.chaos.{part}").measure(Path(folder), seed)
    seconds = time.monotonic() - began
    return {**found, "seed": seed, "seconds": round(seconds), "load_before": round(load, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    for part in arguments.only:
        found = measure(part, arguments.seed)
        known = json.loads(arguments.results.read_text()) if arguments.results.is_file() else {}
        known |= {"cores": os.cpu_count(), part: found}
        arguments.results.write_text(json.dumps(known, indent=1) + "\n")
        print(f"{part}: {json.dumps(found)}")
    print(f"Written to {arguments.results}")
    if arguments.results == RESULTS:
        DOCUMENT.write_text(fill(DOCUMENT.read_text(), json.loads(RESULTS.read_text())))


if __name__ == "__main__":
    main()
