"""What happens around the steps: validation with early stopping, the log, and warnings."""

import math
import time
from typing import Any

import numpy as np
from lightning.pytorch import Callback, Trainer
from torch import Tensor

from bayestriplet.data.dataset import LabelledImages
from bayestriplet.errors import DivergenceError
from bayestriplet.evaluation.embeddings import embed
from bayestriplet.evaluation.metrics import recall_at_k
from bayestriplet.runs.folder import RunFolder
from bayestriplet.runs.metrics import append_metrics, begin_metrics
from bayestriplet.training.checkpoint import save_checkpoint
from bayestriplet.training.events import OnEvent, StepEvent, ValidationEvent, WarningEvent, as_progress
from bayestriplet.training.module import EmbeddingModule

LOG_EVERY = 20
IDLE_STEPS = 200


class Validation(Callback):
    """Recall@1 on the validation split every so many steps; keeps the best encoder and stops in time.

    With ``every`` 0 nothing is validated, and the last encoder is kept.

    The criterion is not called, so the posterior never sees a validation item.
    """

    def __init__(self, images: LabelledImages, every: int, patience: int, on_event: OnEvent) -> None:
        self.images, self.every, self.patience = images, every, patience
        self.on_event = on_event
        self.indices = images.indices("val")
        self.recall, self.best, self.best_step, self.waited = float("nan"), -1.0, 0, 0
        self.best_weights: dict[str, Tensor] = {}

    def on_train_start(self, trainer: Trainer, module: EmbeddingModule) -> None:  # type: ignore[override]
        del module
        trainer.should_stop = self.has_waited()  # killed between its last step and its end

    def on_train_batch_end(self, trainer: Trainer, module: EmbeddingModule, *_: Any) -> None:  # type: ignore[override]
        step = trainer.global_step
        if self.is_due(step, module.steps):
            self.validate(trainer, module)
            if self.has_waited():
                trainer.should_stop = True

    def is_due(self, step: int, last: int) -> bool:
        """Whether a step ends with a validation, or the training with it."""
        return step == last or (self.every > 0 and step % self.every == 0)

    def has_waited(self) -> bool:
        """Whether so many validations were without progress that training is to stop."""
        return self.patience > 0 and self.waited >= self.patience

    def validate(self, trainer: Trainer, module: EmbeddingModule) -> None:
        """Measure the current network and keep it if it is the best so far."""
        step = trainer.global_step
        if not len(self.indices) or not self.every:
            self.best_step = step
            return
        progress = as_progress(self.on_event)
        vectors = embed(
            module.encoder, self.images, self.indices, module.config.workers or 0, progress, "Validating"
        )
        if not np.isfinite(vectors).all():
            raise DivergenceError(f"embeddings are not finite at step {step}: try a lower --lr")
        self.recall = recall_at_k(vectors, self.images.labels[self.indices], (1,))[1]
        # Ranks keep batch statistics of their own: all of them go by the first one's figure.
        self.recall = float(trainer.strategy.broadcast(self.recall))
        if np.linalg.norm(vectors.std(0)) < 1e-3 * np.linalg.norm(vectors, axis=1).mean():
            text = f"step {step}: all embeddings are nearly alike (collapse): try a lower --lr"
            self.on_event(WarningEvent(text))
        self.waited = 0 if self.recall > self.best else self.waited + 1
        if self.recall >= self.best:  # of equal ones, the network that was trained for longer
            self.best, self.best_step = self.recall, step
            self.best_weights = {k: v.detach().cpu().clone() for k, v in module.encoder.state_dict().items()}
        self.on_event(ValidationEvent(step, self.recall))

    def state_dict(self) -> dict[str, Any]:
        names = ("recall", "best", "best_step", "waited", "best_weights")
        return {name: getattr(self, name) for name in names}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for name, value in state_dict.items():
            setattr(self, name, value)


class StepLog(Callback):
    """Appends rows to metrics.csv and the logger, reports every step, and saves what was validated."""

    def __init__(self, run: RunFolder, per_epoch: int, validation: Validation, on_event: OnEvent) -> None:
        self.run, self.per_epoch, self.validation, self.on_event = run, per_epoch, validation, on_event
        self.seconds, self.since = 0.0, 0.0
        self.idle, self.warned = 0, False  # the last step that is known to have had an active triplet
        self.active: float | None = None

    def on_train_start(self, trainer: Trainer, module: EmbeddingModule) -> None:  # type: ignore[override]
        del module
        self.since = time.perf_counter() - self.seconds
        if trainer.is_global_zero:
            begin_metrics(self.run.metrics, trainer.global_step)

    def on_train_batch_end(self, trainer: Trainer, module: EmbeddingModule, *_: Any) -> None:  # type: ignore[override]
        step = trainer.global_step
        self.seconds = time.perf_counter() - self.since
        self.on_event(StepEvent(step, module.steps, module.train_loss, self.active))
        validated = self.validation.is_due(step, module.steps)
        if step % LOG_EVERY and not validated:
            return
        self.active = module.active_share()
        self._warn_when_idle(step)
        if trainer.is_global_zero:
            self._write(trainer, module, step, validated)
        if validated:  # after the row: a run that goes on drops rows behind its checkpoint, and misses none
            save_checkpoint(trainer, self.run)

    def _write(self, trainer: Trainer, module: EmbeddingModule, step: int, validated: bool) -> None:
        recall = self.validation.recall if validated and not math.isnan(self.validation.recall) else None
        values = {
            "loss": module.train_loss,
            "active": self.active,
            "lr": trainer.optimizers[0].param_groups[0]["lr"],
            "recall@1": recall,
        }
        row = [step, f"{step / self.per_epoch:.4f}", *values.values(), f"{self.seconds:.2f}"]
        append_metrics(self.run.metrics, row)
        for logger in trainer.loggers:
            logger.log_metrics({name: value for name, value in values.items() if value is not None}, step)

    def _warn_when_idle(self, step: int) -> None:
        if self.active != 0:
            self.idle, self.warned = step, False
        if step - self.idle >= IDLE_STEPS and not self.warned:
            self.warned = True
            text = f"step {step}: no triplet was active for {IDLE_STEPS} steps: raise --margin"
            self.on_event(WarningEvent(text))

    def state_dict(self) -> dict[str, Any]:
        return {"seconds": self.seconds, "idle": self.idle}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.seconds, self.idle = state_dict["seconds"], state_dict["idle"]
