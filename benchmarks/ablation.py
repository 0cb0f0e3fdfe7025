"""What every correction of the paper, and every part of the default recipe, is worth.

Each row departs from a recipe in one thing; all are trained alike (a ResNet-18 at a quarter of its
width, batches of 50, cosine decay, variations of the images) and measured by Recall@1 on the test
split. Finished runs stay in benchmarks/results/ablation.json, so a stopped run goes on.
"""

import argparse
import json
import os
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from printed import Mistakes, PrintedPosterior
from rich.console import Console
from torch import nn

import bayestriplet as bt
from bayestriplet.data.augment import augment
from bayestriplet.data.batches import BalancedBatches
from bayestriplet.data.sources import open_data
from bayestriplet.evaluation.embeddings import embed, pixel_statistics, to_tensor
from bayestriplet.evaluation.metrics import recall_at_k
from bayestriplet.model.encoder import Encoder, EncoderInfo
from bayestriplet.triplets.criteria import _Criterion

RESULTS = Path(__file__).parent / "results" / "ablation.json"
STEPS, DIM = 300, 128
Build = Callable[[int], _Criterion]


def paper(cls: type[_Criterion] = bt.BUT, mistakes: Mistakes | None = None, **options: Any) -> Build:
    """Return a builder of the paper's recipe, with mistakes put back in."""

    def build(num_classes: int) -> _Criterion:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            criterion = cls(num_classes, DIM, "paper", **options)
        if mistakes:
            criterion.sampler.posterior = PrintedPosterior(num_classes, DIM, mistakes)
        return criterion

    return build


def default(cls: type[_Criterion], **options: Any) -> Build:
    return lambda num_classes: cls(num_classes, DIM, **options)


ROWS: dict[str, dict[str, Build]] = {
    "paper's protocol": {
        "BUT as corrected": paper(),
        "inverse as printed": paper(mistakes=Mistakes(inverse=True)),
        "expectation fed back": paper(mistakes=Mistakes(feedback=True)),
        "mean overwritten before the cross term": paper(mistakes=Mistakes(order=True)),
        "covariance of the batch alone, up to D + 1 items": paper(mistakes=Mistakes(batch_only=True)),
        "all four": paper(mistakes=Mistakes(True, True, True, True)),
        "without the spike: empirical prior": paper(prior="empirical"),
        "forgetting: memory 20, empirical prior": paper(prior="empirical", memory=20.0),
        "normalised": paper(normalize=True),
        "gradient through the class means": paper(gradient="means"),
    },
    "paper's protocol, NCA": {
        "BUNCA as corrected": paper(bt.BUNCA),
        "positive not in the denominator": paper(bt.BUNCA, include_positive=False),
    },
    "default BUT": {
        "whole": default(bt.BUT),
        "draws not joined with the batch": default(bt.BUT, draws="shared"),
        "spread 0": default(bt.BUT, spread=0.0),
        "draws are constants": default(bt.BUT, gradient="anchor"),
        "noise 0: means instead of draws": default(bt.BUT, noise=0.0),
        "noise 1": default(bt.BUT, noise=1.0),
        "memory 100": default(bt.BUT, memory=100.0),
        "no forgetting": default(bt.BUT, memory=None),
        "improper prior": default(bt.BUT, prior="improper"),
        "Student-t draws": default(bt.BUT, distribution="student_t"),
        "squared distances": default(bt.BUT, squared=True),
        "not normalised": default(bt.BUT, normalize=False),
    },
    "default BUNCA": {
        "whole": default(bt.BUNCA),
        "draws not joined with the batch": default(bt.BUNCA, draws="shared"),
        "spread 0": default(bt.BUNCA, spread=0.0),
        "draws are constants": default(bt.BUNCA, gradient="anchor"),
        "noise 0: means instead of draws": default(bt.BUNCA, noise=0.0),
        "no forgetting": default(bt.BUNCA, memory=None),
        "positive not in the denominator": default(bt.BUNCA, include_positive=False),
        "not normalised": default(bt.BUNCA, normalize=False),
    },
}


def recall_of(data: str, group: str, row: str, seed: int, steps: int) -> float | None:
    """Train one network and return its Recall@1 on the test split in percent; None if it broke down."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    images = open_data(data, seed=seed)
    indices = images.indices("train")
    criterion = ROWS[group][row](len(images.classes))
    normalize = criterion.sampler.normalize
    mean, deviation = pixel_statistics(images, indices, 0)
    info = EncoderInfo(
        "resnet18", 0.25, DIM, images.channels, images.size, mean, deviation, normalize, images.classes
    )
    encoder = Encoder(info).train()
    try:
        _fit(encoder, criterion, images, seed, steps)
    except (bt.BayesTripletError, torch.linalg.LinAlgError, FloatingPointError):
        return None
    test = images.indices("test")
    vectors = embed(encoder.eval(), images, test, 0)
    return round(100 * recall_at_k(vectors, images.labels[test], (1,))[1], 2)


def _fit(encoder: Encoder, criterion: nn.Module, images: Any, seed: int, steps: int) -> None:
    indices, generator = images.indices("train"), torch.Generator().manual_seed(seed)
    labels = images.labels[indices]
    rate = 5e-3 if encoder.info.normalize else 1e-3  # without the sphere, more breaks every row down
    optimizer = torch.optim.Adam(encoder.parameters(), rate, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for rows in BalancedBatches(labels, 50, steps, seed=seed):
        pixels = augment(to_tensor(images.read(indices[rows].tolist())), images.kind, generator)
        loss = criterion(encoder.features(pixels), torch.from_numpy(labels[rows]))
        if not loss.isfinite():
            raise FloatingPointError("the loss is not finite")
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--pathmnist", type=Path, help="use this pathmnist.npz instead of MNIST")
    parser.add_argument("--only", choices=ROWS, nargs="+", default=list(ROWS), help="groups of rows")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    parser.add_argument("--results", type=Path, default=RESULTS, help="JSON to write")
    options = parser.parse_args()
    data = f"pathmnist:{options.pathmnist}" if options.pathmnist else "mnist"
    name = data.split(":")[0]
    found = json.loads(options.results.read_text()) if options.results.is_file() else {}
    mine = found.setdefault(name, {"steps": options.steps, "rows": {}})
    if mine["steps"] != options.steps:
        raise SystemExit(f"{options.results} holds runs of {mine['steps']} steps: choose other --results")
    os.environ["OMP_NUM_THREADS"] = "1"
    console = Console()
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        waiting = {}
        for group in options.only:
            for row in ROWS[group]:
                values = mine["rows"].setdefault(group, {}).setdefault(row, [])
                for seed in range(len(values), options.seeds):
                    future = pool.submit(recall_of, data, group, row, seed, options.steps)
                    waiting[future] = (group, row, seed)
        done: dict[tuple[str, str, int], float | None] = {}
        for future in as_completed(waiting):
            group, row, seed = waiting[future]
            done[group, row, seed] = future.result()
            console.print(f"{len(done):4d}/{len(waiting)}  {group}, {row}, seed {seed}: {future.result()}")
            values = mine["rows"][group][row]
            while (group, row, len(values)) in done:  # in the order of the seeds
                values.append(done[group, row, len(values)])
            options.results.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
