"""What a training will do, before it does it: its data, its options in full, and its batches."""

import os
from pathlib import Path

from bayestriplet.checks import VECTORS
from bayestriplet.config import (
    EPOCHS_OF_THE_PAPER,
    ITEMS_OF_THE_PAPER,
    LEAST_INTERVAL,
    LEAST_STEPS,
    TrainConfig,
)
from bayestriplet.data.batches import KINDS, Batches
from bayestriplet.data.dataset import LabelledImages
from bayestriplet.data.progress import Progress
from bayestriplet.data.regimes import hold_out, make_imbalanced, make_noisy
from bayestriplet.data.sources import open_data
from bayestriplet.errors import InputError
from bayestriplet.evaluation.weights import IMAGENET
from bayestriplet.model.backbone import EFFICIENTNET

LARGE = 64  # pixels of an image that a network trained on photographs makes something of
PRETRAINED_SIZE = 224  # pixels of the images that it was trained on
LARGE_BATCH = 1024  # items up to which a batch may hold some of them more than once


def open_images(
    config: TrainConfig, progress: Progress | None = None, cache: Path | None = None
) -> LabelledImages:
    """Return the images of a run: without the classes held out, its training items made as hard as asked.

    With a ``cache`` decoded images are kept in that folder, and read from there the next time.
    """
    images = open_data(
        config.data, seed=config.seed, split_by=config.split_by, per_class=config.per_class, size=config.size,
        skip_bad=config.skip_bad, follow_links=config.follow_links, cache=cache, progress=progress,
    )  # fmt: skip
    if config.without is not None:
        images, _ = hold_out(images, config.without)
    if config.imbalance is not None:
        images = make_imbalanced(images, config.imbalance, config.seed)
    if config.label_noise:
        images = make_noisy(images, config.label_noise, config.seed)
    return images


def choose_start(config: TrainConfig, images: LabelledImages) -> TrainConfig:
    """Return the options with a backbone, and with what it begins with and its head where none was given.

    Nobody trains a network on a few hundred photographs from nothing: for image files of 64 pixels or more
    a network that knows ImageNet is taken, unless something else is asked for.
    """
    if images.length:
        head = {"backbone": VECTORS, "freeze": True, "head": config.head or "linear"}
        return config.model_copy(update=head)
    if config.from_scratch:  # always accepted: whatever else was asked for cannot be had, or is not wanted
        config = config.model_copy(update={"weights": None, "freeze": False})
    frozen, backbone = config.freeze, config.backbone
    is_silent = backbone is None and config.weights is None and not config.from_scratch and config.width == 1
    if is_silent and not frozen and config.recipe == "default":
        frozen = images.paths is not None and images.size >= LARGE
    pretrained = frozen or config.weights == IMAGENET  # an ONNX file is frozen
    if backbone is None:
        backbone = EFFICIENTNET if pretrained else "resnet18"
    with_head = frozen or backbone == EFFICIENTNET
    changes = {
        "backbone": backbone,
        "freeze": frozen,
        "weights": IMAGENET if frozen and config.weights is None and not config.is_onnx else config.weights,
        "head": config.head or ("linear" if with_head else None),
        "size": config.size or (PRETRAINED_SIZE if pretrained and images.paths is not None else config.size),
    }
    return config.model_copy(update=changes)


def resolve(config: TrainConfig, images: LabelledImages) -> TrainConfig:
    """Return the options in full: what the recipe, the data and the library's own defaults make of them.

    A config.toml that was written with them means the same to a later version with other defaults.
    """
    config = choose_start(config, images).resolved(len(images.classes))
    _check_batch_size(config.batch_size or 0, images)
    epoch = make_batches(config, images).batches_per_epoch
    limits = [config.max_steps, config.max_epochs and config.max_epochs * epoch]
    steps = min((limit for limit in limits if limit), default=max(EPOCHS_OF_THE_PAPER * epoch, LEAST_STEPS))
    every = max(epoch, LEAST_INTERVAL) if config.validate_every is None else config.validate_every
    workers = images.default_workers() if config.workers is None else config.workers
    return config.model_copy(update={"max_steps": steps, "validate_every": every, "workers": workers})


def _check_batch_size(number: int, images: LabelledImages) -> None:
    """Refuse a large batch that would hold items more than once, and fill the memory with them."""
    items = len(images.indices("train"))
    if number > max(items, LARGE_BATCH, ITEMS_OF_THE_PAPER * len(images.classes)):
        raise InputError(f"--batch-size {number:,} is more than the {items:,} training items: lower it")


def make_batches(config: TrainConfig, images: LabelledImages) -> Batches:
    """Return this process's batches of a resolved config."""
    labels = images.labels[images.indices("train")]
    world, rank = ranks(config)
    return KINDS[config.batches](
        labels, config.batch_size or 0, config.max_steps, seed=config.seed, rank=rank, world=world
    )


def ranks(config: TrainConfig) -> tuple[int, int]:
    """Return how many processes train and which one this is, also before Lightning has started them."""
    world = int(os.environ.get("WORLD_SIZE", config.devices))
    return world, int(os.environ.get("RANK", os.environ.get("LOCAL_RANK", 0)))
