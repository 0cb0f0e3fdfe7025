"""How far a long training gets: the full network, variations of the images, until nothing improves.

One seed a run, and the default options of BUNCA but for those below; a stopped run goes on where it
was. Hours on a CPU: a step takes a quarter of a second on one core, with 56 pixels twice that. Written
to benchmarks/results/long.json.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from quality import RECIPES, subset_of
from rich.console import Console
from searching import Lines

from bayestriplet.config import TrainConfig
from bayestriplet.data.sources import absolute_data
from bayestriplet.training.plan import open_images, resolve
from bayestriplet.training.trials import Trial, run_trials

RESULTS = Path(__file__).parent / "results" / "long.json"
# A ResNet-18 makes 7 x 7 of 28 x 28 pixels before its first block; enlarged digits keep more of their shape.
# MNIST's temperature is the one that quality.py's search chose for BUNCA on its validation items.
RUNS: dict[str, dict[str, Any]] = {
    "mnist": {"temperature": 0.1, "max_steps": 10000, "validate_every": 500},
    "mnist, 56 px": {
        "size": 56,
        "lr": 0.003,
        "temperature": 0.1,
        "max_steps": 6000,
        "validate_every": 1500,
    },
    "mnist, 56 px, longer": {
        "size": 56,
        "lr": 0.003,
        "temperature": 0.1,
        "max_steps": 10000,
        "validate_every": 2000,
    },
    "mnist, 56 px, warmer": {"size": 56, "lr": 0.002, "max_steps": 5000, "validate_every": 1000},
    "mnist, 56 px, warmer, longer": {"size": 56, "lr": 0.002, "max_steps": 10000, "validate_every": 2000},
    "pathmnist": {"max_steps": 8000, "validate_every": 500},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--pathmnist", type=Path, help="pathmnist.npz; without it only MNIST is used")
    parser.add_argument("--only", choices=RUNS, help="one of them")
    parser.add_argument("--out", type=Path, default=Path("runs/long"), help="folder of the runs")
    parser.add_argument("--results", type=Path, default=RESULTS, help="JSON to write")
    options = parser.parse_args()
    data = {"mnist": "mnist"}
    if options.pathmnist:
        data["pathmnist"] = absolute_data(f"pathmnist:{subset_of(options.pathmnist, options.out)}")
    for name, chosen in RUNS.items():
        source = name.partition(",")[0]
        if options.only in (None, name) and source in data:
            config = TrainConfig(data=data[source], method="bunca", patience=8, **chosen)
            config = resolve(config, open_images(config))
            trial = Trial(config)
            (found,) = run_trials([trial], options.out / source, 2, Lines(Console()))
            keep(options.results, name, config, found)


def keep(path: Path, name: str, config: TrainConfig, found: dict[str, Any]) -> None:
    """Add the figures of a run, and the options that it was trained with, to the JSON."""
    known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    scores = found["test"][config.method]
    known[name] = {
        "method": config.method,
        "recipe": RECIPES["BUNCA"],
        "options": {"lr": config.lr, "temperature": config.temperature, "size": config.size or 28},
        "steps": found["steps"],
        "best_step": found["best_step"],
        "validation": round(100 * found["validation_recall@1"], 2),
        "test": {measure: round(100 * scores[measure]["value"], 2) for measure in scores},
    }
    ordered = {run: known[run] for run in RUNS if run in known}
    path.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
