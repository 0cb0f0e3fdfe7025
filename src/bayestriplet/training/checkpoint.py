"""Going on with a training that was stopped."""

import torch

from bayestriplet.config import TrainConfig
from bayestriplet.errors import InputError, reason_of
from bayestriplet.evaluation.run_folder import RunFolder
from bayestriplet.training.module import CHECKPOINT_FORMAT


def check_resumable(run: RunFolder, config: TrainConfig) -> int:
    """Return the step at which a run with this very config can go on.

    The checkpoint is read without ever running code of it.
    """
    if not run.checkpoint.is_file():
        raise InputError(
            f"{run.path} has no {run.checkpoint.name} to resume from: start anew with another --out"
        )
    before = run.read_config()
    different = [name for name in TrainConfig.model_fields if getattr(before, name) != getattr(config, name)]
    if different:
        name = different[0]
        raise InputError(
            f"--resume {run.path} goes on with the options of that run: "
            f"{name} was {getattr(before, name)!r}, now {getattr(config, name)!r}"
        )
    if run.results.is_file() and run.read_results()["status"] == "finished":
        steps = run.read_results()["steps"]
        raise InputError(f"{run.path} has finished its {steps} steps: there is nothing to resume")
    try:
        state = torch.load(run.checkpoint, map_location="cpu", weights_only=True)
        step, found = int(state["global_step"]), state.get("bayestriplet_format")
    except Exception as error:
        raise InputError(f"{run.checkpoint} cannot be read as a checkpoint: {reason_of(error)}") from None
    if found != CHECKPOINT_FORMAT:
        raise InputError(f"{run.checkpoint} has format {found!r}; this version reads {CHECKPOINT_FORMAT}")
    return step
