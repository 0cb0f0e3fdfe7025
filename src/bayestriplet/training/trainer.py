"""Lightning's trainer for the steps of a run, on one process or several."""

import logging
from datetime import timedelta

import torch
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.strategies import DDPStrategy

from bayestriplet.config import TrainConfig
from bayestriplet.methods import METHODS
from bayestriplet.runs.folder import RunFolder
from bayestriplet.training.loggers import make_logger
from bayestriplet.training.plan import ranks

WAIT = timedelta(minutes=30)  # for the others in one exchange: they may have more to validate or to write


def make_trainer(config: TrainConfig, run: RunFolder, callbacks: list[Callback]) -> Trainer:
    """Return the trainer of a resolved config.

    Buffers are not sent between ranks. The posterior, the largest, is equal on all ranks by itself. The batch
    statistics of the network are each rank's own; the first rank's are validated and become the run's.
    """
    for part in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(part).setLevel(logging.ERROR)
    world, _ = ranks(config)
    has_parameters = bool(METHODS[config.method].learned)
    ddp = DDPStrategy(find_unused_parameters=has_parameters, broadcast_buffers=False, timeout=WAIT)
    return Trainer(
        accelerator="cuda" if torch.cuda.is_available() else "cpu",  # Apple's has no float64
        devices=config.devices,
        num_nodes=max(1, world // config.devices),
        strategy=ddp if world > 1 else "auto",
        max_steps=config.max_steps or 0,
        max_epochs=1,
        callbacks=callbacks,
        logger=make_logger(config.logger, run.path),
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        limit_val_batches=0,
        use_distributed_sampler=False,
    )
