"""Queries and their nearest neighbours, as pictures."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayestriplet.report.figure import LEFT, head_height, new_figure
from bayestriplet.report.fonts import drawable_names
from bayestriplet.report.style import ACCENT, INK, MUTED, SMALL, WIDTH, import_drawing
from bayestriplet.report.text import LINE_SPACING, extent, fit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_QUERIES = 8
SHOWN = 10  # neighbours per query
MISSES = 2  # queries chosen because their nearest neighbour is wrong
SIDE, STEP = 0.53, 0.635  # inches: of a picture, and from one to the next
QUERY_LEFT, FIRST_LEFT = 0.98, 1.66
SHARP_BELOW = 64  # pixels: smaller pictures are not smoothed
GAP = 0.1  # inches between texts, and between a text and a picture
HEADING, FOOT = 0.25, 0.06  # inches: for the names of the columns, and below all


@dataclass(frozen=True)
class Retrieval:
    """A query and its neighbours, nearest first."""

    image: NDArray[np.uint8]  # (H, W, C)
    label: int
    near: NDArray[np.uint8]  # (k, H, W, C)
    near_labels: list[int]


def choose_queries(labels: NDArray[np.int64], nearest: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """Return up to eight items of different classes, in the order of the classes.

    Two are drawn among those whose nearest neighbour (n,) is of another class, as far as there
    are such; the others at random from their class.
    """
    rng = np.random.default_rng(seed)
    chosen: dict[int, int] = {}
    for item in rng.permutation(np.flatnonzero(labels[nearest] != labels)):
        if len(chosen) < MISSES:
            chosen.setdefault(int(labels[item]), int(item))
    for k in rng.permutation(np.unique(labels)):
        if len(chosen) < MOST_QUERIES and int(k) not in chosen:
            chosen[int(k)] = int(rng.choice(np.flatnonzero(labels == k)))
    return np.array([chosen[k] for k in sorted(chosen)], dtype=np.int64)


def retrieval_figure(rows: list[Retrieval], names: list[str], title: str, subtitle: str) -> "Figure":
    """Draw one row per query: the query apart on the left, its neighbours from the nearest on.

    A neighbour of another class has a thick frame, a cross and that class's name below it.
    ``names`` are those of all labels.
    """
    words, note = _name_labels(rows, names)
    subtitle = f"{subtitle} {note}".rstrip()
    below = _room_below(rows, words)
    head = head_height(title, subtitle) + HEADING
    figure = new_figure(HEADING + len(rows) * (SIDE + below) + FOOT, title, subtitle, constrained=False)
    height = figure.get_figheight()

    def place(left: float, top: float) -> "Axes":
        return figure.add_axes((left / WIDTH, 1 - (top + SIDE) / height, SIDE / WIDTH, SIDE / height))

    _add_heading(figure, head, height)
    for number, row in enumerate(rows):
        top = head + number * (SIDE + below)
        _write_query(figure, words[row.label], 1 - (top + SIDE / 2) / height)
        show_picture(place(QUERY_LEFT, top), row.image, INK, 1.6)
        for rank, (image, label) in enumerate(zip(row.near, row.near_labels, strict=True)):
            axes = place(FIRST_LEFT + rank * STEP, top)
            _draw_neighbour(axes, image, None if label == row.label else words[label])
    return figure


def _draw_neighbour(axes: "Axes", image: NDArray[np.uint8], wrong: str | None) -> None:
    """Draw a neighbour, crossed out with its class below if that is wrong."""
    if wrong is None:
        show_picture(axes, image, "#9A9A9A", 0.8)
        return
    show_picture(axes, image, ACCENT, 3.0)
    cross_out(axes)
    axes.set_xlabel(_fit_below(wrong), size=SMALL, color=ACCENT, labelpad=3, linespacing=LINE_SPACING)


def _name_labels(rows: list[Retrieval], names: list[str]) -> tuple[dict[int, str], str]:
    """Return the names of all labels that are shown, and a sentence if some cannot be drawn."""
    shown = sorted({label for row in rows for label in (row.label, *row.near_labels)})
    words, note = drawable_names([names[label] for label in shown], shown)
    return dict(zip(shown, words, strict=True)), note


def _fit_below(name: str) -> str:
    """Return a name in at most three lines that do not reach the next picture's."""
    return fit(name, STEP - GAP / 2, SMALL, lines=3)


def _room_below(rows: list[Retrieval], words: dict[int, str]) -> float:
    """Return the inches between the rows of pictures, for the names of wrong neighbours."""
    wrong = {label for row in rows for label in row.near_labels if label != row.label}
    return max((extent(_fit_below(words[label]), SMALL)[1] for label in wrong), default=0.0) + 0.14


def _write_query(figure: "Figure", name: str, middle: float) -> None:
    """Write the class of a query left of its picture."""
    label = fit(name, QUERY_LEFT - GAP - LEFT, SMALL, lines=3)
    figure.text(
        (QUERY_LEFT - GAP) / WIDTH, middle, label, size=SMALL, color=INK, ha="right", va="center",
        linespacing=LINE_SPACING,
    )  # fmt: skip


def _add_heading(figure: "Figure", head: float, height: float) -> None:
    """Name the columns."""
    level = 1 - (head - 0.07) / height
    figure.text((QUERY_LEFT + SIDE / 2) / WIDTH, level, "query", size=SMALL, color=MUTED, ha="center")
    figure.text(FIRST_LEFT / WIDTH, level, "nearest", size=SMALL, color=MUTED, ha="left")
    last = FIRST_LEFT + (SHOWN - 1) * STEP + SIDE / 2
    figure.text(last / WIDTH, level, f"{SHOWN}th", size=SMALL, color=MUTED, ha="center")


def show_picture(axes: "Axes", image: NDArray[np.uint8], colour: str, width: float) -> None:
    """Draw a picture (H, W, C) with a frame; one channel in grey, few pixels as they are."""
    smooth = "antialiased" if min(image.shape[:2]) >= SHARP_BELOW else "nearest"
    shown = image[..., 0] if image.shape[2] == 1 else image
    axes.imshow(shown, cmap="gray", vmin=0, vmax=255, interpolation=smooth, aspect="auto")
    axes.set(xticks=[], yticks=[])
    patches: Any = import_drawing("matplotlib.patches")
    frame = patches.Rectangle((0, 0), 1, 1, transform=axes.transAxes, fill=False, clip_on=False, zorder=3)
    frame.set(edgecolor=colour, linewidth=width)  # one line: the corners of four would not meet
    axes.spines[:].set_visible(False)
    axes.add_patch(frame)


def cross_out(axes: "Axes") -> None:
    """Put a cross on a corner."""
    style: dict[str, Any] = {"transform": axes.transAxes, "clip_on": False, "zorder": 5}
    axes.plot(0.86, 0.86, marker="s", markersize=9, color="white", markeredgewidth=0, **style)
    axes.plot(0.86, 0.86, marker="x", markersize=6.5, color=ACCENT, markeredgewidth=2.2, **style)
