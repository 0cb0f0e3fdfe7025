"""The tables of retrieval among classes that were never trained on."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from resampling import Estimate, estimate, holm, in_words, recalls, resampled_recalls
from scipy.stats import sem, t

from bayestriplet.methods import METHODS
from bayestriplet.report.methods_table import describe, title_of, to_markdown

HEADS = ("method", "R@1", "less the candidate", "p (Holm)", "R-precision", "MAP@R", "chosen options")


def unseen_tables(found: dict[str, Any]) -> dict[str, str]:
    """Return a table of every part that has figures of all methods."""
    return {
        f"unseen {name}": part_table(part, found["candidate"])
        for name, part in found["parts"].items()
        if part["methods"].keys() == METHODS.keys()  # a part may still be under way
    }


def part_table(part: dict[str, Any], candidate: str) -> str:
    """Return all methods, the best first, each beside the candidate; then what needs no training."""
    values, gaps = compare_with(part, candidate)
    table = [[*HEADS]]
    for method in sorted(values, key=lambda name: -values[name].value):
        entry = part["methods"][method]
        means = [
            np.mean([seed[name] for seed in entry["seeds"].values()]) for name in ("r-precision", "map@r")
        ]
        apart = ["candidate", ""]
        if method != candidate:
            gap = gaps[method]
            text = f"{gap.value:+.2f} [{gap.low:+.2f}, {gap.high:+.2f}]"
            apart = [f"**{text}**" if gap.is_clear else text, in_words(gap.p)]
        recall = f"{values[method].value:.2f} [{values[method].low:.2f}, {values[method].high:.2f}]"
        table.append(
            [title_of(method), recall, *apart, *(f"{mean:.2f}" for mean in means), describe(entry["chosen"])]
        )
    for name, scores in part["floors"].items():
        recall, *more = (f"{scores[measure]:.2f}" for measure in ("recall@1", "r-precision", "map@r"))
        table.append([name, recall, "", "", *more, ""])
    return to_markdown(table)


def compare_with(part: dict[str, Any], candidate: str) -> tuple[dict[str, Estimate], dict[str, Estimate]]:
    """Return Recall@1 of every method, and its difference to the candidate with p-values after Holm."""
    hits, sizes = hits_of(part)
    means, drawn = recalls(hits, sizes), resampled_recalls(hits, sizes)
    values = {name: estimate(means[name], drawn[name]) for name in hits}
    others = [name for name in hits if name != candidate]
    gaps = {name: estimate(means[name] - means[candidate], drawn[name] - drawn[candidate]) for name in others}
    corrected = holm([gaps[name].p for name in others])
    return values, {
        name: Estimate(gaps[name].value, gaps[name].low, gaps[name].high, p)
        for name, p in zip(others, corrected, strict=True)
    }


def few_shot_table(found: dict[str, Any]) -> str:
    """Return few-shot accuracies in percent by task, with half intervals over seeds, and published ones."""
    table = [["embedding", *(f"{ways}-way {shots}-shot" for ways, shots in found["tasks"])]]
    for name, seeds in found["rows"].items():
        values = np.array(seeds)  # (S, tasks)
        cells = [f"{mean:.1f}" for mean in values.mean(0)]
        if len(values) > 1:
            widths = t.ppf(0.975, len(values) - 1) * sem(values, 0)
            cells = [f"{cell}±{width:.1f}" for cell, width in zip(cells, widths, strict=True)]
        table.append([name, *cells])
    for name, published in found["published"].items():
        table.append([name, *(f"{value:.1f}" for value in published)])
    return to_markdown(table)


def hits_of(part: dict[str, Any]) -> tuple[dict[str, NDArray[np.float64]], NDArray[np.float64]]:
    """Return the hits (S, C) of every method by seed and test class, and the items of each class (C,)."""
    hits = {
        method: np.stack([_numbers(entry["seeds"][seed]["hits"]) for seed in sorted(entry["seeds"])])
        for method, entry in part["methods"].items()
    }
    return hits, _numbers(part["class sizes"])


def _numbers(text: str) -> NDArray[np.float64]:
    return np.array(text.split(), np.float64)
