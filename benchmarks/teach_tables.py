"""The tables of classes that are taught from a few examples."""

from collections.abc import Callable
from typing import Any

import numpy as np

from bayestriplet.report.methods_table import to_markdown

WAYS = ("nearest mean", "nearest item", "posterior")
MEASURES = {"new": "{:.1f}", "old": "{:.1f}", "harmonic": "{:.1f}", "log_loss": "{:.3f}", "ece": "{:.3f}"}
HEADS = ("data", "examples", "classes by", "new, %", "old, %", "harmonic mean, %", "log loss", "ECE of new")
KINDS = ("noise", "black", "white", "gradient", "foreign")


def teach_tables(found: dict[str, Any]) -> dict[str, str]:
    """Return the table of accuracies and that of novelty; each figure is the mean over encoders."""
    return {"teach": accuracy_table(found["sets"]), "teach novelty": novelty_table(found["sets"])}


def accuracy_table(sets: dict[str, Any]) -> str:
    """Return accuracy, log loss and calibration of every way, for every number of examples."""
    table = [[*HEADS]]
    for name, encoders in sets.items():
        for shots in encoders[0]["shots"]:
            for way in WAYS:
                cells = []
                for measure, form in MEASURES.items():
                    values = [one["shots"][shots][way][measure] for one in encoders]
                    cells.append(f"{form.format(np.mean(values))} ± {form.format(np.std(values))}")
                table.append([name, shots, way, *cells])
    return to_markdown(table)


def novelty_table(sets: dict[str, Any]) -> str:
    """Return the AUROC of new classes by four scores, and how many of the odd pictures are flagged."""
    ways = ("posterior", "vector alone", "plain score", "nearest item")
    table = [["data", *(f"AUROC, {way}" for way in ways), *(f"{kind} flagged" for kind in KINDS)]]
    for name, encoders in sets.items():
        aurocs = [f"{_mean(encoders, lambda one, way=way: one['novelty']['auroc'][way]):.3f}" for way in ways]
        flags = ["no pictures"] * len(KINDS)
        if "flagged" in encoders[0]["novelty"]:
            shares = [
                _mean(encoders, lambda one, kind=kind: one["novelty"]["flagged"][kind]) for kind in KINDS
            ]
            flags = [f"{100 * share:.0f}%" for share in shares]
        table.append([name, *aurocs, *flags])
    return to_markdown(table)


def _mean(encoders: list[dict[str, Any]], value: Callable[..., float]) -> float:
    return float(np.mean([value(one) for one in encoders]))
