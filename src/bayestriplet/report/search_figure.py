"""The answer of a search as a picture: queries on the left, what was found beside them."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayestriplet.report.figure import head_height, new_figure
from bayestriplet.report.fonts import drawable_names, missing_letters
from bayestriplet.report.retrieval_figure import cross_out, show_picture
from bayestriplet.report.style import ACCENT, INK, MUTED, SMALL, WIDTH
from bayestriplet.report.text import LINE_SPACING, extent, fit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_QUERIES = 16
SHOWN = 10  # neighbours per query
QUERY, SIDE, STEP = 0.9, 0.6, 0.67  # inches: a query, a neighbour, and from one neighbour to the next
QUERY_LEFT, FIRST_LEFT = 0.12, 1.22
GAP = 0.08  # inches between texts, and between a text and a picture
LINE, UNDER = 0.13, 0.06  # inches: of a number, and between a picture and its label
BELOW = 0.2  # inches below a row
BLANK = "#ECECEC"
TITLE = "Nearest neighbours"
SUBTITLE = "Query and neighbours, nearest first, with class and distance"


@dataclass(frozen=True)
class DrawnNeighbour:
    """A neighbour as it is drawn."""

    image: NDArray[np.uint8] | None  # (H, W, C); None where there is no picture
    label: str
    distance: float
    is_match: bool


@dataclass(frozen=True)
class AnsweredQuery:
    """A query with a line that says what the answer is, and its neighbours, nearest first."""

    image: NDArray[np.uint8] | None  # (H, W, C); None where there is no picture
    caption: str
    found: list[DrawnNeighbour]


def search_figure(rows: list[AnsweredQuery]) -> "Figure":
    """Draw one row per query; a neighbour of another class than most has a thick frame and a cross."""
    rows, note = _with_drawable_labels([_as_shown(row) for row in rows])
    subtitle = f"{_describe(rows)} {note}".rstrip()
    captions = [extent(row.caption, SMALL)[1] + GAP for row in rows]  # inches above the pictures
    heights = [caption + _picture_height(row) + BELOW for row, caption in zip(rows, captions, strict=True)]
    figure = new_figure(sum(heights), TITLE, subtitle, constrained=False)
    top = head_height(TITLE, subtitle)
    for row, caption, height in zip(rows, captions, heights, strict=True):
        _draw_row(figure, row, top, top + caption)
        top += height
    return figure


def _picture_height(row: AnsweredQuery) -> float:
    """Return the inches that a row's pictures take, with what is written below the neighbours."""
    return max(QUERY, small_height(row.found))


def small_height(found: list[DrawnNeighbour]) -> float:
    """Return the inches that small pictures in a row take, with what is written below them."""
    return SIDE + UNDER + max((_label_height(one) + LINE for one in found), default=0.0)


def _fit_label(one: DrawnNeighbour) -> str:
    """Return a label in at most three lines that do not reach the next picture's."""
    return fit(one.label, STEP - GAP, SMALL, lines=3) or "?"


def _label_height(one: DrawnNeighbour) -> float:
    return extent(_fit_label(one), SMALL)[1] + 0.02


def _as_shown(row: AnsweredQuery) -> AnsweredQuery:
    return replace(row, found=row.found[:SHOWN])


def _describe(rows: list[AnsweredQuery]) -> str:
    """Return the sentences that say how to read the rows."""
    found = [one for row in rows for one in row.found]
    crossed = "; crossed: of another class than most" if any(not one.is_match for one in found) else ""
    pictures = [row.image for row in rows] + [one.image for one in found]
    blank = " Grey: no picture is stored." if any(image is None for image in pictures) else ""
    return f"{SUBTITLE}{crossed}.{blank}"


def _with_drawable_labels(rows: list[AnsweredQuery]) -> tuple[list[AnsweredQuery], str]:
    """Return rows with fitted captions and, for labels that cannot be drawn, numbers in all places."""
    labels = list(dict.fromkeys(one.label for row in rows for one in row.found))
    lost = [label for label in labels if missing_letters(label)]
    words, note = drawable_names(lost, range(1, len(lost) + 1), "label")
    named = dict(zip(lost, words, strict=True))
    out = []
    for row in rows:
        caption = row.caption
        for label, word in sorted(named.items(), key=lambda pair: -len(pair[0])):  # one may hold another
            caption = caption.replace(label, word)
        found = [replace(one, label=named.get(one.label, one.label)) for one in row.found]
        out.append(replace(row, caption=fit(caption, WIDTH - 2 * QUERY_LEFT, SMALL, lines=2), found=found))
    return out, note


def _draw_row(figure: "Figure", row: AnsweredQuery, top: float, below: float) -> None:
    """Draw a query with its caption ``top`` inches from the figure's top, its pictures ``below`` inches."""
    height = figure.get_figheight()

    def place(left: float, side: float) -> "Axes":
        return figure.add_axes((left / WIDTH, 1 - (below + side) / height, side / WIDTH, side / height))

    style: dict[str, Any] = {"va": "top", "linespacing": LINE_SPACING}
    figure.text(QUERY_LEFT / WIDTH, 1 - top / height, row.caption, size=SMALL, color=INK, **style)
    _show(place(QUERY_LEFT, QUERY), row.image, INK, 1.8)
    for rank, one in enumerate(row.found):
        draw_small(figure, place(FIRST_LEFT + rank * STEP, SIDE), one)


def draw_small(figure: "Figure", axes: "Axes", one: DrawnNeighbour) -> None:
    """Draw a small picture with its label and number below; crossed out if it is no match."""
    _show(axes, one.image, "#9A9A9A" if one.is_match else ACCENT, 0.8 if one.is_match else 3.0)
    if not one.is_match:
        cross_out(axes)
    _write_below(figure, axes, one)


def _show(axes: "Axes", image: NDArray[np.uint8] | None, colour: str, width: float) -> None:
    """Draw a picture, or a grey field where there is none."""
    show_picture(axes, np.zeros((1, 1, 1), np.uint8) if image is None else image, colour, width)
    if image is None:
        axes.images[0].set_visible(False)
        axes.set_facecolor(BLANK)


def _write_below(figure: "Figure", axes: "Axes", one: DrawnNeighbour) -> None:
    """Write class and distance under a neighbour."""
    box, height = axes.get_position(), figure.get_figheight()
    middle, level = (box.x0 + box.x1) / 2, box.y0 - UNDER / height
    style: dict[str, Any] = {"size": SMALL, "ha": "center", "va": "top"}
    colour = INK if one.is_match else ACCENT
    figure.text(middle, level, _fit_label(one), color=colour, linespacing=LINE_SPACING, **style)
    figure.text(middle, level - _label_height(one) / height, f"{one.distance:.3f}", color=MUTED, **style)
