"""splits.csv: which item of the data is in which split of a run, and the data opened again with it."""

import csv
import io
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from bayestriplet.data.dataset import LabelledImages
from bayestriplet.data.progress import Progress
from bayestriplet.data.regimes import hold_out
from bayestriplet.data.sources import open_data
from bayestriplet.errors import DataError, InputError
from bayestriplet.model.info import EncoderInfo
from bayestriplet.runs.checksums import record_text, verify
from bayestriplet.runs.folder import RunFolder
from bayestriplet.runs.inputs import check_inputs, check_kind

COLUMNS = ("id", "label", "split", "group")  # runs of version 0.1.0 have no group


class Membership(NamedTuple):
    """Where an item of a run belongs."""

    label: str
    split: str
    group: str
    """Patient or slide; empty where unknown."""


def memberships(images: LabelledImages) -> dict[str, Membership]:
    """Return label, split and group of every item by id."""
    labels = [images.classes[k] for k in images.labels]
    groups = [""] * len(images) if images.groups is None else images.groups.tolist()
    return dict(zip(images.ids, map(Membership, labels, images.splits.tolist(), groups), strict=True))


def write_splits(run: RunFolder, images: LabelledImages) -> None:
    """Write down which item is in which split."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    writer.writerows((name, *one) for name, one in memberships(images).items())
    record_text(run.splits, text.getvalue())


def read_splits(run: RunFolder) -> dict[str, Membership]:
    """Return label, split and group of every item of a run, by id."""
    verify(run.splits)
    try:
        with run.splits.open(newline="", encoding="utf-8") as file:
            return {
                row["id"]: Membership(row["label"], row["split"], row.get("group") or "")
                for row in csv.DictReader(file)
            }
    except (OSError, KeyError, ValueError, csv.Error) as error:
        raise DataError(f"{run.splits} cannot be read: {error}") from None


def open_run_data(
    run: RunFolder, data: str, info: EncoderInfo, skip_bad: bool = False, progress: Progress | None = None
) -> LabelledImages:
    """Open some data for the encoder of a run; its own data get the splits of its training back.

    So no item that was trained on is ever asked about as a test item, also when files were added
    since: those are left out.
    """
    return open_with_novel(run, data, info, skip_bad, progress)[0]


def open_with_novel(
    run: RunFolder, data: str, info: EncoderInfo, skip_bad: bool = False, progress: Progress | None = None,
    split_by: str | None = None,
) -> tuple[LabelledImages, LabelledImages | None]:  # fmt: skip
    """Open some data for a run, and the items of the classes held out of its training apart from them.

    Data that are not the run's own are split as ``split_by`` says, where they have no splits.
    """
    check_kind(info, data)
    config = run.read_config()
    if split_by is not None and data == config.data:
        raise InputError(
            f"{run.path} was trained on {data} and keeps its splits: --split-by is for other data"
        )
    skip_bad = skip_bad or (data == config.data and config.skip_bad)
    # Of the run's own data the recorded splits count: any division does until then, and needs no file.
    if data == config.data and config.split_by is not None:
        split_by = "item"
    images = open_data(
        data, seed=config.seed, split_by=split_by, size=info.size or None, skip_bad=skip_bad,
        follow_links=config.follow_links, progress=progress,
    )  # fmt: skip
    check_inputs(info, images, data)
    images = replace(images, bits=info.bits, invert=images.invert or info.invert)
    if data != config.data:
        return images, None
    known, novel = (images, None) if config.without is None else hold_out(images, config.without)
    return with_recorded_splits(run, known), novel


def with_recorded_splits(run: RunFolder, images: LabelledImages) -> LabelledImages:
    """Return the items that the run knew, in the splits they had, training items with their labels then."""
    recorded = read_splits(run)
    missing = set(recorded) - set(images.ids)
    if missing:
        raise DataError(
            f"{len(missing)} items that {run.path} was made with are gone (first: {min(missing)}): "
            "bring them back, or name other data with --data"
        )
    kept = images.subset(
        np.array([i for i, name in enumerate(images.ids) if name in recorded], dtype=np.int64)
    )
    kept.splits[:] = [recorded[name].split for name in kept.ids]
    # Training items keep the labels they were trained with, which may have been made wrong on purpose.
    number = {name: k for k, name in enumerate(kept.classes)}
    for i in kept.indices("train"):
        kept.labels[i] = number.get(recorded[kept.ids[i]].label, kept.labels[i])
    return kept


def check_unchanged(run: RunFolder, images: LabelledImages) -> None:
    """Raise unless the data of a run that is to be gone on with are those it began with."""
    before, now = read_splits(run), memberships(images)
    if not any(one.group for one in before.values()):  # written by version 0.1.0, or without groups
        now = {name: one._replace(group="") for name, one in now.items()}
    if now != before:
        different = set(now.items()) ^ set(before.items())
        raise DataError(
            f"the data have changed since {run.path} was begun (first: {min(different)[0]}): "
            "it cannot be resumed"
        )
