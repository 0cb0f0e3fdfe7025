"""A whole training run: from options to a folder with an evaluated encoder."""

import os
import shutil
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import nn

from bayestriplet.config import TrainConfig
from bayestriplet.data.audit import data_warnings
from bayestriplet.data.dataset import LabelledImages
from bayestriplet.data.depth import FULL
from bayestriplet.data.vectors import describe_vectors
from bayestriplet.errors import DataError, DivergenceError, InputError, ProcessError
from bayestriplet.evaluation.bootstrap import Scores
from bayestriplet.evaluation.evaluate import Vectors, embed_with, embedders, remember, select_items
from bayestriplet.evaluation.features import VIEWS, with_features
from bayestriplet.evaluation.galleries import Gallery, list_galleries, measure_galleries
from bayestriplet.evaluation.weights import find_weights
from bayestriplet.model.encoder import Encoder, HeadEncoder
from bayestriplet.model.onnx_file import split_output
from bayestriplet.model.principal import chosen_items, start_at_components
from bayestriplet.runs.checksums import record_as_it_is
from bayestriplet.runs.encoder_files import fingerprint
from bayestriplet.runs.folder import RunFolder, check_begun
from bayestriplet.runs.lock import alone
from bayestriplet.runs.splits import check_unchanged, write_splits
from bayestriplet.runs.unfreezing import refuse_trained_items
from bayestriplet.training.callbacks import StepLog, Validation
from bayestriplet.training.checkpoint import check_resumable
from bayestriplet.training.describing import describe_encoder
from bayestriplet.training.events import OnEvent, WarningEvent, as_progress, ignore
from bayestriplet.training.finishing import (
    Measured,
    Outcome,
    diverged,
    write_encoder,
    write_onnx,
    write_posterior,
)
from bayestriplet.training.loader import TrainingImages, explain, make_loader
from bayestriplet.training.module import EmbeddingModule
from bayestriplet.training.onnx_start import pixel_values, settle_onnx
from bayestriplet.training.plan import make_batches, open_images, ranks, resolve
from bayestriplet.training.processes import Conclude, training_together
from bayestriplet.training.stopping import Interruption
from bayestriplet.training.trainer import make_trainer
from bayestriplet.training.unfreezing import NOTE, unfreeze

PRETRAINED = (
    "images of 64 pixels or more: a linear head is trained on features of an EfficientNet-Lite0 that was "
    "trained on ImageNet; --from-scratch trains a ResNet-18 from nothing, --head mlp a larger head"
)
HEAD = "{}: a {} head is trained on them"


class TrainingRun:
    """One training in one folder: ``fit`` on every rank, then ``finish`` on the first."""

    whole: Encoder
    """The network that is trained, or whose head is."""
    outcome: Outcome
    """How the training ended, once it has."""

    def __init__(
        self, config: TrainConfig, out: Path, on_event: OnEvent = ignore, images: LabelledImages | None = None
    ) -> None:
        self.is_first = ranks(config)[1] == 0
        self.on_event: OnEvent = on_event if self.is_first else ignore
        self.progress = as_progress(self.on_event)
        self.folder = RunFolder(out)
        config, note = settle_onnx(config, self.folder.backbone)
        self.images = open_images(config, self.progress) if images is None else images
        self._check_data(config)
        self.config = resolve(config, self.images)
        if self.config.size is not None and self.images.paths is not None:
            self.images = replace(self.images, size=self.config.size)
        if self.config.freeze and not config.freeze:
            given = describe_vectors(self.images)
            text = HEAD.format(given, self.config.head) if given else PRETRAINED
            self.on_event(WarningEvent(text, is_note=True))
        if config.unfreeze_from is not None:
            refuse_trained_items(Path(config.unfreeze_from), config.data, self.images)
            note = NOTE.format(run=config.unfreeze_from, backbone=config.backbone)
        if note:
            self.on_event(WarningEvent(note, is_note=True))

    def _check_data(self, config: TrainConfig) -> None:
        """Refuse data that cannot be trained on, and warn about classes with little of it."""
        training, classes = self.images.indices("train"), len(self.images.classes)
        counts = np.bincount(self.images.labels[training], minlength=classes)
        if (counts > 0).sum() < 2:
            raise DataError(f"{config.data} has training items of {(counts > 0).sum()} classes; 2 are needed")
        if not len(self.images.indices("val")):
            self.on_event(WarningEvent("there are no validation items: the last network is kept"))
        for warning in data_warnings(self.images):
            self.on_event(WarningEvent(warning))
        channels = len(pixel_values(config)[0])
        if config.is_onnx and channels < self.images.channels:
            raise InputError(f"{config.data} is in colour, and {config.backbone} takes {channels} channel")
        if self.images.bits < FULL:
            text = f"16-bit files hold {self.images.bits} bits and are scaled by these"
            self.on_event(WarningEvent(text, is_note=True))

    def fit(self, resume: bool = False) -> None:
        """Train the network; what it takes to go on is in the run folder after every validation.

        A folder in which nothing was trained yet disappears with an error; from the first step on it stays.
        """
        if not resume and self.is_first:
            RunFolder.create(self.folder.path)
        self._fit_alone(resume)

    @alone
    def _fit_alone(self, resume: bool) -> None:
        start = self.check_resume() if resume else 0
        if self.is_first and not self.folder.splits.is_file():
            self.folder.write_config(self.config)
            write_splits(self.folder, self.images)
        interruption = Interruption(self.folder)

        def conclude(error: BaseException) -> BaseException:
            if self.is_first and not resume and not interruption.has_stepped:
                shutil.rmtree(self.folder.path, ignore_errors=True)
                return error
            return self._keep(error)

        try:
            self._fit(start, interruption, conclude)
        except BaseException as error:
            raise conclude(error) from None
        finally:
            interruption.restore()
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()

    def check_resume(self) -> int:
        """Return the step at which the run in the folder can go on, or say why it cannot."""
        check_begun(self.folder.path)
        before = resolve(self.folder.read_config(), self.images)
        step = check_resumable(self.folder, before, self.config)
        if not self.folder.splits.is_file():  # killed as it began
            return 0
        check_unchanged(self.folder, self.images)
        return step

    def _keep(self, error: BaseException) -> BaseException:
        """Say what is there of a training that ended with an error; one that broke down is written down."""
        if isinstance(error, ProcessError):
            return ProcessError(f"{error}: go on with bayestriplet train --resume {self.folder.path}")
        if not isinstance(error, DivergenceError):
            return error
        if self.is_first:
            self.folder.write_results(diverged(self.config, str(error)))
        return DivergenceError(f"{error}; what was measured until then is in {self.folder.metrics}")

    @alone
    def finish(
        self, only_scores: bool = False, export: bool = True, measure: bool = True
    ) -> dict[str, Scores] | None:
        """Write the best encoder, its posterior and the results; return the test scores.

        An interrupted training is not scored, but what there is can be used. With
        ``only_scores`` the posterior, the ONNX file and the floors are left out, for runs of which
        only the network's own scores are wanted. ``export=False`` leaves out the ONNX file alone,
        ``measure=False`` the test items.
        """
        encoder, config = self.outcome.best_encoder(), self.config
        vectors = remember(embed_with(encoder, config.workers or 0, self.progress))
        write_encoder(self.folder, self.whole)
        if not only_scores:
            digest = fingerprint(self.whole.info, self.whole.arrays())
            write_posterior(self.folder, self.images, digest, vectors, self.progress)
        if export and not only_scores:
            write_onnx(self.folder, self.whole, self.on_event)
        found = None
        if measure and not self.outcome.stopped_by and len(self.images.indices("test")):
            found = self._measure(encoder, vectors, only_scores)
        record_as_it_is(self.folder.metrics)
        self.folder.write_results(self.outcome.results(config, self.images, found, measure))
        return None if found is None else found.first.rows

    def _measure(self, encoder: Encoder | HeadEncoder, vectors: Vectors, only_scores: bool) -> Measured:
        """Measure the test items among themselves and, unless ``only_scores``, in the other galleries."""
        config, images = self.config, self.images
        queries, training = (select_items(images, split, encoder) for split in ("test", "train"))
        galleries, notes = list_galleries(queries, training=training)
        if only_scores:
            galleries, notes = [Gallery(queries)], []
        rows = embedders(
            encoder, workers=config.workers or 0, seed=config.seed, name=config.method,
            floors=not only_scores, weights=config.weights, begun=config.unfreeze_from,
            progress=self.progress,
        )  # fmt: skip
        rows[config.method] = vectors
        trained = np.unique(training.labels)
        first, *others = measure_galleries(rows, galleries, trained, config.seed, self.progress)
        return Measured(first, others, notes)

    def _fit(self, start: int, interruption: Interruption, conclude: Conclude) -> None:
        config, images = self.config, self.images
        if config.devices > 1 and "OMP_NUM_THREADS" not in os.environ:
            torch.set_num_threads(max(1, (os.cpu_count() or 1) // config.devices))
        torch.manual_seed(config.seed)
        batches = make_batches(config, images)
        batches.start = start
        encoder = self._encoder()
        images = self.images  # of a frozen network, its features
        items = TrainingImages(images, config.seed, bool(config.augment))
        module = self._module(encoder, len(items.classes))
        validation = Validation(images, config.validate_every or 0, config.patience, self.on_event)
        log = StepLog(self.folder, batches.batches_per_epoch, validation, self.on_event)
        trainer = make_trainer(config, self.folder, [validation, log, interruption])
        try:
            with training_together(trainer, conclude), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ckpt_path = self.folder.checkpoint if start else None
                loader = make_loader(items, batches, config)
                trainer.fit(module, loader, ckpt_path=ckpt_path, weights_only=True)
        except (OSError, RuntimeError) as error:
            raise explain(error, self.folder.path) from None
        stopped_by = interruption.asked if trainer.global_step < module.steps else 0
        self.outcome = Outcome(module.encoder, validation, trainer.global_step, log.seconds, stopped_by)

    def _encoder(self) -> Encoder | HeadEncoder:
        """Return what is trained: the network, or the head of a frozen one, whose features are computed."""
        config = self.config
        if config.unfreeze_from is not None:
            self.whole = unfreeze(config, self.images)
            return self.whole
        self.whole = Encoder(describe_encoder(config, self.images, self.on_event), self._find_weights())
        if not config.freeze:
            return self.whole
        views = VIEWS if config.augment else 1
        images = self.images.as_images()
        self.images = with_features(self.whole, images, views, config.workers or 0, self.progress)
        if isinstance(self.whole.head, nn.Linear):
            self._start_head(self.whole.head)
        return HeadEncoder(self.whole)

    def _start_head(self, head: nn.Linear) -> None:
        """Let a linear head begin at the principal components of the training features."""
        training = self.images.indices("train")
        chosen = training[chosen_items(len(training), head.in_features)]
        start_at_components(head, self.images.read(chosen))

    def _find_weights(self) -> str | None:
        if not self.config.is_onnx:
            return find_weights(self.config.backbone or "", self.config.weights, self.progress)
        kept = self.folder.backbone
        return str(kept if kept.is_file() else split_output(self.config.backbone or "")[0])

    def _module(self, encoder: Encoder | HeadEncoder, num_classes: int) -> EmbeddingModule:
        """Return the module; what a criterion has to say becomes a note."""
        with warnings.catch_warnings(record=True) as notes:
            warnings.simplefilter("always")
            module = EmbeddingModule(encoder, self.config, self.config.max_steps or 0, num_classes)
        for note in notes:
            self.on_event(WarningEvent(str(note.message), is_note=True))
        return module
