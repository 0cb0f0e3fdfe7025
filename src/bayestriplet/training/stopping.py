"""Stopping in good order: on Ctrl-C, SIGTERM and SIGHUP, with everything saved."""

import signal
import threading
import time
from types import FrameType
from typing import Any

import torch
from lightning.pytorch import Callback, Trainer

from bayestriplet.runs.folder import RunFolder
from bayestriplet.training.checkpoint import save_checkpoint
from bayestriplet.training.module import EmbeddingModule

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
FIRST_CHECKPOINT = 60.0  # seconds after which a training can be gone on with, however long its epochs are


class Interruption(Callback):
    """A signal stops after the current step with everything saved; a second one stops at once.

    Handlers are set when training starts, after Lightning's own, and :meth:`restore` gives back those
    that were there before, however training ends.
    """

    def __init__(self, run: RunFolder) -> None:
        self.run = run
        self.asked = 0
        """Number of the signal that asked for a stop; 0 for none."""
        self.has_stepped = False
        self.since = 0.0
        self.before: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():  # others cannot handle signals
            self.before = {number: signal.getsignal(number) for number in SIGNALS}

    def on_train_start(self, trainer: Trainer, module: EmbeddingModule) -> None:  # type: ignore[override]
        del trainer, module
        self.since = time.monotonic()
        for number in self.before:
            signal.signal(number, self._ask)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.asked = number
        self.restore()

    def restore(self) -> None:
        """Set the handlers that were there before."""
        for number, handler in self.before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def on_after_backward(self, trainer: Trainer, module: EmbeddingModule) -> None:  # type: ignore[override]
        del trainer, module
        self.has_stepped = True  # before a validation of the very first step may fail

    def on_train_batch_end(self, trainer: Trainer, module: EmbeddingModule, *_: Any) -> None:  # type: ignore[override]
        is_early = not self.run.checkpoint.exists() and time.monotonic() - self.since > FIRST_CHECKPOINT
        asked, early = float(self.asked), float(is_early)
        if trainer.world_size > 1:
            wanted = torch.tensor([asked, early], device=module.device)
            asked, early = trainer.strategy.reduce(wanted, reduce_op="max").tolist()
        if asked and trainer.global_step < module.steps:
            self.asked = int(asked)
            save_checkpoint(trainer, self.run)
            trainer.should_stop = True
        elif early:
            save_checkpoint(trainer, self.run)
