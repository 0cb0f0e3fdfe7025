"""A whole training run: from options to a folder with an evaluated encoder."""

import logging
import os
import platform
import shutil
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning.pytorch import Trainer
from lightning.pytorch.loggers import TensorBoardLogger
from lightning.pytorch.strategies import DDPStrategy
from rich.console import Console
from rich.markup import escape

from bayestriplet.config import EPOCHS_OF_THE_PAPER, LEAST_INTERVAL, LEAST_STEPS, TrainConfig
from bayestriplet.data.batches import KINDS
from bayestriplet.data.dataset import LabelledImages, few_items
from bayestriplet.data.progress import Progress
from bayestriplet.data.regimes import hold_out, make_imbalanced, make_noisy
from bayestriplet.data.sources import open_data
from bayestriplet.errors import DataError, InputError, MissingDependencyError
from bayestriplet.evaluation.embeddings import Embedded, embed, pixel_statistics
from bayestriplet.evaluation.evaluate import Tell, evaluate, select_items
from bayestriplet.evaluation.predictive_file import write_predictive
from bayestriplet.evaluation.report import Scores, to_json
from bayestriplet.evaluation.run_data import check_unchanged
from bayestriplet.evaluation.run_folder import RunFolder, write_whole
from bayestriplet.model.encoder import Encoder, EncoderInfo, save_encoder
from bayestriplet.model.onnx_export import export_onnx, fingerprint_of
from bayestriplet.posterior.posterior import ClassPosterior
from bayestriplet.training.callbacks import Interruption, StepLog, Validation
from bayestriplet.training.checkpoint import check_resumable
from bayestriplet.training.loader import TrainingImages, default_workers, make_loader
from bayestriplet.training.module import EmbeddingModule
from bayestriplet.training.progress import TrainingProgress

PACKAGES = ("bayestriplet", "torch", "lightning", "monai", "pytorch-metric-learning", "faiss-cpu", "numpy")


def open_images(config: TrainConfig, progress: Progress | None = None) -> LabelledImages:
    """Return the images of a run: without the classes held out, its training items made as hard as asked."""
    images = open_data(
        config.data, seed=config.seed, per_class=config.per_class, size=config.size,
        skip_bad=config.skip_bad, progress=progress,
    )  # fmt: skip
    if config.without is not None:
        images, _ = hold_out(images, config.without)
    if config.imbalance is not None:
        images = make_imbalanced(images, config.imbalance, config.seed)
    if config.label_noise:
        images = make_noisy(images, config.label_noise, config.seed)
    return images


class TrainingRun:
    """One training in one folder: ``fit`` on every rank, then ``finish`` on the first."""

    def __init__(
        self, config: TrainConfig, out: Path, console: Console, progress: Progress | None = None
    ) -> None:
        self.console = console
        self.is_first = int(os.environ.get("RANK", os.environ.get("LOCAL_RANK", 0))) == 0
        self.images = open_images(config, progress)
        config = config.resolved(len(self.images.classes))
        workers = default_workers(self.images) if config.workers is None else config.workers
        self.config = config.model_copy(update={"workers": workers})
        self.folder = RunFolder(out)
        self._check_data()

    def _check_data(self) -> None:
        """Refuse data that cannot be trained on, and warn about classes with little of it."""
        counts = np.bincount(
            self.images.labels[self.images.indices("train")], minlength=len(self.images.classes)
        )
        if (counts > 0).sum() < 2:
            raise DataError(
                f"{self.config.data} has training items of {(counts > 0).sum()} classes; 2 are needed"
            )
        if not self.is_first:
            return
        if not len(self.images.indices("val")):
            self.console.print("[yellow]Warning:[/] there are no validation items: the last network is kept")
        for warning in few_items(self.images):
            self.console.print(f"[yellow]Warning:[/] {escape(warning)}", highlight=False)

    def fit(self, resume: bool = False) -> None:
        """Train the network; what it takes to go on is in the run folder after every validation."""
        start = self.check_resume() if resume else 0
        if not resume and self.is_first:
            RunFolder.create(self.folder.path)
            self.folder.write_config(self.config)
            self.folder.write_splits(self.images)
        try:
            self._fit(start)
        except BaseException:
            if self.is_first and not self.folder.checkpoint.exists():
                shutil.rmtree(self.folder.path, ignore_errors=True)
            raise
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()

    def check_resume(self) -> int:
        """Return the step at which the run in the folder can go on, or say why it cannot."""
        step = check_resumable(self.folder, self.config)
        check_unchanged(self.folder, self.images)
        return step

    def finish(
        self, tell: Tell | None = None, only_scores: bool = False, export: bool = True
    ) -> dict[str, Scores] | None:
        """Write the best encoder, its posterior and the results; return the test scores.

        An interrupted training is not scored, but what there is can be used. With
        ``only_scores`` the posterior, the ONNX file and the floors are left out, for runs of which
        only the network's own scores are wanted. ``export=False`` leaves out the ONNX file alone.
        """
        encoder, validation = self._module.encoder, self._validation
        if validation.best_weights:
            encoder.load_state_dict(validation.best_weights)
        encoder.cpu().eval()
        write_whole(self.folder.model, lambda path: save_encoder(encoder, path))
        if not only_scores:
            self._write_posterior(encoder, tell)
        if export and not only_scores:
            self._write_onnx(encoder, tell)
        scores = None
        if not self._interrupted and len(self.images.indices("test")):
            queries = select_items(self.images, "test", encoder)
            scores = evaluate(
                encoder, queries, workers=self.config.workers or 0, seed=self.config.seed,
                name=self.config.method, floors=not only_scores, tell=tell,
            )  # fmt: skip
        self._write_results(scores)
        return scores

    def _fit(self, start: int) -> None:
        config = self.config
        if config.devices > 1 and "OMP_NUM_THREADS" not in os.environ:
            torch.set_num_threads(max(1, (os.cpu_count() or 1) // config.devices))
        torch.manual_seed(config.seed)
        items = TrainingImages(self.images, config.seed, bool(config.augment))
        world, rank = self._ranks()
        batches = KINDS[config.batches](
            items.labels, config.batch_size or 0, seed=config.seed, rank=rank, world=world
        )
        epoch = batches.batches_per_epoch
        limits = [config.max_steps, config.max_epochs and config.max_epochs * epoch]
        batches.steps = min(
            (limit for limit in limits if limit), default=max(EPOCHS_OF_THE_PAPER * epoch, LEAST_STEPS)
        )
        batches.start = start
        encoder = Encoder(self._info(), config.weights)
        with warnings.catch_warnings(record=True) as notes:
            warnings.simplefilter("always")
            module = EmbeddingModule(encoder, config, batches.steps)
        for note in notes if self.is_first else ():
            self.console.print(f"[yellow]Note:[/] {note.message}", highlight=False)
        bar = TrainingProgress(self.console if self.is_first else Console(quiet=True))
        every = max(epoch, LEAST_INTERVAL) if config.validate_every is None else config.validate_every
        validation = Validation(self.images, every, config.patience, self.folder, bar)
        log = StepLog(self.folder, epoch, validation, bar)
        interruption = Interruption(self.folder)
        trainer = self._trainer([validation, log, interruption], batches.steps)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                trainer.fit(
                    module,
                    make_loader(items, batches, config),
                    ckpt_path=self.folder.checkpoint if start else None,
                    weights_only=True,
                )
        except OSError as error:
            raise InputError(f"{self.folder.path} cannot be written: {error.strerror or error}") from None
        finally:
            bar.stop()
        self._module, self._validation = module, validation
        self._interrupted = interruption.asked and trainer.global_step < batches.steps
        self._steps, self._seconds = trainer.global_step, log.seconds

    def _ranks(self) -> tuple[int, int]:
        """Return how many processes train and which one this is, also before Lightning has started them."""
        world = int(os.environ.get("WORLD_SIZE", self.config.devices))
        return world, int(os.environ.get("RANK", os.environ.get("LOCAL_RANK", 0)))

    def _trainer(self, callbacks: list[Any], steps: int) -> Trainer:
        logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
        has_parameters = self.config.method in ("dws", "proxy-nca")
        world = self._ranks()[0]
        strategy = DDPStrategy(find_unused_parameters=has_parameters) if world > 1 else "auto"
        nodes = max(1, world // self.config.devices)
        return Trainer(
            accelerator="cuda" if torch.cuda.is_available() else "cpu",  # Apple's has no float64
            devices=self.config.devices,
            num_nodes=nodes,
            strategy=strategy,
            max_steps=steps,
            max_epochs=1,
            callbacks=callbacks,
            logger=TensorBoardLogger(self.folder.path, name="tensorboard", version=""),
            enable_progress_bar=False,
            enable_model_summary=False,
            enable_checkpointing=False,
            limit_val_batches=0,
            use_distributed_sampler=False,
        )

    def _info(self) -> EncoderInfo:
        config, images = self.config, self.images
        mean, deviation = pixel_statistics(images, images.indices("train"), config.workers or 0)
        return EncoderInfo(
            backbone=config.backbone,
            width=config.width,
            dim=config.dim,
            channels=images.channels,
            size=images.size,
            mean=mean,
            deviation=deviation,
            normalize=bool(config.normalize),
            classes=images.classes,
        )

    def _write_posterior(self, encoder: Encoder, tell: Tell | None) -> None:
        """Fit the posterior exactly, without memory, to the final network's training embeddings.

        How it is read to predict is fitted to the validation embeddings and written beside it.
        """
        from safetensors.torch import save_file

        classes = self.images.classes
        train, held_out = (self._embed(encoder, split, tell) for split in ("train", "val"))
        posterior = ClassPosterior(len(classes), self.config.dim, dtype=torch.float64)
        for start in range(0, len(train.labels), 4096):
            part = slice(start, start + 4096)
            posterior.update(torch.from_numpy(train.vectors[part]), torch.from_numpy(train.labels[part]))
        metadata = {"format": "1", "prior": posterior.prior, "classes": "\n".join(classes)}
        state = posterior.state_dict()
        tensors = {name: value for name, value in state.items() if not name.startswith("root.")}
        write_whole(self.folder.posterior, lambda path: save_file(tensors, path, metadata))
        write_predictive(self.folder.predictive, self.folder.model, posterior, classes, train, held_out)

    def _embed(self, encoder: Encoder, split: str, tell: Tell | None) -> Embedded:
        indices = self.images.indices(split)
        report = None if tell is None else (lambda done, total: tell("Fitting the posterior", done, total))
        vectors = embed(encoder, self.images, indices, self.config.workers or 0, report)
        return Embedded(vectors, self.images.labels[indices])

    def _write_onnx(self, encoder: Encoder, tell: Tell | None) -> None:
        """Write the encoder for searching; a training is worth keeping also where that cannot be done."""
        if tell is not None:
            tell("Exporting the encoder", 0, 0)
        fingerprint = fingerprint_of(self.folder.model)
        try:
            write_whole(self.folder.encoder, lambda path: export_onnx(encoder, fingerprint, path))
        except (InputError, MissingDependencyError) as error:
            self.folder.encoder.unlink(missing_ok=True)  # of an earlier network of this run
            self.console.print(f"[yellow]Warning:[/] {escape(str(error))}", highlight=False)

    def _write_results(self, scores: dict[str, Scores] | None) -> None:
        validation = self._validation
        self.folder.write_results(
            {
                "data": self.images.name,
                "classes": list(self.images.classes),
                "method": self.config.method,
                "seed": self.config.seed,
                "status": "interrupted" if self._interrupted else "finished",
                "steps": self._steps,
                "best_step": validation.best_step,
                "validation_recall@1": validation.best if validation.best >= 0 else None,
                "seconds": round(self._seconds, 1),
                "test": None if scores is None else to_json(scores),
                "versions": {
                    "python": platform.python_version(),
                    **{name: version(name) for name in PACKAGES},
                },
            }
        )
