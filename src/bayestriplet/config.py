"""The options of a training run: one model for the command line, TOML files and the run folder."""

import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bayestriplet.checks import nearest
from bayestriplet.errors import InputError

Method = Literal["but", "bunca", "ba", "bsh", "bh", "ep", "dws", "nca", "proxy-nca"]
WIDTHS = (0.25, 0.5, 1.0)
WITH_MARGIN = ("but", "ba", "bsh", "bh", "dws")
LEARNING_LOSS = ("proxy-nca", "dws")  # whose losses have parameters of their own: proxies, boundaries
ITEMS_OF_THE_PAPER = 5
EPOCHS_OF_THE_PAPER = 50
LEAST_STEPS = 500  # of a training without limits, however few its images
LEAST_INTERVAL = 50  # steps between validations, unless told


class TrainConfig(BaseModel):
    """Everything that decides a training run. None stands for the recipe's or the data's own value."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    data: str = Field(
        description="mnist, digits, pathmnist:FILE.npz, crc:FOLDER, a folder, or a CSV manifest."
    )
    method: Method = Field("but", description="How triplets are found and compared.")
    recipe: Literal["default", "paper"] = Field("default", description="Values of all options not given.")
    per_class: int | None = Field(
        None, ge=1, description="Few labels: train on at most this many items a class."
    )
    imbalance: float | None = Field(
        None,
        ge=1,
        description="Long tail: keep 1/R of the training items of the last class, all of the first.",
    )
    label_noise: float = Field(0.0, ge=0, lt=1, description="Share of training items given a wrong label.")
    without: str | None = Field(
        None,
        min_length=1,
        description="Classes held out of training, comma-separated; their test items are the novel ones.",
    )
    batches: Literal["balanced", "random", "one-per-class", "sequential"] = Field(
        "balanced", description="How batches are put together: balanced, random, one-per-class or sequential."
    )
    size: int | None = Field(None, ge=8, le=1024, description="Side of the images in pixels.")
    skip_bad: bool = Field(False, description="Leave out image files that cannot be read.")
    backbone: str = Field("resnet18", description="resnet18, resnet34, resnet50, or package:factory.")
    width: float = Field(1.0, description="Share of the channels of a ResNet: 0.25, 0.5 or 1.")
    weights: str | None = Field(
        None, description="Official ImageNet weights of the backbone, .pth or .safetensors."
    )
    dim: int = Field(128, ge=1, le=4096, description="Length of an embedding.")
    normalize: bool | None = Field(None, description="Put embeddings on the unit sphere.")
    margin: float | None = Field(
        None, ge=0, description="Of but, ba, bsh, bh and dws; 0 is the soft margin of bh."
    )
    temperature: float | None = Field(None, gt=0, description="Of bunca, ep, nca and proxy-nca.")
    num_negatives: int | None = Field(
        None,
        ge=1,
        description="Other classes an anchor of but or bunca meets; all up to 100, else the 32 nearest.",
    )
    augment: bool | None = Field(None, description="Vary the training images.")
    batch_size: int | None = Field(
        None, ge=2, description="Items a batch; rounded up to the same number a class."
    )
    lr: float | None = Field(None, gt=0, description="Learning rate of Adam.")
    loss_rate: float | None = Field(
        None,
        gt=0,
        description="Of proxy-nca and dws: how many times faster their loss learns.",
    )
    max_epochs: int | None = Field(
        None,
        ge=1,
        description="Passes over the training images, at most; 50, but 500 steps, if neither limit is given.",
    )
    max_steps: int | None = Field(None, ge=1, description="Batches, at most.")
    validate_every: int | None = Field(
        None, ge=0, description="Steps between validations; an epoch, but 50 steps, if not given; 0: never."
    )
    patience: int = Field(
        10, ge=0, description="Stop after this many validations without progress; 0: never."
    )
    seed: int = Field(0, ge=0, lt=2**63, description="Of the splits, the network, the batches and the draws.")
    workers: int | None = Field(None, ge=0, description="Processes that decode images.")
    devices: int = Field(1, ge=1, description="Processes that train, or GPUs.")

    def resolved(self, num_classes: int) -> "TrainConfig":
        """Return a copy in which the recipe's and the data's own values are filled in."""
        paper = self.recipe == "paper"
        values = {
            "normalize": not paper,
            "margin": (0.25 if self.method == "but" or paper else 0.2)
            if self.method in WITH_MARGIN
            else None,
            "temperature": None if self.method in WITH_MARGIN else self._temperature(),
            "augment": not paper,
            "batch_size": ITEMS_OF_THE_PAPER * num_classes if paper else 50,
            "lr": 1e-5 if paper else 5e-3,
            "loss_rate": 1.0 if self.method in LEARNING_LOSS else None,
            "num_negatives": 32 if num_classes > 100 and self.method in ("but", "bunca") else None,
            "max_epochs": EPOCHS_OF_THE_PAPER if paper and self.max_steps is None else None,
        }
        return self.model_copy(update={k: v for k, v in values.items() if getattr(self, k) is None})

    def _temperature(self) -> float:
        if self.recipe == "paper":
            return 1.0
        return 0.3 if self.method == "bunca" else 0.1


def make_config(values: dict[str, Any], source: str) -> TrainConfig:
    """Return a checked config, or raise one line that says what was wrong in ``source``."""
    for key in values:
        if key not in TrainConfig.model_fields:
            raise InputError(f"{source}: unknown option {key!r}{nearest(key, TrainConfig.model_fields)}")
    try:
        config = TrainConfig.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        key, got = ".".join(map(str, first["loc"])), first["input"]
        if first["type"] == "missing":
            raise InputError(f"{source}: {key} is missing: name the data to train on") from None
        raise InputError(f"{source}: {key}: {first['msg'].lower()}; got {got!r}") from None
    if config.width not in WIDTHS:
        raise InputError(f"{source}: width must be one of 0.25, 0.5 and 1; got {config.width:g}")
    if config.margin is not None and config.method not in WITH_MARGIN:
        raise InputError(f"{source}: {config.method} has no margin; it takes a temperature")
    if config.margin == 0 and config.method != "bh":
        raise InputError(f"{source}: margin must be above 0; only bh takes 0, its soft margin")
    if config.num_negatives is not None and config.method not in ("but", "bunca"):
        raise InputError(f"{source}: {config.method} has no num_negatives; only but and bunca draw them")
    if config.loss_rate is not None and config.method not in LEARNING_LOSS:
        raise InputError(f"{source}: {config.method} has no loss_rate; only proxy-nca and dws learn a loss")
    if config.temperature is not None and config.method in WITH_MARGIN:
        raise InputError(f"{source}: {config.method} has no temperature; it takes a margin")
    return config


def read_toml(path: Path) -> dict[str, Any]:
    """Return the values of a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path}: cannot be read as TOML: {error}") from None


def write_toml(config: TrainConfig, path: Path) -> None:
    """Write every option that has a value; None has no spelling in TOML and means the default anyway."""
    import tomli_w

    values = {key: value for key, value in config.model_dump().items() if value is not None}
    path.write_text(tomli_w.dumps(values), encoding="utf-8")
