"""Which classes are close: confusion of nearest neighbours, and distances between class posteriors."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayestriplet.report.figure import new_figure
from bayestriplet.report.fonts import drawable_names
from bayestriplet.report.style import ACCENT, INK, MUTED, NORMAL, SMALL, WIDTH, import_drawing
from bayestriplet.report.text import extent, fit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEGIBLE_CELLS = 12  # classes whose cells hold numbers
LEGIBLE_DECIMALS = 10  # classes whose cells hold numbers such as 98.7
LEGIBLE_NAMES = 32  # classes that are all named
SIDE_OF_MANY = 5.0  # inches of a table of many classes
SUBTITLE = "Strong colour: hard to tell apart. The diagonal is muted so that errors show."


def classes_figure(
    errors: NDArray[np.float64], distances: NDArray[np.float64], names: list[str], title: str
) -> "Figure":
    """Draw the confusion (K, K) in percent beside the posteriors' distances (K, K)."""
    many = len(names) > LEGIBLE_CELLS
    drawn, note = drawable_names(names)
    lines = 2 if len(names) > 4 else 4
    words = [fit(name, 1.8, SMALL) if many else fit(name, 0.9, SMALL, lines) for name in drawn]
    longest = max(extent(word, SMALL)[0] for word in words)  # inches of turned names below the panels
    side = (WIDTH - 0.65 - longest) / 2  # of a panel, if two stand beside each other
    body = 2 * (5.7 + longest) if many else side + longest + 0.95
    figure = new_figure(body, title, f"{SUBTITLE} {note}".rstrip())
    grid = figure.subplots(2, 1) if many else figure.subplots(1, 2)
    cell = (SIDE_OF_MANY if many else side) / min(len(names), LEGIBLE_NAMES)  # inches
    turned = longest > 0.85 * cell
    _draw_table(grid[0], errors, words, turned, is_distance=False)
    _draw_table(grid[1], distances, words, turned, is_distance=True)
    grid[0].set_title("Nearest neighbour's class, % per row", loc="left", size=NORMAL, color=INK)
    grid[1].set_title("Bhattacharyya distance of posteriors", loc="left", size=NORMAL, color=INK)
    grid[0].set_ylabel("class of the item", size=SMALL, color=MUTED)
    grid[0].set_xlabel("class of its nearest neighbour", size=SMALL, color=MUTED)
    if not many:
        grid[1].set_yticklabels([])
        for axes in grid:
            axes.set_anchor("N")  # what room is left is below
    return figure


def _draw_table(
    axes: "Axes", table: NDArray[np.float64], words: list[str], turned: bool, is_distance: bool
) -> None:
    """Draw a table with strong off-diagonal cells where a share is large, or a distance small."""
    number = len(words)
    shown = np.ma.masked_invalid(np.where(np.eye(number, dtype=bool), np.nan, table))
    image = axes.imshow(shown, cmap=_scale(is_distance), norm=_norm(shown.compressed(), is_distance))
    every = -(-number // LEGIBLE_NAMES)
    places = np.arange(0, number, every)
    axes.set_xticks(places, [words[k] for k in places], rotation=90 if turned else 0)
    axes.set_yticks(places, [words[k] for k in places])
    axes.tick_params(labelsize=SMALL, colors=INK, length=0, pad=3)
    for spine in axes.spines.values():
        spine.set_color("#C4C4C4")
    if number <= LEGIBLE_CELLS:
        _write_cells(axes, table, image, exact=number <= LEGIBLE_DECIMALS and not is_distance)
    else:
        _add_scale(axes, image)


def _add_scale(axes: "Axes", image: Any) -> None:
    """Put a scale with plain numbers to the right of a table."""
    figure: Any = axes.figure
    low, high = image.norm.vmin, image.norm.vmax
    ticks = np.geomspace(low, high, 5) if low > 0 else np.linspace(low, high, 5)
    bar = figure.colorbar(image, ax=axes, shrink=0.7, pad=0.02, ticks=ticks, format="%.3g")
    bar.minorticks_off()
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=SMALL, length=0, colors=INK)


def _scale(is_distance: bool) -> Any:
    colours = import_drawing("matplotlib.colors")
    ends = ["#56B4E9", "#FFFFFF"] if is_distance else ["#FFFFFF", ACCENT]
    return colours.LinearSegmentedColormap.from_list("cells", ends).with_extremes(bad="#ECECEC")


def _norm(values: NDArray[np.float64], is_distance: bool) -> Any:
    """Return how values become colours: shares from 0 on, distances by their logarithm."""
    colours = import_drawing("matplotlib.colors")
    high = max(float(values.max(initial=0.0)), 1e-3)
    if not is_distance:
        return colours.Normalize(0, high)
    low = max(float(values.min(initial=high)), 1e-3)
    return colours.LogNorm(low, max(high, 1.01 * low), clip=True)


def _write_cells(axes: "Axes", table: NDArray[np.float64], image: Any, exact: bool) -> None:
    """Write the numbers, in white where that contrasts better; zeros and missing ones are left away."""
    for (row, column), value in np.ndenumerate(table):
        if not np.isfinite(value) or value == 0:
            continue
        linear = np.array(image.cmap(image.norm(value))[:3]) ** 2.2
        dark = linear @ (0.2126, 0.7152, 0.0722) < 0.2
        ink = MUTED if row == column else "white" if dark else INK
        axes.text(column, row, cell_text(value, exact), size=SMALL, color=ink, ha="center", va="center")


def cell_text(value: float, exact: bool = False) -> str:
    """Return a number in at most four characters, ``exact`` with a decimal up to 100.

    Only what is 100 reads as 100, and only what is 0 as 0.

    >>> [cell_text(value) for value in (0.04, 3.14159, 99.96, 100.0, 12345.0)]
    ['<0.1', '3.1', '99', '100', '1e4']
    >>> cell_text(99.96, exact=True)
    '99.9'
    """
    if value < 0.1:
        return "<0.1"
    if value < 100:
        digits = 1 if exact or value < 9.95 else 0
        return f"{min(value, 99.9 if exact else 99.0):.{digits}f}"
    return f"{value:.0f}" if value < 9999.5 else f"{value:.0e}".replace("e+0", "e").replace("e+", "e")
