"""The README's table: what is found by ours, by the best other method, and without training."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from unseen_tables import compare_with

from bayestriplet.evaluation.paired import Row, difference, rank, rows_of
from bayestriplet.methods import METHODS
from bayestriplet.report.methods_table import leader, to_markdown

HEADS = ("what is looked for", "ours", "best other", "without training")
TRAINED = {"mnist": "MNIST's digits, all trained on", "pathmnist": "PathMNIST's tissues, all trained on"}
UNSEEN = {
    "omniglot": ("Omniglot's characters, none trained on", "raw pixels"),
    "cub": ("CUB's bird species, none trained on", "vectors as given"),
}
OURS = ("bunca", "but")
EXAMPLES = "5"  # of each class that is taught


def overview_table(
    quality: dict[str, Any], pretrained: dict[str, Any], teach: dict[str, Any],
    unseen: dict[str, Any] | None = None,
) -> str:  # fmt: skip
    """Return Recall@1 of trained and unseen classes, and accuracy with taught ones, all in percent."""
    found = pretrained["methods"]["against"]
    heads = [
        Row(name, {"recall@1": tuple(seeds[seed] for seed in sorted(seeds))}, 0.0, {})
        for name, seeds in found.items()
        if name in METHODS
    ]
    frozen = f"frozen features {np.mean(list(found['frozen features'].values())):.1f}"
    photographs = ["photographs of 20 bird species, head on a pretrained network", *_best(heads), frozen]
    table = [
        [*HEADS],
        *_trained(quality["main"]),
        photographs,
        *_unseen(unseen or {}),
        _taught(teach["sets"]),
    ]
    return to_markdown(table)


def _trained(main: dict[str, Any]) -> Iterator[list[str]]:
    for data, title in TRAINED.items():
        floor = main[data]["floors"]["raw pixels"]["recall@1"]
        yield [title, *_best(rows_of(main[data])), f"raw pixels {floor:.1f}"]


def _best(rows: list[Row]) -> list[str]:
    """Return the best of ours and of the others; bold: the better one, and what is tied with it."""
    pair = [leader([row for row in rows if (row.method in OURS) is own]) for own in (True, False)]
    best = rank(pair)[0]
    return [
        _bold(f"{row.method} {row.mean('recall@1'):.1f}", row is best or not difference(row, best).is_clear)
        for row in pair
    ]


def _unseen(found: dict[str, Any]) -> Iterator[list[str]]:
    for name, (title, floor) in UNSEEN.items():
        if name not in found.get("parts", {}):
            continue
        part, candidate = found["parts"][name], found["candidate"]
        values, gaps = compare_with(part, candidate)
        others = [method for method in values if method not in OURS and not METHODS[method].control]
        other = max(others, key=lambda method: values[method].value)
        gap = gaps[other]
        yield [
            title,
            _bold(f"{candidate} {values[candidate].value:.1f}", gap.value < 0 or not gap.is_clear),
            _bold(f"{other} {values[other].value:.1f}", gap.value > 0 or not gap.is_clear),
            f"{floor} {part['floors'][floor]['recall@1']:.1f}",
        ]


def _taught(sets: dict[str, Any]) -> list[str]:
    """Return accuracy with three digits taught: the harmonic mean of that on old and on new items."""
    means = {
        way: np.mean([one["shots"][EXAMPLES][way]["harmonic"] for one in sets["mnist"]])
        for way in ("posterior", "nearest mean", "nearest item")
    }
    other = max(("nearest mean", "nearest item"), key=lambda way: means[way])
    title = f"MNIST, three digits taught by {EXAMPLES} examples each (harmonic mean of old and new)"
    ours = _bold(f"class distributions {means['posterior']:.1f}", means["posterior"] > means[other])
    return [title, ours, _bold(f"{other} {means[other]:.1f}", means["posterior"] < means[other]), ""]


def _bold(text: str, is_bold: bool) -> str:
    return f"**{text}**" if is_bold else text
