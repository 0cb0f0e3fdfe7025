"""The cost of ``bayestriplet train`` beside a bare PyTorch loop, and whether its loader keeps up.

Run alone on the machine: ``make bench``. Blocks of both take turns in one process; medians are compared.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from lightning.pytorch import Callback, Trainer
from PIL import Image
from pytorch_metric_learning.losses import TripletMarginLoss
from rich.console import Console
from rich.table import Table

from bayestriplet.config import TrainConfig, make_config
from bayestriplet.data.batches import BalancedBatches
from bayestriplet.data.sources import open_data
from bayestriplet.evaluation.embeddings import to_tensor
from bayestriplet.model.backbone import build_backbone
from bayestriplet.runs.folder import RunFolder
from bayestriplet.training.loader import TrainingImages, make_loader
from bayestriplet.training.run import TrainingRun
from bayestriplet.training.trainer import make_trainer

RESULTS = Path(__file__).parent / "results" / "training.json"


class BareLoop:
    """The loop people write: network, PML's batch-all, fused Adam, channels-last, data in memory."""

    def __init__(self, size: int) -> None:
        images = open_data("digits", size=size)
        rows = images.indices("train")
        self.images = (to_tensor(images.read(rows)) - 0.3) / 0.3
        self.labels = torch.from_numpy(images.labels[rows])
        self.batches = iter(BalancedBatches(images.labels[rows], 50, 10**6))
        self.network = build_backbone("resnet18", 1, 128).to(memory_format=torch.channels_last)
        self.loss = TripletMarginLoss(0.2)
        self.optimizer = torch.optim.Adam(self.network.parameters(), 1e-3, fused=True)

    def step(self) -> None:
        rows = next(self.batches)
        images = self.images[rows].contiguous(memory_format=torch.channels_last)
        loss = self.loss(self.network(images), self.labels[rows])
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


class TakeTurns(Callback):
    """Times blocks of Lightning's steps, with a block of the bare loop after each."""

    def __init__(self, steps: int, size: int) -> None:
        self.steps, self.bare = steps, BareLoop(size)
        self.times: dict[str, list[float]] = {"train": [], "bare": []}
        self.since = 0.0

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        if trainer.global_step % self.steps:
            return
        now = time.perf_counter()
        if self.since:  # the first block warms up
            self.times["train"].append((now - self.since) / self.steps)
        start = time.perf_counter()
        for _ in range(self.steps):
            self.bare.step()
        if self.since:
            self.times["bare"].append((time.perf_counter() - start) / self.steps)
        self.since = time.perf_counter()


def fit_with(callback: Callback, run: TrainingRun) -> None:
    """Train with one more callback."""

    def make(config: TrainConfig, folder: RunFolder, callbacks: list[Callback]) -> Trainer:
        return make_trainer(config, folder, [*callbacks, callback])

    with patch("bayestriplet.training.run.make_trainer", make):
        run.fit()


def compare_steps(blocks: int, steps: int, size: int = 28) -> dict[str, float]:
    """Milliseconds a step of ``bayestriplet train`` with BUT, and of the bare loop with batch-all."""
    turns = TakeTurns(steps, size)
    with tempfile.TemporaryDirectory() as folder:
        config = make_config(
            {
                "data": "digits",
                "method": "but",
                "size": size,
                "max_steps": (blocks + 1) * steps,
                "validate_every": 10**6,
            },
            "bench",
        )
        fit_with(turns, TrainingRun(config, Path(folder) / "run"))
    train, bare = (statistics.median(turns.times[name]) for name in ("train", "bare"))
    ratio = statistics.median(a / b for a, b in zip(turns.times["train"], turns.times["bare"], strict=True))
    return {
        "train_ms": 1e3 * train,
        "bare_ms": 1e3 * bare,
        "ratio": ratio,
        "blocks": len(turns.times["train"]),
    }


def measure_loader(number: int = 360) -> dict[str, float]:
    """Images a second of the loader alone, and of a training that uses it, on 224 px TIFFs."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        for k in range(9):
            (Path(folder) / "tiles" / f"class{k}").mkdir(parents=True)
        for i in range(number):
            small = rng.integers(0, 255, (28, 28, 3), dtype=np.uint8)
            tile = Image.fromarray(small).resize((224, 224), Image.Resampling.BICUBIC)
            tile.save(Path(folder) / "tiles" / f"class{i % 9}" / f"{i}.tif")
        config = make_config(
            {"data": f"{folder}/tiles", "width": 0.25, "max_steps": 8, "validate_every": 10**6, "workers": 2},
            "bench",
        )
        images = open_data(config.data)
        items = TrainingImages(images, 0, vary=True)
        loader = make_loader(items, BalancedBatches(items.labels, 45, 40), config)
        batches = iter(loader)
        next(batches)
        start = time.perf_counter()
        alone = sum(len(labels) for _, labels in batches) / (time.perf_counter() - start)
        one = TrainingRun(config, Path(folder) / "run")
        waits = WaitTimes()
        fit_with(waits, one)
    return {
        "loader_images_per_second": alone,
        "training_images_per_second": waits.images / waits.total,
        "share_waiting": waits.waited / waits.total,
    }


class WaitTimes(Callback):
    """How long a training waits for its next batch."""

    def __init__(self) -> None:
        self.waited = self.total = self.images = 0.0
        self.ended = 0.0

    def on_train_batch_start(self, _: Any, __: Any, batch: Any, ___: int) -> None:
        self.began = time.perf_counter()
        if self.ended:
            self.waited += self.began - self.ended
            self.images += len(batch[1])

    def on_train_batch_end(self, *_: Any) -> None:
        now = time.perf_counter()
        if self.ended:
            self.total += now - self.ended
        self.ended = now


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=9)
    arguments = parser.parse_args()
    console = Console()
    console.print("Training steps: ResNet-18, batch 50, 28 x 28 ...")
    steps = compare_steps(arguments.blocks, steps=6)
    console.print("Loading 224 x 224 TIFFs ...")
    loader = measure_loader()
    table = Table(title="Training", title_justify="left")
    table.add_column("what")
    table.add_column("figure", justify="right")
    table.add_row("a step of `bayestriplet train` (BUT)", f"{steps['train_ms']:.0f} ms")
    table.add_row("a step of a bare loop (PML's batch-all)", f"{steps['bare_ms']:.0f} ms")
    table.add_row("ratio (median over blocks)", f"{steps['ratio']:.3f}")
    table.add_row(
        "loader alone, 224 px TIFFs, 2 workers", f"{loader['loader_images_per_second']:.0f} images/s"
    )
    table.add_row("training on them (quarter width)", f"{loader['training_images_per_second']:.0f} images/s")
    table.add_row("share of that time spent waiting for data", f"{loader['share_waiting']:.1%}")
    console.print(table)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(
        json.dumps({"threads": torch.get_num_threads(), "steps": steps, "loader": loader}, indent=1) + "\n"
    )
    console.print(f"Written to {RESULTS}")


if __name__ == "__main__":
    main()
