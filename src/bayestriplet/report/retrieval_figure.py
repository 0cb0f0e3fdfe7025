"""Queries and their nearest neighbours, as pictures."""

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayestriplet.report.style import ACCENT, INK, MUTED, SMALL, WIDTH, new_figure, readable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_QUERIES = 8
SHOWN = 10  # neighbours a query
MISSES = 2  # queries chosen because their nearest neighbour is wrong
SIDE, STEP = 0.53, 0.635  # inches: of a picture, and from one to the next
QUERY_LEFT, FIRST_LEFT = 0.98, 1.66
SHARP_BELOW = 64  # pixels: smaller pictures are not smoothed
LINE = 0.155  # inches, of text


@dataclass(frozen=True)
class Retrieval:
    """A query and its neighbours, nearest first."""

    image: NDArray[np.uint8]  # (H, W, C)
    label: str
    near: NDArray[np.uint8]  # (k, H, W, C)
    near_labels: list[str]


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


def retrieval_figure(rows: list[Retrieval], title: str, subtitle: str) -> "Figure":
    """Draw a row a query: the query apart on the left, its neighbours from the nearest on.

    A neighbour of another class has a thick frame, a cross and that class's name below it.
    """
    wrong = [_name_lines(name) for row in rows for name in row.near_labels if name != row.label]
    below = LINE * max((len(lines) for lines in wrong), default=0) + 0.12
    head, foot = 0.86, 0.06
    height = head + len(rows) * (SIDE + below) + foot
    figure = new_figure(height, title, subtitle, constrained=False)

    def place(left: float, top: float) -> "Axes":
        return figure.add_axes((left / WIDTH, 1 - (top + SIDE) / height, SIDE / WIDTH, SIDE / height))

    _add_heading(figure, head, height)
    for number, row in enumerate(rows):
        top = head + number * (SIDE + below)
        middle = 1 - (top + SIDE / 2) / height
        label = "\n".join(_name_lines(row.label, 11))
        figure.text((QUERY_LEFT - 0.1) / WIDTH, middle, label, size=SMALL, color=INK, ha="right", va="center")
        show_picture(place(QUERY_LEFT, top), row.image, INK, 1.6)
        for rank, (image, name) in enumerate(zip(row.near, row.near_labels, strict=True)):
            axes = place(FIRST_LEFT + rank * STEP, top)
            if name == row.label:
                show_picture(axes, image, "#9A9A9A", 0.8)
            else:
                show_picture(axes, image, ACCENT, 3.0)
                cross_out(axes)
                label = "\n".join(_name_lines(name))
                axes.set_xlabel(label, size=SMALL, color=ACCENT, labelpad=3, linespacing=1.0)
    return figure


def _name_lines(name: str, width: int = 7) -> list[str]:
    """Return a name in at most two lines of ``width`` characters."""
    short = readable(name, 2 * width).replace(r"\$", "$")
    lines = textwrap.wrap(short, width) or [""]
    if len(lines) > 2:  # the words do not fall well
        lines = [short[:width], short[width:]]
    return [line.replace("$", r"\$") for line in lines]


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
    for spine in axes.spines.values():
        spine.set(color=colour, linewidth=width)


def cross_out(axes: "Axes") -> None:
    """Put a cross on a corner."""
    style: dict[str, Any] = {"transform": axes.transAxes, "clip_on": False, "zorder": 5}
    axes.plot(0.86, 0.86, marker="s", markersize=9, color="white", markeredgewidth=0, **style)
    axes.plot(0.86, 0.86, marker="x", markersize=6.5, color=ACCENT, markeredgewidth=2.2, **style)
