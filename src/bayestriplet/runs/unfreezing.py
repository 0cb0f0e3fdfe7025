"""A run whose network was frozen, as what the training of the whole network goes on from."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from bayestriplet.config import TrainConfig
from bayestriplet.data.dataset import LabelledImages
from bayestriplet.errors import InputError
from bayestriplet.runs.folder import RunFolder
from bayestriplet.runs.splits import read_splits

TAKEN = (  # unless something else is asked for
    "data", "split_by", "per_class", "imbalance", "label_noise", "without", "batches", "size", "skip_bad",
    "follow_links", "seed", "method", "recipe", "normalize",
)  # fmt: skip
NETWORK = ("backbone", "width", "head", "dim")
FIXED = (*NETWORK, "weights", "freeze", "from_scratch")
STRENGTHS = ("margin", "temperature")  # of one method


def with_frozen_run(values: Mapping[str, Any], given: Collection[str]) -> dict[str, Any]:
    """Return options completed by those of the frozen run that ``unfreeze_from`` names.

    ``given`` are the options that a person has spelt out; the others come from a file.
    """
    path = Path(values["unfreeze_from"]).expanduser().absolute()
    before = open_frozen(path)
    network = {name: getattr(before, name) for name in NETWORK}
    for name in FIXED:
        if name in given or values.get(name) not in (None, False, network.get(name)):
            raise InputError(
                f"--unfreeze-from takes the network from {path}: "
                f"do not give --{name.replace('_', '-')} with it"
            )
    same_method = values.get("method", before.method) == before.method
    taken = (*TAKEN, *STRENGTHS) if same_method else TAKEN
    own = {name: getattr(before, name) for name in taken if getattr(before, name) is not None}
    return {**own, **values, **network, "unfreeze_from": str(path)}


def open_frozen(path: Path) -> TrainConfig:
    """Return the options of a run that can be unfrozen."""
    before = RunFolder.open(path).read_config()
    if not before.freeze:
        raise InputError(f"{path} was not trained with a frozen network: there is nothing to unfreeze")
    if before.is_onnx or before.data.startswith("vectors:"):
        what = "an ONNX file" if before.is_onnx else "vectors without images"
        raise InputError(f"{path} was trained on {what}: it has no network that can be trained")
    return before


def refuse_trained_items(path: Path, data: str, images: LabelledImages) -> None:
    """Raise where items to validate or test with were trained on in the frozen run."""
    run = RunFolder(path)
    if run.read_config().data != data:
        return
    known = {name for name, one in read_splits(run).items() if one.split == "train"}
    held_out = {name for name, split in zip(images.ids, images.splits, strict=True) if split != "train"}
    if twice := known & held_out:
        raise InputError(
            f"{len(twice)} items to validate or test with were trained on in {path} (first: {min(twice)}): "
            "keep its --seed, --split-by and data"
        )
