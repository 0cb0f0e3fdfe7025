"""Images that are worth a label, as a table and a picture."""

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bayestriplet.report.figure import head_height, new_figure, save_figure
from bayestriplet.report.fonts import drawable_names
from bayestriplet.report.search_figure import (
    BELOW,
    QUERY_LEFT,
    SIDE,
    STEP,
    DrawnNeighbour,
    draw_small,
    small_height,
)
from bayestriplet.report.style import WIDTH
from bayestriplet.retrieval.suggestions import Suggestions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

IN_A_ROW = 11
TITLE = "Images worth a label"
SUBTITLE = "Most telling first. Below each: its likeliest class, and the bits that its label would add."


def show_suggestions(found: Suggestions, console: Console | None = None) -> None:
    """Print the images whose labels would say most."""
    table = Table(box=SIMPLE_HEAD, padding=(0, 0, 0, 1), pad_edge=False)
    for heading in ("rank", "bits", "likeliest", "probability", "novelty", "item"):
        number = heading in ("rank", "bits", "probability", "novelty")
        table.add_column(heading, justify="right" if number else "left", overflow="fold")
    for rank, one in enumerate(found.rows, 1):
        novelty = "" if math.isnan(one.novelty) else f"{one.novelty:.1f}"
        cells = f"{one.information:.3f}", escape(one.likeliest), f"{100 * one.probability:.1f}%", novelty
        table.add_row(str(rank), *cells, escape(one.id))
    console = console or Console()
    console.print(table, highlight=False)
    if found.evidence:
        console.print(f"Novelty: {found.evidence}.", soft_wrap=True, highlight=False)


def write_suggestions(found: Suggestions, path: Path) -> None:
    """Draw the images, each with its likeliest class and the bits that its label would add."""
    pixels = found.images.read(np.array([one.row for one in found.rows]))
    names = list(dict.fromkeys(one.likeliest for one in found.rows))
    words, note = drawable_names(names)
    named = dict(zip(names, words, strict=True))
    drawn = [
        DrawnNeighbour(image, named[one.likeliest], one.information, is_match=True)
        for image, one in zip(pixels, found.rows, strict=True)
    ]
    save_figure(suggestions_figure(drawn, note), path)


def suggestions_figure(drawn: list[DrawnNeighbour], note: str = "") -> "Figure":
    """Draw images in rows, the one whose label would say most first."""
    rows = [drawn[start : start + IN_A_ROW] for start in range(0, len(drawn), IN_A_ROW)]
    subtitle = f"{SUBTITLE} {note}".rstrip()
    figure = new_figure(sum(small_height(row) + BELOW for row in rows), TITLE, subtitle, constrained=False)
    top, height = head_height(TITLE, subtitle), figure.get_figheight()
    for row in rows:
        for place, one in enumerate(row):
            left, level = (QUERY_LEFT + place * STEP) / WIDTH, 1 - (top + SIDE) / height
            draw_small(figure, figure.add_axes((left, level, SIDE / WIDTH, SIDE / height)), one)
        top += small_height(row) + BELOW
    return figure
