"""Whether a step that touches only what it needs finds as much: Recall@1, paired by seed.

``--omniglot FILE.npz`` (804 classes to train, others to test): BUNCA that draws from at most 128 classes
of low rank, against draws from all classes with full covariances. ``--again``: BUT and BUNCA on MNIST and,
with ``--pathmnist``, PathMNIST, with the options and seeds of quality.json, against the figures there.
Written to benchmarks/results/many_classes.json.
"""

import argparse
import json
import shutil
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from quality import MAIN, OURS, subset_of
from quality import RESULTS as QUALITY
from rich.console import Console
from rich.table import Table
from searching import base_of, chosen_in

import bayestriplet as bt
from bayestriplet.atomic import write_text
from bayestriplet.data.sources import absolute_data
from bayestriplet.evaluation.paired import half_width
from bayestriplet.training.comparison import Comparison

RESULTS = Path(__file__).parent / "results" / "many_classes.json"
SEEDS = tuple(range(50, 55))
STEPS = 400
ALL = 2**40  # bytes: what a full covariance of every class never exceeds


def recalls(data: str, out: Path, steps: int, seeds: tuple[int, ...], full: bool) -> dict[str, float]:
    """Return Recall@1 among test classes for every seed, with all classes in full, or as it is by default."""
    options: dict[str, Any] = {"method": "bunca", "width": 0.25, "max_steps": steps, "validate_every": 0}
    found = {}
    for seed in seeds:
        path = out / f"{'full' if full else 'default'}-{seed}"
        shutil.rmtree(path, ignore_errors=True)
        given = options | ({"draw_classes": 10**6} if full else {})
        with patch("bayestriplet.posterior.structures.FULL_UP_TO", ALL if full else 64 * 2**20):
            run = bt.train(data, out=path, seed=seed, **given)
        found[str(seed)] = 100 * run.folder.read_results()["test"]["bunca"]["recall@1"]["value"]
    return found


def against(new: dict[str, float], old: dict[str, float]) -> dict[str, Any]:
    """Return both means and the difference, paired by seed, with half of its 95% interval."""
    gaps = np.array([new[seed] - old[seed] for seed in new])
    means = {"new": float(np.mean(list(new.values()))), "old": float(np.mean([old[seed] for seed in new]))}
    return means | {"difference": float(gaps.mean()), "half_width": half_width(gaps), "seeds": len(gaps)}


def again(data: dict[str, str], out: Path, jobs: int) -> dict[str, Any]:
    """Train BUT and BUNCA again as quality.json has them, and compare."""
    known, found = json.loads(QUALITY.read_text(encoding="utf-8"))["main"], {}
    for name, source in data.items():
        chosen = {method: chosen_in(known[name])[method] for method in OURS}
        seeds = tuple(map(int, known[name]["methods"]["but"]["seeds"]))
        comparison = Comparison(base_of(source, 800, **MAIN[name]), OURS, seeds, False, chosen)
        summary = comparison.run(out / name, jobs, lambda _: None)
        for method in OURS:
            pairs = [
                {seed: one["recall@1"] for seed, one in table["methods"][method]["seeds"].items()}
                for table in (summary, known[name])
            ]
            found[f"{method} on {name}"] = against(*pairs)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--omniglot", type=Path, help="an npz file with classes apart by split")
    parser.add_argument("--again", action="store_true", help="the main settings of quality.json too")
    parser.add_argument("--pathmnist", type=Path, help="pathmnist.npz, for --again")
    parser.add_argument("--steps", type=int, default=STEPS, help="of a run on Omniglot")
    parser.add_argument("--out", type=Path, default=Path("runs/many"), help="folder of the runs")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    parser.add_argument("--results", type=Path, default=RESULTS, help="JSON to write")
    options = parser.parse_args()
    known = json.loads(options.results.read_text(encoding="utf-8")) if options.results.is_file() else {}
    if options.omniglot:
        source, steps = absolute_data(str(options.omniglot)), options.steps
        new, old = (recalls(source, options.out, steps, SEEDS, full) for full in (False, True))
        known["bunca on unseen Omniglot"] = against(new, old) | {"steps": steps}
    if options.again:
        data = {"mnist": "mnist"}
        if options.pathmnist:
            data["pathmnist"] = absolute_data(f"pathmnist:{subset_of(options.pathmnist, options.out)}")
        known |= again(data, options.out, options.jobs)
    write_text(options.results, json.dumps(known, indent=1) + "\n")
    table = Table("what", "before", "now", "difference")
    for name, row in known.items():
        gap = f"{row['difference']:+.2f}±{row['half_width']:.2f}"
        table.add_row(name, f"{row['old']:.2f}", f"{row['new']:.2f}", gap)
    Console().print(table)


if __name__ == "__main__":
    main()
