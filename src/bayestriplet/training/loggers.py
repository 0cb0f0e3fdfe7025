"""What Lightning logs to, beside metrics.csv."""

from pathlib import Path

from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger, WandbLogger

from bayestriplet.errors import InputError, MissingDependencyError


def make_logger(name: str, folder: Path) -> Logger:
    """Return the logger of a run: tensorboard, csv or wandb, with its files in the run's folder."""
    if name == "csv":
        return CSVLogger(folder, name="csv", version="")
    if name == "tensorboard":
        return TensorBoardLogger(folder, name="tensorboard", version="")
    try:
        logger = WandbLogger(name=folder.name, save_dir=folder, project="bayestriplet")
        logger.experiment  # noqa: B018 - begins the run now, not at the first step
    except ModuleNotFoundError as error:
        raise MissingDependencyError("--logger wandb needs wandb: pip install wandb") from error
    except Exception as error:  # wandb's own: no key, no network
        reason = str(error).splitlines()[0]
        raise InputError(f"--logger wandb: {reason}; WANDB_MODE=offline logs to the run's folder") from None
    return logger
