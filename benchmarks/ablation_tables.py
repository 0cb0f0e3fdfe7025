"""The tables of the ablations: what each correction and each part of a recipe is worth."""

from typing import Any

import numpy as np

from bayestriplet.evaluation.paired import Difference, half_width
from bayestriplet.report.methods_table import to_markdown

PAPER = "paper's protocol"
CORRECTIONS = {  # the group of an ablation, its row without the correction, its row with it
    "inverse: one too many in the covariance": (PAPER, "inverse as printed", "BUT as corrected"),
    "feedback: an expectation taken for a sample": (PAPER, "expectation fed back", "BUT as corrected"),
    "spike: an empirical prior spares it": (PAPER, "BUT as corrected", "without the spike: empirical prior"),
    "forgetting: batches of long ago fade": (
        f"{PAPER}, empirical prior",
        "BUT, empirical prior",
        "forgetting: memory 20",
    ),
    "normalisation, BUT": (PAPER, "BUT as corrected", "normalised"),
    "normalisation, BUNCA": (f"{PAPER}, NCA", "BUNCA as corrected", "normalised"),
    "NCA denominator: the positive is in it": (
        f"{PAPER}, NCA",
        "positive not in the denominator",
        "BUNCA as corrected",
    ),
}
DISTRIBUTIONS = {  # rows that say what class distributions are worth in a recipe, and their names in a table
    "whole": "whole",
    "noise 0: means instead of draws": "means, no draws",
    "spread 0": "distributions, no vertices",
    "spread 1, noise 0: vertices alone": "vertices, no distributions",
    "not normalised, so without spread": "distributions, off the sphere",
}


def ablation_tables(settings: dict[str, Any]) -> dict[str, str]:
    """Return what each departure from the paper's protocol, and from the default recipe, does to Recall@1."""
    paper = [["", "recipe, with one change", "R@1", "change, paired by seed"]]
    for group, rows in settings["mnist"].items():
        whole = next(iter(rows))
        for row in rows:
            if not group.startswith("default"):
                mean = "-" if why_broken(rows[row]) else _mean(rows[row])
                paper.append([group, row, mean, "" if row == whole else _change(rows[row], rows[whole])])
    return {
        "ablation paper": to_markdown(paper),
        "ablation recipe": recipe_table(settings),
        "ablation distributions": distributions_table(settings),
        "corrections": corrections_table(settings["mnist"]),
    }


def corrections_table(groups: dict[str, dict[str, list[float | str]]]) -> str:
    """Return what each correction of the paper is worth: Recall@1 without it and with it."""
    table = [["correction", "without it", "with it", "worth"]]
    for name, (group, without, corrected) in CORRECTIONS.items():
        before, after = groups[group][without], groups[group][corrected]
        if why := why_broken(before):
            table.append([name, f"cannot be trained: {why}", _mean(after), ""])
        else:
            table.append([name, _mean(before), _mean(after), _change(after, before)])
    return to_markdown(table)


def distributions_table(settings: dict[str, Any]) -> str:
    """Return what is found without class distributions, or with nothing else, in every setting."""
    table = [["", "setting", *DISTRIBUTIONS.values()]]
    for group in ("default BUT", "default BUNCA"):
        for name, groups in settings.items():
            whole, *others = (groups[group][row] for row in DISTRIBUTIONS)
            table.append([group, name, _mean(whole), *(_change(values, whole) for values in others)])
    return to_markdown(table)


def recipe_table(settings: dict[str, Any]) -> str:
    """Return what each departure from the default recipe does to Recall@1, where all of them are measured."""
    most = max(len(groups["default BUT"]) for groups in settings.values())
    settings = {name: groups for name, groups in settings.items() if len(groups["default BUT"]) == most}
    table = [["", "recipe, with one change", *settings]]
    for group, rows in next(iter(settings.values())).items():
        whole = next(iter(rows))
        for row in rows if group.startswith("default") else ():
            measured = [groups[group] for groups in settings.values()]
            changes = [_mean(one[row]) if row == whole else _change(one[row], one[whole]) for one in measured]
            table.append([group, row, *changes])
    return to_markdown(table)


def why_broken(values: list[float | str]) -> str | None:
    """Return why a row cannot be trained, if that is so with any seed."""
    return next((value for value in values if isinstance(value, str)), None)


def _mean(values: list[float]) -> str:
    return f"{np.mean(values):.2f}±{half_width(np.array(values)):.2f}"


def _change(values: list[float | str], whole: list[float]) -> str:
    if why := why_broken(values):
        return f"cannot be trained: {why}"
    return bold(gap(values, whole))


def gap(values: list[float], others: list[float]) -> Difference:
    """Return the mean difference of two rows, paired by seed."""
    gaps = np.array(values) - np.array(others)
    return Difference(float(gaps.mean()), half_width(gaps))


def bold(found: Difference) -> str:
    """Return a difference, in bold where its interval leaves out 0."""
    text = f"{found.value:+.2f}±{found.half_width:.2f}"
    return f"**{text}**" if found.is_clear else text
