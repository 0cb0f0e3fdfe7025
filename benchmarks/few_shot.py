"""Few-shot accuracy among characters never trained on, beside published figures for orientation.

Trains the candidate and the best baseline of benchmarks/unseen.py on its characters, with the options and
seeds of its table, and the candidate once for longer. Published figures are of other splits, and of far
longer trainings of other networks. The figures land in benchmarks/results/few_shot.json and from there in
docs/guides/unseen.md.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markdown import Markdown
from searching import Lines, base_of, save
from tables import fill_documents
from unseen import CANDIDATE, OPTIONS, SEEDS, STEPS
from unseen import RESULTS as MEASURED
from unseen_tables import few_shot_table

from bayestriplet.config import TrainConfig
from bayestriplet.data.sources import absolute_data
from bayestriplet.evaluation.embeddings import raw_pixels
from bayestriplet.evaluation.evaluate import select_items
from bayestriplet.evaluation.evaluator import Evaluator
from bayestriplet.evaluation.few_shot import TASKS, few_shot_accuracy
from bayestriplet.methods import METHODS
from bayestriplet.training.comparison import Comparison

RESULTS = Path(__file__).parent / "results" / "few_shot.json"
OURS = ("bunca", "but")
LONGER = 3000  # steps of the longer training
# Snell, Swersky, Zemel: Prototypical Networks for Few-shot Learning, 2017, on Omniglot.
PUBLISHED = {"Prototypical Networks, as published": [98.8, 99.7, 96.0, 98.9]}


def best_baseline(part: dict[str, Any]) -> str:
    """Return the method that is neither ours nor a control with the highest mean Recall@1 of a part."""
    means = {
        name: np.mean([seed["recall@1"] for seed in entry["seeds"].values()])
        for name, entry in part["methods"].items()
        if name not in OURS and not METHODS[name].control
    }
    return max(means, key=lambda name: means[name])


def measure(
    base: TrainConfig, method: str, seeds: tuple[int, ...], chosen: dict[str, Any], out: Path, lines: Lines
) -> list[list[float]]:
    """Return the accuracy in percent of every task, of every seed, by runs that are trained unless there."""
    summary = Comparison(base, (method,), seeds, False, {method: chosen}).run(out, 2, lines)
    found = []
    for scores in summary["methods"][method]["seeds"].values():
        run = Evaluator(out / "runs" / scores["run"])
        items = select_items(run.open(run.config.data)[0], "test", run.encoder)
        found.append(accuracies(run.vectors(items), items.labels))
    return found


def accuracies(vectors: Any, labels: Any) -> list[float]:
    """Return the few-shot accuracy of every task, in percent."""
    return [round(100 * few_shot_accuracy(vectors, labels, ways, shots).value, 2) for ways, shots in TASKS]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--omniglot", type=Path, required=True, help=".npz of images with classes of their own per split"
    )
    parser.add_argument("--out", type=Path, default=Path("runs/few-shot"), help="folder of the runs")
    parser.add_argument("--results", type=Path, default=RESULTS, help="JSON to write")
    options = parser.parse_args()
    lines, data = Lines(Console()), absolute_data(str(options.omniglot))
    part = json.loads(MEASURED.read_text(encoding="utf-8"))["parts"]["omniglot"]
    found: dict[str, Any] = {"tasks": [list(task) for task in TASKS], "rows": {}, "published": PUBLISHED}
    wanted = [(CANDIDATE, SEEDS, STEPS), (best_baseline(part), SEEDS, STEPS), (CANDIDATE, SEEDS[:1], LONGER)]
    for method, seeds, steps in wanted:
        base = base_of(data, steps, **OPTIONS["omniglot"])
        chosen = part["methods"][method]["chosen"]
        name = f"{method}, {steps:,} steps"
        found["rows"][name] = measure(base, method, seeds, chosen, options.out / str(steps), lines)
        save(found, options.results)
    images = Evaluator(next((options.out / str(STEPS) / "runs").iterdir())).open(data)[0]
    rows = images.indices("test")
    found["rows"]["raw pixels"] = [accuracies(raw_pixels(images, rows, 0), images.labels[rows])]
    save(found, options.results)
    Console(width=120).print(Markdown(few_shot_table(found)))
    if options.results == RESULTS:
        fill_documents()


if __name__ == "__main__":
    main()
