"""What a training can be gone on with after it was stopped."""

import torch
from lightning.pytorch import Trainer

from bayestriplet.config import TrainConfig
from bayestriplet.errors import InputError, reason_of
from bayestriplet.runs.checksums import recorded, verify
from bayestriplet.runs.folder import RunFolder
from bayestriplet.training.module import CHECKPOINT_FORMAT


def save_checkpoint(trainer: Trainer, run: RunFolder) -> None:
    """Write the checkpoint completely or not at all; on every rank, though only the first writes."""
    if not trainer.is_global_zero:
        trainer.save_checkpoint(run.checkpoint)
        return
    try:
        with recorded(run.checkpoint) as partial:
            trainer.save_checkpoint(partial)
    except RuntimeError as error:  # torch's own for a full disk
        raise InputError(f"{run.checkpoint} cannot be written: {reason_of(error)}") from None


def check_resumable(run: RunFolder, before: TrainConfig, config: TrainConfig) -> int:
    """Return the step at which a run with the options ``before`` can go on with this very config.

    A run that was killed before its first checkpoint begins again. The checkpoint is read without
    ever running code of it.
    """
    different = [name for name in TrainConfig.model_fields if getattr(before, name) != getattr(config, name)]
    if different:
        name = different[0]
        raise InputError(
            f"--resume {run.path} goes on with the options of that run: "
            f"{name} was {getattr(before, name)!r}, now {getattr(config, name)!r}"
        )
    results = run.read_results() if run.results.is_file() else {"status": "running"}
    if results["status"] == "finished":
        raise InputError(f"{run.path} has finished its {results['steps']} steps: there is nothing to resume")
    if results["status"] == "diverged":
        raise InputError(f"{run.path} diverged: train again with another --out and a lower --lr")
    return read_step(run) if run.checkpoint.is_file() else 0


def read_step(run: RunFolder) -> int:
    """Return the step of a run's checkpoint."""
    verify(run.checkpoint)
    try:
        state = torch.load(run.checkpoint, map_location="cpu", weights_only=True)
        step, found = int(state["global_step"]), state.get("bayestriplet_format")
    except Exception as error:
        raise InputError(f"{run.checkpoint} cannot be read as a checkpoint: {reason_of(error)}") from None
    if found != CHECKPOINT_FORMAT:
        raise InputError(f"{run.checkpoint} has format {found!r}; this version reads {CHECKPOINT_FORMAT}")
    return step
