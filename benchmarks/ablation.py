"""What every correction of the paper, and every part of the default recipe, is worth.

Each row departs from a recipe in one thing; all are trained alike (a ResNet-18 at a quarter of its
width, five items of a class in a batch, cosine decay, variations of the images where they help) and
measured by Recall@1. The paper's protocol is taken apart on MNIST, the default recipe also on PathMNIST,
with 10 items per class and with classes in sequence; what distributions are worth in it, in every regime of
quality.py. Finished runs are kept in the folder of the runs, so a stopped ablation goes on; settings that
are whole are written to benchmarks/results/ablation.json.
"""

import argparse
import json
import os
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from ablation_tables import DISTRIBUTIONS
from near_classes import NearClasses
from printed import Mistakes, PrintedPosterior
from quality import RECIPES, REGIMES, subset_of
from searching import save
from torch import nn

import bayestriplet as bt
from bayestriplet.config import TrainConfig
from bayestriplet.data.augment import augment
from bayestriplet.data.batches import KINDS
from bayestriplet.data.dataset import LabelledImages
from bayestriplet.evaluation.embeddings import embed, pixel_statistics, to_tensor
from bayestriplet.evaluation.metrics import recall_at_k
from bayestriplet.model.encoder import Encoder
from bayestriplet.model.info import EncoderInfo
from bayestriplet.training.plan import open_images
from bayestriplet.triplets.criteria import _Criterion

RESULTS = Path(__file__).parent / "results" / "ablation.json"
STEPS, DIM = 300, 128
IN_BATCH = 5  # items of a class
RATE, RATE_OF_PAPER = 5e-3, 1e-3  # the paper's own 1e-5 leads nowhere in so few steps
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


def near_classes(cls: type[_Criterion]) -> Build:
    """Return a builder of the default recipe whose anchors meet draws of the three nearest classes."""

    def build(num_classes: int) -> _Criterion:
        criterion = cls(num_classes, DIM)
        criterion.sampler.__class__ = NearClasses
        return criterion

    return build


ROWS: dict[str, dict[str, Build]] = {
    "paper's protocol": {
        "BUT as corrected": paper(),
        "inverse as printed": paper(mistakes=Mistakes(inverse=True)),
        "expectation fed back": paper(mistakes=Mistakes(feedback=True)),
        "mean overwritten before the cross term": paper(mistakes=Mistakes(order=True)),
        "covariance of the batch alone, up to D + 1 items": paper(mistakes=Mistakes(batch_only=True)),
        "all four": paper(mistakes=Mistakes(True, True, True, True)),
        "without the spike: empirical prior": paper(prior="empirical"),
        "normalised": paper(normalize=True),
    },
    "paper's protocol, empirical prior": {
        "BUT, empirical prior": paper(prior="empirical"),
        "forgetting: memory 20": paper(prior="empirical", memory=20.0),
    },
    "paper's protocol, NCA": {
        "BUNCA as corrected": paper(bt.BUNCA),
        "positive not in the denominator": paper(bt.BUNCA, include_positive=False),
        "normalised": paper(bt.BUNCA, normalize=True),
    },
    "default BUT": {
        "whole": default(bt.BUT),
        "draws not joined with the batch": default(bt.BUT, draws="shared"),
        "spread 0": default(bt.BUT, spread=0.0),
        "spread 0.8": default(bt.BUT, spread=0.8),
        "spread 1: vertices instead of means": default(bt.BUT, spread=1.0),
        "spread 1, noise 0: vertices alone": default(bt.BUT, spread=1.0, noise=0.0),
        "noise 0: means instead of draws": default(bt.BUT, noise=0.0),
        "noise 1": default(bt.BUT, noise=1.0),
        "no forgetting": default(bt.BUT, memory=None),
        "improper prior": default(bt.BUT, prior="improper"),
        "Student-t draws": default(bt.BUT, distribution="student_t"),
        "three nearest classes as negatives": near_classes(bt.BUT),
        "mean over all triplets, not the active": default(bt.BUT, reduction="mean"),
        "squared distances": default(bt.BUT, squared=True),
        "not normalised, so without spread": default(bt.BUT, normalize=False),
    },
    "default BUNCA": {
        "whole": default(bt.BUNCA),
        "draws not joined with the batch": default(bt.BUNCA, draws="shared"),
        "spread 0": default(bt.BUNCA, spread=0.0),
        "spread 0.5": default(bt.BUNCA, spread=0.5),
        "spread 1: vertices instead of means": default(bt.BUNCA, spread=1.0),
        "spread 1, noise 0: vertices alone": default(bt.BUNCA, spread=1.0, noise=0.0),
        "noise 0: means instead of draws": default(bt.BUNCA, noise=0.0),
        "noise 1": default(bt.BUNCA, noise=1.0),
        "no forgetting": default(bt.BUNCA, memory=None),
        "improper prior": default(bt.BUNCA, prior="improper"),
        "Student-t draws": default(bt.BUNCA, distribution="student_t"),
        "three nearest classes as negatives": near_classes(bt.BUNCA),
        "positive not in the denominator": default(bt.BUNCA, include_positive=False),
        "not normalised, so without spread": default(bt.BUNCA, normalize=False),
    },
}


DEFAULT = ("default BUT", "default BUNCA")


@dataclass(frozen=True)
class Setting:
    """Where rows are compared: on which data, in which regime, which rows, with images varied or not."""

    data: str
    groups: tuple[str, ...] = DEFAULT
    regime: dict[str, Any] = field(default_factory=dict)
    only: tuple[str, ...] | None = None
    varied: bool = True

    def rows(self, group: str) -> list[str]:
        return [row for row in ROWS[group] if self.only is None or row in self.only]


SETTINGS = {
    "mnist": Setting("mnist", tuple(ROWS)),
    "pathmnist": Setting("pathmnist", varied=False),
    **{
        name: Setting("mnist", regime=REGIMES[name]) for name in ("10 items per class", "classes in sequence")
    },
}
SETTINGS |= {
    name: Setting("mnist", regime=regime, only=tuple(DISTRIBUTIONS))
    for name, regime in REGIMES.items()
    if name not in SETTINGS
}


@dataclass(frozen=True)
class Run:
    """One network to train."""

    setting: str
    group: str
    row: str
    seed: int


def recall_of(run: Run, data: str, steps: int, split: str) -> float | str:
    """Train one network and return its Recall@1 on a split in percent, or why it cannot be trained."""
    torch.set_num_threads(1)
    torch.manual_seed(run.seed)
    setting = SETTINGS[run.setting]
    images = open_images(TrainConfig(data=data, seed=run.seed, **setting.regime))
    indices = images.indices("train")
    criterion = ROWS[run.group][run.row](len(images.classes))
    normalize = criterion.sampler.normalize
    mean, deviation = pixel_statistics(images, indices, 0)
    info = EncoderInfo(
        "resnet18", 0.25, DIM, images.channels, images.size, mean, deviation, normalize, images.classes
    )
    encoder = Encoder(info).train()
    try:
        _fit(encoder, criterion, images, run, steps)
    except (bt.BayesTripletError, torch.linalg.LinAlgError, FloatingPointError) as error:
        return str(error).splitlines()[0]
    held_out = images.indices(split)
    vectors = embed(encoder.eval(), images, held_out, 0)
    return round(100 * recall_at_k(vectors, images.labels[held_out], (1,))[1], 2)


def _fit(encoder: Encoder, criterion: nn.Module, images: LabelledImages, run: Run, steps: int) -> None:
    indices, generator = images.indices("train"), torch.Generator().manual_seed(run.seed)
    labels = images.labels[indices]
    rate = RATE if run.group in DEFAULT else RATE_OF_PAPER
    optimizer = torch.optim.Adam(encoder.parameters(), rate, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    setting = SETTINGS[run.setting]
    size = setting.regime.get("batch_size", IN_BATCH * len(images.classes))
    batches = KINDS[setting.regime.get("batches", "balanced")]
    for rows in batches(labels, size, steps, seed=run.seed):
        pixels = to_tensor(images.read(indices[rows].tolist()))
        if setting.varied:
            pixels = augment(pixels, images.kind, generator)
        loss = criterion(encoder.features(pixels), torch.from_numpy(labels[rows]))
        if not loss.isfinite():
            raise FloatingPointError("the loss is not finite")
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--pathmnist", type=Path, help="pathmnist.npz; without it only MNIST is used")
    parser.add_argument("--only", choices=SETTINGS, nargs="+", default=list(SETTINGS), help="some settings")
    parser.add_argument("--split", choices=("test", "val"), default="test", help="measured on; val to choose")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    parser.add_argument("--out", type=Path, default=Path("runs/ablation"), help="folder of the runs")
    parser.add_argument("--results", type=Path, default=RESULTS, help="JSON to write")
    options = parser.parse_args()
    sources = {"mnist": "mnist"}
    if options.pathmnist:
        sources["pathmnist"] = f"pathmnist:{subset_of(options.pathmnist, options.out)}"
    os.environ["OMP_NUM_THREADS"] = "1"
    progress = options.out / f"{options.split}.json"
    found = json.loads(progress.read_text(encoding="utf-8")) if progress.is_file() else {}
    about = {"steps": options.steps, "split": options.split, "recipes": RECIPES}
    if found.setdefault("about", about) != about:
        raise SystemExit(f"{progress} holds runs of {found['about']}: choose another --out")
    runs = [run for run in planned(options.seeds) if run.setting in options.only]
    runs = [run for run in runs if SETTINGS[run.setting].data in sources]
    missing = [run for run in runs if run.seed >= len(values_of(found, run))]
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        waiting = {
            pool.submit(
                recall_of, run, sources[SETTINGS[run.setting].data], options.steps, options.split
            ): run
            for run in missing
        }
        done: dict[Run, float | str] = {}
        for future in as_completed(waiting):
            run = waiting[future]
            done[run] = future.result()
            print(f"{len(done):4d}/{len(waiting)}  {run.setting}, {run.group}, {run.row}: {done[run]}")
            values = values_of(found, run)
            while (following := replace(run, seed=len(values))) in done:  # in the order of the seeds
                values.append(done[following])
            save(found, progress)
    publish(found, options.results)


def publish(found: dict[str, Any], path: Path) -> None:
    """Write the settings measured in full; those that were not measured this time stay."""
    before = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    settings = before["settings"] if before.get("about") == found["about"] else {}
    for name, rows in found.get("settings", {}).items():
        groups = {
            group: {row: rows.get(group, {}).get(row, []) for row in SETTINGS[name].rows(group)}
            for group in SETTINGS[name].groups
        }
        seeds = {len(values) for of_group in groups.values() for values in of_group.values()}
        if len(seeds) == 1 and 0 not in seeds:  # every row, on as many seeds
            settings[name] = groups
    save({"about": found["about"], "settings": {s: settings[s] for s in SETTINGS if s in settings}}, path)


def planned(seeds: int) -> Iterator[Run]:
    """Yield all runs, setting by setting."""
    for name, setting in SETTINGS.items():
        for group in setting.groups:
            for row in setting.rows(group):
                yield from (Run(name, group, row, seed) for seed in range(seeds))


def values_of(found: dict[str, Any], run: Run) -> list[float | str]:
    """Return the list of a row's figures, one a seed."""
    rows = found.setdefault("settings", {}).setdefault(run.setting, {}).setdefault(run.group, {})
    return rows.setdefault(run.row, [])


if __name__ == "__main__":
    main()
