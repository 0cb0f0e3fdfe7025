"""The answer of a search as a picture: queries on the left, what was found beside them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bayestriplet.report.retrieval_figure import cross_out, show_picture
from bayestriplet.report.style import ACCENT, INK, MUTED, SMALL, WIDTH, new_figure, readable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_QUERIES = 16
SHOWN = 10  # neighbours a query
QUERY, SIDE, STEP = 0.9, 0.6, 0.67  # inches: a query, a neighbour, and from one neighbour to the next
QUERY_LEFT, FIRST_LEFT = 0.12, 1.22
HEAD, CAPTION, BELOW = 0.7, 0.24, 0.3  # inches: above all, above a row's pictures, and below them
LINE = 0.145  # inches, of text


@dataclass(frozen=True)
class Found:
    """A neighbour as it is drawn."""

    image: NDArray[np.uint8]  # (H, W, C)
    label: str
    distance: float
    is_match: bool


@dataclass(frozen=True)
class AnsweredQuery:
    """A query with a line that says what the answer is, and its neighbours, nearest first."""

    image: NDArray[np.uint8]  # (H, W, C)
    caption: str
    found: list[Found]


def search_figure(rows: list[AnsweredQuery]) -> "Figure":
    """Draw a row a query; a neighbour of another class than most has a thick frame and a cross."""
    row_height = CAPTION + QUERY + BELOW
    height = HEAD + len(rows) * row_height
    subtitle = "Query and neighbours, nearest first, with class and distance"
    if any(not one.is_match for row in rows for one in row.found[:SHOWN]):
        subtitle += "; crossed: of another class than most"
    figure = new_figure(height, "Nearest neighbours", subtitle, constrained=False)

    def place(left: float, top: float, side: float) -> "Axes":
        return figure.add_axes((left / WIDTH, 1 - (top + side) / height, side / WIDTH, side / height))

    for number, row in enumerate(rows):
        top = HEAD + number * row_height
        caption = readable(row.caption, 104)
        figure.text(QUERY_LEFT / WIDTH, 1 - top / height, caption, size=SMALL, color=INK, va="top")
        show_picture(place(QUERY_LEFT, top + CAPTION, QUERY), row.image, INK, 1.8)
        for rank, one in enumerate(row.found[:SHOWN]):
            axes = place(FIRST_LEFT + rank * STEP, top + CAPTION, SIDE)
            show_picture(axes, one.image, "#9A9A9A" if one.is_match else ACCENT, 0.8 if one.is_match else 3.0)
            if not one.is_match:
                cross_out(axes)
            _write_below(figure, axes, one, height)
    return figure


def _write_below(figure: "Figure", axes: "Axes", one: Found, height: float) -> None:
    """Write class and distance under a neighbour."""
    box = axes.get_position()
    middle, level = (box.x0 + box.x1) / 2, box.y0 - 0.06 / height
    colour = INK if one.is_match else ACCENT
    label = readable(one.label, 8) or "?"
    figure.text(middle, level, label, size=SMALL, color=colour, ha="center", va="top")
    figure.text(
        middle, level - LINE / height, f"{one.distance:.3f}", size=SMALL, color=MUTED, ha="center", va="top"
    )
