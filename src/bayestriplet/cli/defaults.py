"""Defaults of a training that are computed, in words for ``--help``."""

from collections import Counter

from bayestriplet.config import BATCH_SIZE, ITEMS_OF_THE_PAPER, RATE_OF_THE_PAPER, RATE_UNFROZEN
from bayestriplet.methods import LOSS_RATE, METHODS, RATE, having


def _by_method(option: str) -> str:
    """Return the defaults of a margin or temperature; most methods share one."""
    own = {name: METHODS[name].default[option] for name in having(option)}
    usual = Counter(own.values()).most_common(1)[0][0]
    others = "; ".join(f"{value:g} for {name}" for name, value in own.items() if value != usual)
    (paper,) = {METHODS[name].paper[option] for name in own}
    return f"{usual:g}; {others}; {paper:g} in the recipe paper"


DEFAULTS = {
    "split_by": "the data's own splits, else group, else item",
    "per_class": "all",
    "imbalance": "all",
    "without": "none",
    "size": "the data's own; 224 for a pretrained network",
    "backbone_sha256": "recorded by the run",
    "input_mean": "the file's metadata, else ImageNet's",
    "input_deviation": "the file's metadata, else ImageNet's",
    "weights": "imagenet for a frozen network, else none",
    "freeze": "on for image files of 64 pixels or more, else off",
    "normalize": "on; off in the recipe paper",
    "margin": _by_method("margin"),
    "temperature": _by_method("temperature"),
    "augment": "on; off for a frozen network and in the recipe paper",
    "batch_size": f"{BATCH_SIZE}; {ITEMS_OF_THE_PAPER} per class in the recipe paper",
    "lr": f"{RATE.start:g}; {RATE_UNFROZEN:g} with --unfreeze-from; "
    f"{RATE_OF_THE_PAPER:.5f} in the recipe paper",
    "loss_rate": f"{LOSS_RATE.start:g}",
    "max_steps": "as --max-epochs says",
    "workers": "one per core, at most 8; none without files",
}


def describe_default(name: str, value: object) -> str:
    """Return the default of a field of TrainConfig in words; empty where its value says nothing."""
    if name in DEFAULTS:
        return DEFAULTS[name]
    if value is None:
        return ""
    return "off" if value is False else f"{value:g}" if isinstance(value, float) else str(value)
