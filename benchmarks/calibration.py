"""How honest the posterior's probabilities are, and how well it tells novel items, on real data.

    python benchmarks/calibration.py --pathmnist pathmnist.npz    # nine networks of two minutes on two cores

Networks are those of ``make demo``. Probabilities: the three ways of ``bayestriplet evaluate`` on the test
items, over some seeds. Novelty: training without three digits, for three choices of them. What is chosen is
chosen on validation items. A run that is finished is not trained again, so the benchmark can be stopped.
"""

import argparse
import json
import statistics
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from quality import RECIPES, subset_of
from rich.console import Console
from rich.table import Table

from bayestriplet.config import make_config
from bayestriplet.data.sources import absolute_data
from bayestriplet.evaluation.bootstrap import bootstrap
from bayestriplet.evaluation.calibration import Judged
from bayestriplet.evaluation.embeddings import embed
from bayestriplet.evaluation.evaluator import Evaluator
from bayestriplet.evaluation.probabilities import WAYS, RunVectors, compare_ways, measure, novelty_aurocs
from bayestriplet.runs.folder import RunFolder
from bayestriplet.runs.predictive import Predictive
from bayestriplet.training.events import Event, ValidationEvent
from bayestriplet.training.run import TrainingRun

RESULTS = Path(__file__).parent / "results" / "calibration.json"
HELD_OUT = ("0,1,2", "3,4,5", "6,7,8")


def print_validations(event: Event) -> None:
    if isinstance(event, ValidationEvent):
        print(event)


def train(out: Path, data: str, steps: int, seed: int, without: str | None) -> RunFolder:
    """Return a finished run, trained now if it is not there."""
    options = {"data": data, "method": "but", "width": 0.25, "max_steps": steps}
    options |= {"validate_every": max(1, steps // 4), "seed": seed} | (
        {} if without is None else {"without": without}
    )
    folder = RunFolder(out)
    if not folder.results.is_file():
        run = TrainingRun(make_config(options, "bench"), out, print_validations)
        run.fit(resume=folder.checkpoint.is_file())
        run.finish(export=False)
    return folder


def measure_run(folder: RunFolder) -> dict[str, Any]:
    """Figures of one run on its test items, and on the novel ones if classes were held out."""
    measured = Evaluator(folder.path)
    config, encoder = measured.config, measured.encoder
    predictive = Predictive.load(folder.predictive)
    images, novel = measured.open(config.data)
    vectors = measured.embed_splits(images)
    out: dict[str, Any] = {"probabilities": _probabilities(vectors, predictive, config.seed)}
    if novel is not None:
        strange = embed(encoder, novel, novel.indices("test"))
        out["novelty"] = novelty_aurocs(strange, vectors, predictive.novelty_scores)
        out["mean_percentile_of_novel"] = float(predictive.novelty(strange).mean())
    return out | {"reading": predictive.reading}


def _probabilities(vectors: RunVectors, predictive: Predictive, seed: int) -> dict[str, Any]:
    test, classes = vectors.test, len(predictive.classes)
    ways = compare_ways(vectors, classes, predictive.log_probabilities)
    judged = {name: Judged.by(way, test.vectors, test.labels, classes) for name, way in ways.items()}
    out: dict[str, Any] = {name: asdict(measure(found, seed)) for name, found in judged.items()}
    own = judged[WAYS[0]].loss
    for way in WAYS[1:]:  # paired by item
        gaps = bootstrap({"gap": own - judged[way].loss}, seed)
        out[way]["posterior_minus_this"] = asdict(gaps["gap"])
    return out


def mean_of(runs: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Means over runs of each way's figures."""
    return {
        way: {
            "accuracy": statistics.mean(run["probabilities"][way]["accuracy"]["value"] for run in runs),
            "log_loss": statistics.mean(run["probabilities"][way]["log_loss"]["value"] for run in runs),
            "ece": statistics.mean(run["probabilities"][way]["ece"] for run in runs),
        }
        for way in WAYS
    }


def show(results: dict[str, Any]) -> None:
    for name, entry in results["probabilities"].items():
        title = f"{name}: test items, mean of {len(entry['runs'])} seeds"
        table = Table("probabilities by", "accuracy, %", "log loss", "ECE", title=title, title_justify="left")
        for way, row in entry["mean"].items():
            cells = f"{100 * row['accuracy']:.2f}", f"{row['log_loss']:.4f}", f"{row['ece']:.4f}"
            table.add_row(way, *cells)
        Console().print(table)
    table = Table("novelty by", *results["novelty"]["runs"], "mean", title="MNIST without digits: AUROC")
    for way, mean in results["novelty"]["mean"].items():
        values = [f"{run['novelty'][way]:.4f}" for run in results["novelty"]["runs"].values()]
        table.add_row(way, *values, f"{mean:.4f}")
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--pathmnist", type=Path, help="pathmnist.npz; without it only MNIST is used")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--runs", type=Path, default=Path("runs/calibration"))
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    sets = {"mnist": "mnist"}
    if arguments.pathmnist:
        sets["pathmnist"] = absolute_data(f"pathmnist:{subset_of(arguments.pathmnist, arguments.runs)}")
    results: dict[str, Any] = {"steps": arguments.steps, "recipe": RECIPES["BUT"]}
    results |= {"probabilities": {}, "novelty": {"runs": {}}}
    for name, data in sets.items():
        runs = [
            measure_run(train(arguments.runs / f"{name}-{seed}", data, arguments.steps, seed, None))
            for seed in range(arguments.seeds)
        ]
        results["probabilities"][name] = {"mean": mean_of(runs), "runs": runs}
    novel = results["novelty"]["runs"]
    for without in HELD_OUT:
        out = arguments.runs / f"mnist-without-{without.replace(',', '')}"
        novel[without] = measure_run(train(out, "mnist", arguments.steps, 0, without))
    ways = next(iter(novel.values()))["novelty"]
    means = {way: float(np.mean([run["novelty"][way] for run in novel.values()])) for way in ways}
    results["novelty"]["mean"] = means
    show(results)
    arguments.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
