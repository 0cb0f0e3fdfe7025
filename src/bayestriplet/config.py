"""The options of a training run: one model for the command line, TOML files and the run folder."""

import math
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from bayestriplet.checks import VECTORS, check_split_by, is_vectors, nearest
from bayestriplet.errors import InputError
from bayestriplet.methods import DRAW_CLASSES, GONE, LOSS_RATE, METHODS, RATE, having, listed

WIDTHS = (0.25, 0.5, 1.0)
ITEMS_OF_THE_PAPER = 5
EPOCHS_OF_THE_PAPER = 50
LEAST_STEPS = 500  # of a training without limits, however few its images
BATCH_SIZE = 50
RATE_OF_THE_PAPER = 1e-5
RATE_UNFROZEN = 5e-4  # of a head that is trained already; its backbone learns at a tenth of it
MOST, MOST_STEPS = 1_000_000, 1_000_000_000  # of numbers that have no closer bound
LEAST_INTERVAL = 50  # steps between validations by default


class TrainConfig(BaseModel):
    """Everything that decides a training run. None stands for the recipe's or the data's own value."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    data: str = Field(
        description="mnist, digits, pathmnist:FILE.npz, crc:FOLDER, omniglot:FOLDER, cub:FOLDER, "
        "vectors:FILE, a folder, or a CSV manifest."
    )
    method: str = Field("bunca", description="How triplets are found and compared.")
    recipe: Literal["default", "paper"] = Field(
        "default", description="Values of all options not given: default, or paper as published."
    )
    split_by: str | None = Field(
        None,
        description="What is never in two splits: item, group, class, or class:FILE.csv, "
        "which names the split of every class.",
    )
    per_class: int | None = Field(
        None, ge=1, le=MOST, description="Few labels: train on at most this many items per class."
    )
    imbalance: float | None = Field(
        None, ge=1, le=MOST,
        description="Long tail: keep 1/R of the training items of the last class, all of the first.",
    )  # fmt: skip
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
    follow_links: bool = Field(False, description="Follow links that lead out of a folder of images.")
    backbone: str | None = Field(
        None,
        description="resnet18, resnet34, resnet50, efficientnet-lite0, onnx:FILE, or package:factory. "
        "Default: efficientnet-lite0 for image files of 64 pixels or more, else resnet18.",
    )
    backbone_sha256: str | None = Field(
        None, pattern="^[0-9a-f]{64}$", description="Of onnx:FILE: the SHA-256 that it must have."
    )
    input_mean: str | None = Field(
        None, description="Of onnx:FILE: subtracted from pixels; a number, or one per channel with commas."
    )
    input_deviation: str | None = Field(
        None, description="Of onnx:FILE: what pixels are divided by then; a number, or one per channel."
    )
    input_range: int | None = Field(
        None, description="Of onnx:FILE: the pixels' highest value before that, 1 or 255. Default: 1."
    )
    width: float = Field(1.0, description="Share of the channels of a ResNet: 0.25, 0.5 or 1.")
    weights: str | None = Field(
        None, description="imagenet, which is fetched once, or a .pth or .safetensors file of the backbone."
    )
    freeze: bool = Field(False, description="Train a head alone, on features that are computed once.")
    head: Literal["linear", "mlp"] | None = Field(
        None, description="Of a frozen backbone, or on vectors: linear or mlp. Default: linear."
    )
    unfreeze_from: str | None = Field(
        None, description="Go on from this run, whose network was frozen, and train the whole network."
    )
    from_scratch: bool = Field(False, description="Begin with an untrained network, whatever the images.")
    dim: int = Field(128, ge=1, le=4096, description="Length of an embedding.")
    normalize: bool | None = Field(None, description="Put embeddings on the unit sphere.")
    margin: float | None = Field(
        None, ge=0, le=MOST, description=f"Of {listed(having('margin'))}; 0 is the soft margin of bh."
    )
    temperature: float | None = Field(None, gt=0, le=MOST, description=f"Of {listed(having('temperature'))}.")
    draw_classes: int | None = Field(
        None,
        ge=2,
        le=MOST,
        description=f"Of {listed(having('draw_classes'))}: classes that a step draws from at most, "
        f"the batch's and the nearest to them. Default: {DRAW_CLASSES}.",
    )
    augment: bool | None = Field(None, description="Vary the training images.")
    batch_size: int | None = Field(
        None, ge=2, le=MOST, description="Items per batch; rounded up to the same number per class."
    )
    lr: float | None = Field(None, gt=0, description="Learning rate of Adam.")
    loss_rate: float | None = Field(
        None, gt=0, le=MOST,
        description=f"Of {listed(having('loss_rate'))}: how many times faster their loss learns.",
    )  # fmt: skip
    max_epochs: int | None = Field(
        None,
        ge=1,
        le=MOST,
        description=f"Passes over the training images, at most. Default: {EPOCHS_OF_THE_PAPER}, and at least "
        f"{LEAST_STEPS} steps.",
    )
    max_steps: int | None = Field(None, ge=1, le=MOST_STEPS, description="Batches, at most.")
    validate_every: int | None = Field(
        None,
        ge=0,
        le=MOST_STEPS,
        description=f"Steps between validations; 0: never. Default: an epoch, and at least {LEAST_INTERVAL}.",
    )
    patience: int = Field(
        10, ge=0, le=MOST_STEPS, description="Stop after this many validations without progress; 0: never."
    )
    seed: int = Field(0, ge=0, lt=2**63, description="Of the splits, the network, the batches and the draws.")
    workers: int | None = Field(None, ge=0, le=256, description="Processes that decode images.")
    devices: int = Field(1, ge=1, le=256, description="Processes that train, or GPUs.")
    logger: Literal["tensorboard", "csv", "wandb"] = Field(
        "tensorboard", description="What Lightning logs to beside metrics.csv: tensorboard, csv or wandb."
    )

    @model_validator(mode="after")
    def _check_start(self) -> "TrainConfig":
        """Refuse ways to begin that contradict each other."""
        if is_vectors(self.data):
            self._check_vectors()
        elif self.backbone == VECTORS:
            raise ValueError(f"backbone {VECTORS} is for vectors:FILE; {self.data} is no such data")
        self._check_onnx()
        if self.unfreeze_from is not None and (self.freeze or self.from_scratch or self.weights is not None):
            raise ValueError("unfreeze_from takes a run's network: give no freeze, from_scratch or weights")
        if self.freeze and self.is_code:
            raise ValueError("freeze is for the backbones known by name, not for one of your own")
        if self.freeze and self.width != 1 and not self.from_scratch:
            raise ValueError("freeze needs the whole width: there are no weights of narrower networks")
        return self

    def _check_vectors(self) -> None:
        """Refuse what only networks that see images have; a config.toml of such a run names its backbone."""
        given = {
            "backbone": self.backbone not in (None, VECTORS), "weights": self.weights is not None,
            "from_scratch": self.from_scratch, "freeze": self.freeze and self.backbone is None,
            "width": self.width != 1, "size": self.size is not None, "augment": bool(self.augment),
            "skip_bad": self.skip_bad,
        }  # fmt: skip
        for name, is_given in given.items():
            if is_given:
                raise ValueError(f"{name} is for images, and {self.data} holds vectors: leave it out")

    @property
    def is_onnx(self) -> bool:
        """Whether the backbone is an ONNX file."""
        return self.backbone is not None and self.backbone.startswith("onnx:")

    @property
    def is_code(self) -> bool:
        """Whether the backbone is a factory of the user's, package:factory."""
        return self.backbone is not None and ":" in self.backbone and not self.is_onnx

    def _check_onnx(self) -> None:
        inputs = ("backbone_sha256", "input_mean", "input_deviation", "input_range")
        if not self.is_onnx:
            for name in inputs:
                if getattr(self, name) is not None:
                    raise ValueError(f"{name} is for a backbone from an ONNX file: onnx:FILE")
            return
        if self.weights is not None or self.from_scratch or self.width != 1:
            raise ValueError("an ONNX file has its weights: give no weights, from_scratch or width with it")
        if (self.input_mean is None) != (self.input_deviation is None):
            raise ValueError("input_mean and input_deviation belong together: give both or neither")
        if self.input_range not in (None, 1, 255):
            raise ValueError(f"input_range must be 1 or 255; got {self.input_range}")
        if self.input_deviation is not None and min(map(float, self.input_deviation.split(","))) <= 0:
            raise ValueError(f"input_deviation must be above 0; got {self.input_deviation}")
        if self.input_range is not None and self.input_mean is None:
            raise ValueError("input_range says what input_mean and input_deviation refer to: give these too")

    @field_validator("input_mean", "input_deviation", mode="before")
    @classmethod
    def _check_pixel_values(cls, value: Any) -> Any:
        """Return numbers, however they are given, as text with commas."""
        parts = value.split(",") if isinstance(value, str) else value
        try:
            return value if value is None else ",".join(map(str, to_numbers(parts)))
        except (TypeError, ValueError):
            raise ValueError(f"pixel values must be one number or three with commas; got {value!r}") from None

    @field_validator("method")
    @classmethod
    def _check_method(cls, value: str) -> str:
        if value not in METHODS:
            raise ValueError(
                f"there is no method {value!r}{nearest(value, METHODS)}; known: {', '.join(METHODS)}"
            )
        return value

    @field_validator("split_by")
    @classmethod
    def _check_split_by(cls, value: str | None) -> str | None:
        """Make the path of class:FILE absolute, so that it means the same from any folder."""
        if value is None:
            return None
        kind, file = check_split_by(value)
        return kind if file is None else f"{kind}:{file}"

    @field_validator("width")
    @classmethod
    def _check_width(cls, value: float) -> float:
        if value not in WIDTHS:
            raise ValueError(f"width must be one of 0.25, 0.5 and 1; got {value:g}")
        return value

    @model_validator(mode="after")
    def _check_own_options(self) -> "TrainConfig":
        """Refuse options that the method does not have."""
        method = METHODS[self.method]
        for name, reason in (
            ("margin", f"it takes a {method.strength}"),
            ("temperature", f"it takes a {method.strength}"),
            ("draw_classes", f"only {listed(having('draw_classes'))} draw"),
            ("loss_rate", f"only {listed(having('loss_rate'))} learn a loss"),
        ):
            if getattr(self, name) is not None and not method.has(name):
                raise ValueError(f"{self.method} has no {name}; {reason}")
        if self.normalize is False and method.on_sphere:
            raise ValueError(f"{self.method} has its points on the unit sphere: leave out --no-normalize")
        if self.margin == 0 and not method.soft_margin:
            soft = listed([name for name, one in METHODS.items() if one.soft_margin])
            raise ValueError(f"margin must be above 0; only {soft} takes 0, its soft margin")
        return self

    def resolved(self, num_classes: int) -> "TrainConfig":
        """Return a copy in which the recipe's and the data's own values are filled in."""
        method, paper = METHODS[self.method], self.recipe == "paper"
        values = {
            **method.values(self.recipe),
            "normalize": method.on_sphere or not paper,
            "augment": not paper and not self.freeze,
            "batch_size": ITEMS_OF_THE_PAPER * num_classes if paper else BATCH_SIZE,
            "lr": RATE_OF_THE_PAPER if paper else RATE_UNFROZEN if self.unfreeze_from else RATE.start,
            "loss_rate": LOSS_RATE.start if method.learned else None,
            "max_epochs": EPOCHS_OF_THE_PAPER if paper and self.max_steps is None else None,
        }
        return self.model_copy(update={k: v for k, v in values.items() if getattr(self, k) is None})


def to_numbers(values: Any) -> list[float]:
    """Return one or three finite numbers."""
    numbers = [float(one) for one in (values if isinstance(values, list | tuple) else [values])]
    if len(numbers) not in (1, 3) or not all(map(math.isfinite, numbers)):
        raise ValueError(values)
    return numbers


def make_config(values: dict[str, Any], source: str) -> TrainConfig:
    """Return a checked config, or raise one line that says what was wrong in ``source``."""
    for key in values:
        if key in GONE:
            raise InputError(f"{source}: there is no option {key!r} any more: {GONE[key]}")
        if key not in TrainConfig.model_fields:
            raise InputError(f"{source}: unknown option {key!r}{nearest(key, TrainConfig.model_fields)}")
    try:
        return TrainConfig.model_validate(values)
    except ValidationError as error:
        raise InputError(f"{source}: {_in_one_line(error)}") from None


def _in_one_line(error: ValidationError) -> str:
    first = error.errors()[0]
    key, got = ".".join(map(str, first["loc"])), first["input"]
    if first["type"] == "missing":
        return f"{key} is missing: name the data to train on"
    if first["type"] == "value_error":  # one of the checks above
        return str(first["ctx"]["error"])
    return f"{key}: {first['msg'].lower()}; got {got!r}"
