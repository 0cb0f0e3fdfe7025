"""A folder of a few hundred photographs: heads on frozen features beside features alone and from scratch.

Give it pictures of birds: a folder of class folders, such as 20 species of CUB-200-2011. Half of every
class's pictures train, a quarter validates, a quarter is asked about. All nine methods are searched alike
on validation pictures and measured on seeds of their own; the network from scratch gets ten minutes a try.
The figures land in benchmarks/results/pretrained.json and from there in docs/results.md.
"""

import argparse
import csv
import json
import shutil
import statistics
import tempfile
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from rich.console import Console
from rich.markdown import Markdown
from searching import AGAIN, ROWS, Lines, measure_method, save, search_options
from tables import fill_documents, pretrained_tables

import bayestriplet as bt
from bayestriplet.config import TrainConfig, make_config
from bayestriplet.data.sources import absolute_data, open_data
from bayestriplet.evaluation.embeddings import to_tensor
from bayestriplet.evaluation.evaluate import Vectors, embedders, select_items
from bayestriplet.evaluation.evaluator import Evaluator
from bayestriplet.evaluation.features import PART, with_features
from bayestriplet.evaluation.galleries import Gallery, measure_galleries
from bayestriplet.evaluation.weights import IMAGENET, find_weights, statistics_of
from bayestriplet.model.backbone import EFFICIENTNET
from bayestriplet.model.encoder import Encoder
from bayestriplet.model.info import EncoderInfo
from bayestriplet.training.run import TrainingRun

RESULTS = Path(__file__).parent / "results" / "pretrained.json"
PARTS = ("speed", "methods", "scratch")
PICTURES = (".jpg", ".jpeg", ".png")
SHARES = {"train": 0.5, "val": 0.75, "test": 1.0}  # where a split ends in a class's shuffled pictures
SEEDS = tuple(range(40, 45))  # none of them was used while anything was chosen
STEPS = 300  # of a head
MINUTES = 10  # for a network from scratch
TURNS = 8  # batches of the network alone
# What a network is trained with from scratch: the options of `train --from-scratch`, at sizes it can afford.
SCRATCH: dict[str, dict[str, Any]] = {
    "64 px, quarter width": {"size": 64, "width": 0.25},
    "64 px": {"size": 64},
}
AGAINST = "against the training items"


def split_pictures(folder: Path, out: Path) -> Path:
    """Write a manifest with half of every class's pictures to train, a quarter each to validate and test."""
    rng = np.random.default_rng(73690)
    out.mkdir(parents=True, exist_ok=True)
    path = out / "pictures.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["path", "label", "split"])
        for of_class in sorted(one for one in folder.resolve().iterdir() if one.is_dir()):
            pictures = sorted(one for one in of_class.iterdir() if one.suffix.lower() in PICTURES)
            for rank, number in enumerate(rng.permutation(len(pictures))):
                place = (rank + 0.5) / len(pictures)
                split = next(name for name, end in SHARES.items() if place < end)
                writer.writerow([pictures[number], of_class.name, split])
    return path


def frozen_network() -> Encoder:
    """Return the network whose features are used, with a head that nothing is asked of."""
    mean, deviation = statistics_of(EFFICIENTNET)
    info = EncoderInfo(EFFICIENTNET, 1.0, 8, 3, 224, mean, deviation, True, ("a", "b"), head="linear")
    return Encoder(info, find_weights(EFFICIENTNET, IMAGENET)).eval()


def keep_features_in(folder: Path) -> AbstractContextManager[Any]:
    """Keep features in a folder of their own for a while; the weights stay where they are."""
    return patch("bayestriplet.evaluation.features.cache_folder", return_value=folder)


@torch.no_grad()
def measure_speed(data: str, out: Path) -> dict[str, float]:
    """Return images a second of the network alone and with decoding, and the seconds of what comes later."""
    images, network = open_data(data, size=224), frozen_network()
    workers, number = images.default_workers(), len(images)
    pixels = to_tensor(images.read(np.arange(min(PART, number))))
    alone, whole = [], []
    for turn in range(3):
        start = time.perf_counter()
        for _ in range(TURNS):
            network.describe(pixels)
        alone.append(TURNS * len(pixels) / (time.perf_counter() - start))
        cache = out / f"cache{turn}"
        shutil.rmtree(cache, ignore_errors=True)
        with keep_features_in(cache):
            start = time.perf_counter()
            with_features(network, images, 1, workers)
            whole.append(number / (time.perf_counter() - start))
            start = time.perf_counter()
            with_features(network, images, 1, workers)
            again = time.perf_counter() - start
    ratio = statistics.median(a / b for a, b in zip(whole, alone, strict=True))
    with keep_features_in(cache), torch.enable_grad(), tempfile.TemporaryDirectory() as folder:
        results = bt.train(data, out=Path(folder) / "run").folder.read_results()
    return {
        "images": number, "threads": torch.get_num_threads(),
        "network_images_per_second": statistics.median(alone),
        "features_images_per_second": statistics.median(whole), "ratio": ratio, "second_run_seconds": again,
        "head_seconds": results["seconds"], "head_steps": results["steps"],
    }  # fmt: skip


def compare_methods(
    data: str, out: Path, jobs: int, seeds: tuple[int, ...], tune: bool, found: dict[str, Any], results: Path,
    lines: Lines,
) -> None:  # fmt: skip
    """Fill in the table of all methods, heads on the same features, with Recall@1 in both galleries."""
    fixed = {"data": data, "max_steps": STEPS, "validate_every": STEPS, "patience": 0}
    base, part = TrainConfig.model_validate(fixed), found.setdefault("methods", {})
    against = part.setdefault("against", {})
    for method in ROWS:
        chosen = search_options(base, method, part, out, jobs, lines, AGAIN) if tune else {}
        runs = measure_method(base, method, chosen, seeds, part, out, jobs, lines)
        if runs:
            against[method] = {}
        for seed, path in runs.items():
            run = Evaluator(path)
            rows = {method: run.vectors}
            if not part["floors"].keys() <= against.keys():  # the same for every run
                rows = embedders(run.encoder, name=method) | rows
            for name, value in recalls_against(run, rows).items():
                against.setdefault(name, {})[seed] = value
        save(found, results)


def recalls_against(run: Evaluator, rows: dict[str, Vectors]) -> dict[str, float]:
    """Return Recall@1 in percent of the test items against the training items, by each of the embeddings."""
    images, _ = run.open(run.config.data)
    queries, training = (select_items(images, split, run.encoder) for split in ("test", "train"))
    galleries = [Gallery(queries, training)]
    (found,) = measure_galleries(rows, galleries, np.unique(training.labels), run.config.seed)
    return {name: round(100 * scores["recall@1"].value, 2) for name, scores in found.rows.items()}


def train_from_scratch(data: str, out: Path, options: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Return Recall@1 of a network that began with nothing, after the steps that fit into a time of one core.

    It is the processor's time, so that it does not matter what else the machine does.
    """
    fixed = {"data": data, "method": "but", "from_scratch": True, "patience": 0, "workers": 0, **options}
    took = []
    for steps in (4, 16):  # the difference is steps alone
        with tempfile.TemporaryDirectory() as folder:
            start = time.process_time()
            config = make_config({**fixed, "max_steps": steps, "validate_every": 0}, "bench")
            TrainingRun(config, Path(folder) / "run").fit()
            took.append(time.process_time() - start)
    steps = max(16, int(seconds * 12 / (took[1] - took[0])))
    shutil.rmtree(out, ignore_errors=True)
    run = bt.train(out=out, **fixed, max_steps=steps, validate_every=max(1, steps // 10))
    results = run.folder.read_results()
    method = results["method"]
    return {
        "options": options, "steps": steps, "minutes": seconds / 60,
        "validation": round(100 * results["validation_recall@1"], 2),
        "among": round(100 * results["test"][method]["recall@1"]["value"], 2),
        "against": round(100 * results["galleries"][AGAINST]["rows"][method]["recall@1"]["value"], 2),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--birds", type=Path, required=True, help="folder of class folders with pictures")
    parser.add_argument("--fast", action="store_true", help="two seeds, nothing searched, 20 s from scratch")
    parser.add_argument("--only", choices=PARTS, nargs="+", default=PARTS, help="some of it")
    parser.add_argument("--out", type=Path, default=Path("runs/pretrained"), help="folder of the runs")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    parser.add_argument("--results", type=Path, default=RESULTS, help="JSON to write")
    options = parser.parse_args()
    console = Console()
    data = absolute_data(str(split_pictures(options.birds, options.out)))
    found: dict[str, Any] = {}
    if options.results.is_file():  # what was measured before stays
        found = json.loads(options.results.read_text(encoding="utf-8"))
    seeds, seconds = (SEEDS[:2], 20.0) if options.fast else (SEEDS, 60.0 * MINUTES)
    if "speed" in options.only:
        console.rule("speed")
        found["speed"] = measure_speed(data, options.out)
        save(found, options.results)
    if "methods" in options.only:
        console.rule("heads on frozen features")
        compare_methods(
            data, options.out / "methods", options.jobs, seeds, not options.fast, found, options.results,
            Lines(console),
        )  # fmt: skip
    if "scratch" in options.only:
        console.rule("from scratch")
        torch.set_num_threads(1)
        for number, (name, chosen) in enumerate(SCRATCH.items()):
            found.setdefault("scratch", {})[name] = train_from_scratch(
                data, options.out / f"scratch-{number}", chosen, seconds
            )
            save(found, options.results)
    for title, table in pretrained_tables(found).items():
        console.rule(title)
        Console(width=max(console.width, 120)).print(Markdown(table))
    if options.results == RESULTS:
        fill_documents()


if __name__ == "__main__":
    main()
