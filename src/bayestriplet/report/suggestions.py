"""Images that are worth a label, as a table and a picture."""

import math
from pathlib import Path

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bayestriplet.report.figure import save_figure
from bayestriplet.report.search_figure import SHOWN, AnsweredQuery, DrawnNeighbour, search_figure
from bayestriplet.retrieval.suggestions import Suggestions


def show_suggestions(found: Suggestions, console: Console | None = None) -> None:
    """Print the images whose labels would tell most."""
    table = Table(box=SIMPLE_HEAD, padding=(0, 0, 0, 1), pad_edge=False)
    for heading in ("rank", "bits", "likeliest", "probability", "novelty", "item"):
        number = heading in ("rank", "bits", "probability", "novelty")
        table.add_column(heading, justify="right" if number else "left", overflow="fold")
    for rank, one in enumerate(found.rows, 1):
        novelty = "" if math.isnan(one.novelty) else f"{one.novelty:.1f}"
        cells = f"{one.information:.3f}", escape(one.likeliest), f"{100 * one.probability:.1f}%", novelty
        table.add_row(str(rank), *cells, escape(one.id))
    (console or Console()).print(table, highlight=False)


def write_suggestions(found: Suggestions, path: Path) -> None:
    """Draw the images, ten in a row, each with its likeliest class and how much its label would tell."""
    rows = []
    for start in range(0, len(found.rows), SHOWN):
        part = found.rows[start : start + SHOWN]
        pixels = found.images.read(np.array([one.row for one in part]))
        drawn = [
            DrawnNeighbour(image, one.likeliest, one.information, True)
            for image, one in zip(pixels, part, strict=True)
        ]
        caption = f"worth a label, {start + 1} to {start + len(part)}; below: likeliest class, bits"
        rows.append(AnsweredQuery(pixels[0], caption, drawn))
    save_figure(search_figure(rows), path)
