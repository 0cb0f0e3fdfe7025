"""Methods beside each other as a table: for a terminal, Markdown and CSV."""

import csv
import io
import math
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from bayestriplet.evaluation.paired import MEASURES, MORE, Row, difference, rank
from bayestriplet.methods import METHODS

MEASURED = "Queries: the test items; gallery: the other test items"
HEADINGS = {"r-precision": "R-prec", "map@r": "MAP@R"}
CHOSEN, PRINTED = 8, 9  # the columns of the chosen options and of the paper's figures
# Table I (MNIST) and Table II (colorectal cancer) of the paper: Recall@1, 4, 8, 16 in percent.
PAPER = {
    "mnist": {
        "ba": (79.31, 93.53, 96.55, 98.21),
        "bsh": (78.95, 92.61, 96.09, 98.17),
        "bh": (85.75, 95.31, 97.43, 98.63),
        "ep": (73.34, 90.09, 95.08, 97.68),
        "dws": (76.44, 91.35, 95.72, 97.68),
        "nca": (85.40, 95.48, 97.46, 98.76),
        "proxy-nca": (83.71, 94.69, 97.31, 98.55),
        "but": (88.03, 96.25, 98.15, 99.09),
        "bunca": (78.67, 92.44, 95.77, 98.02),
    },
    "crc": {
        "ba": (38.54, 66.76, 80.64, 89.97),
        "bsh": (30.85, 60.39, 77.73, 90.33),
        "bh": (79.09, 92.60, 96.00, 97.95),
        "ep": (69.94, 87.88, 93.20, 96.38),
        "dws": (76.06, 91.31, 95.34, 97.58),
        "nca": (77.87, 92.25, 95.92, 98.01),
        "proxy-nca": (78.85, 92.24, 95.80, 97.78),
        "but": (79.14, 92.32, 95.60, 97.65),
        "bunca": (78.67, 92.28, 95.64, 97.71),
    },
}


def describe(chosen: dict[str, Any]) -> str:
    """Return chosen options in a few words."""
    shown = {n: v for n, v in chosen.items() if n != "normalize" and (n, v) != ("loss_rate", 1.0)}
    names = {"loss_rate": "loss learns x"}
    soft = "margin", 0.0  # of batch-hard
    words = [
        "soft margin" if (name, value) == soft else f"{names.get(name, name + ' ')}{value:g}"
        for name, value in shown.items()
    ]
    return ", ".join([*words, *([] if chosen.get("normalize", True) else ["not normalised"])])


def describe_regime(settings: dict[str, Any]) -> str:
    """Return in a few words what makes a comparison's training set or batches special."""
    words = [Path(str(settings["data"])).stem]
    words += [f"{settings['per_class']} items per class"] if settings.get("per_class") else []
    words += [f"imbalance 1:{settings['imbalance']:g}"] if settings.get("imbalance") else []
    words += [f"{settings['label_noise']:.0%} wrong labels"] if settings.get("label_noise") else []
    words += [f"without {settings['without']}"] if settings.get("without") else []
    words += [f"{settings['batches']} batches"] if settings.get("batches") != "balanced" else []
    words += [f"batch {settings['batch_size']}"] if settings.get("batch_size") else []
    return ", ".join(words)


def leader(rows: list[Row]) -> Row:
    """Return the best row that is no control, which the others are set against."""
    ranked = rank(rows)
    return next((row for row in ranked if not METHODS[row.method].control), ranked[0])


def title_of(method: str) -> str:
    """Return a method's name as tables show it."""
    return f"{method} (control)" if METHODS[method].control else method


def cells(rows: list[Row], data: str) -> list[list[str]]:
    """Return the table's cells, a list a method, best first; the first list holds the headings.

    Controls stand among the methods, without a number of their own.
    """
    ranked, best, number = rank(rows), leader(rows), 0
    more = [name for name in MORE if all(name in row.values for row in rows)]
    out = [["", "method", "R@1", "to the best", "R@4", "R@8", "R@16", "s", "chosen", "paper"]]
    out[0] += [HEADINGS[name] for name in more]
    for row in ranked:
        gap, is_control = difference(row, best), METHODS[row.method].control
        number += not is_control
        recalls = [f"{row.mean(measure):.2f}" for measure in MEASURES]
        recalls[0] += _width(row.half_width("recall@1"))
        apart = "-" if row is best else f"{gap.value:+.2f}{_width(gap.half_width)}"
        printed = paper_recall(row.method, data)
        seconds = f"{row.seconds:.0f}"
        out.append(
            [
                *("" if is_control else str(number), title_of(row.method), recalls[0], apart),
                *(*recalls[1:], seconds, describe(row.chosen), printed),
                *(f"{row.mean(name):.2f}" for name in more),
            ]
        )
    return out


def paper_recall(method: str, data: str) -> str:
    """Return what the paper prints for Recall@1, a dash for what it does not have."""
    figures = PAPER.get("crc" if data == "pathmnist" else data, {}).get(method)
    return f"{figures[0]:.1f}" if figures else "-"


def _width(value: float) -> str:
    return "" if math.isnan(value) else f"±{value:.2f}"


def floor_cells(floors: dict[str, dict[str, float]]) -> list[list[str]]:
    """Return a list of cells for each floor, to stand below the methods."""
    return [["", name, *_floor(scores)] for name, scores in floors.items()]


def _floor(scores: dict[str, float]) -> list[str]:
    first, *others = (f"{scores[measure]:.2f}" for measure in MEASURES)
    return [first, "", *others, "", "", "", *(f"{scores[name]:.2f}" for name in MORE if name in scores)]


def to_markdown(table: list[list[str]]) -> str:
    """Return cells as a Markdown table."""
    head, *rows = table
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def to_csv(table: list[list[str]]) -> str:
    """Return cells as CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(table)
    return text.getvalue()


def to_rich(table: list[list[str]], title: str, caption: str | None = None) -> Table:
    """Return cells as a table for a terminal of 80 columns: without the options that tuning chose.

    Nor with the paper's figures where it has none.
    """
    is_printed = any(row[PRINTED] not in ("-", "") for row in table[1:])
    left_out = (CHOSEN,) if is_printed else (CHOSEN, PRINTED)
    head, *rows = ([cell for i, cell in enumerate(row) if i not in left_out] for row in table)
    out = Table(
        title=title, title_justify="left", caption=caption, caption_justify="left", box=SIMPLE_HEAD,
        pad_edge=False, padding=(0, 1, 0, 0),
    )  # fmt: skip
    for heading in head:
        out.add_column(heading, justify="left" if heading == "method" else "right", no_wrap=True)
    for row in rows:
        out.add_row(*row)
    return out
