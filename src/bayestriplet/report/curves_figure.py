"""The course of a training: loss, active triplets, validation Recall@1."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayestriplet.report.figure import new_figure
from bayestriplet.report.style import INK, MUTED, NORMAL, SMALL, tidy
from bayestriplet.runs.metrics import Curves

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEGIBLE_MARKERS = 60


def smooth(values: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    """Return centred means of up to ``width`` values (n,), of fewer at the ends; NaN is left out."""
    known = ~np.isnan(values)
    window = np.ones(width)
    total = np.convolve(np.where(known, values, 0.0), window)
    number = np.convolve(known.astype(np.float64), window)
    middle = slice((width - 1) // 2, (width - 1) // 2 + len(values))
    with np.errstate(invalid="ignore"):
        return total[middle] / number[middle]


def curves_figure(curves: Curves, title: str, colour: str) -> "Figure":
    """Draw one panel per measure over the steps; the best step is marked in all of them."""
    panels = [("Loss of a batch", curves.loss), ("Active triplets, %", 100 * curves.active)]
    panels = [(name, values) for name, values in panels if not np.isnan(values).all()]
    has_recall = curves.best is not None
    width = max(1, len(curves.step) // 20)
    note = f"Thin: single batches; thick: mean of {width}." if width > 1 else "Single batches."
    if has_recall:
        note += " Dashed: the best validation Recall@1, whose network is kept."
    number = len(panels) + has_recall
    figure = new_figure(0.15 + 1.75 * number, title, note)
    grid = figure.subplots(number, 1, sharex=True, squeeze=False)[:, 0]
    for axes, (name, values) in zip(grid, panels, strict=False):
        _draw_noisy(axes, curves.step, values, width, colour)
        _name_panel(axes, name)
    if has_recall:
        _draw_recall(grid[-1], curves, colour)
    for axes in grid:
        tidy(axes)
        if curves.best is not None:
            axes.axvline(curves.step[curves.best], color=INK, linewidth=1.2, linestyle=(0, (4, 3)), zorder=1)
    grid[-1].set_xlabel("step", size=SMALL, color=MUTED)
    grid[-1].xaxis.get_major_locator().set_params(integer=True)
    return figure


def _name_panel(axes: "Axes", name: str) -> None:
    axes.set_title(name, loc="left", size=NORMAL, color=INK)


def _draw_noisy(
    axes: "Axes", step: NDArray[np.float64], values: NDArray[np.float64], width: int, colour: str
) -> None:
    known = ~np.isnan(values)
    marker = "o" if known.sum() < 3 else None
    thin: dict[str, Any] = {"linewidth": 0.9, "alpha": 0.4} if width > 1 else {"linewidth": 1.8}
    axes.plot(step[known], values[known], color=colour, marker=marker, **thin)
    if width > 1:
        axes.plot(step[known], smooth(values[known], width), color=colour, linewidth=2.2)
    axes.set_ylim(bottom=min(0.0, float(values[known].min())))


def _draw_recall(axes: "Axes", curves: Curves, colour: str) -> None:
    """Draw Recall@1 with the best value written beside its point, towards the side that has room."""
    known = ~np.isnan(curves.recall)
    best = curves.best or 0
    marker = "o" if known.sum() <= LEGIBLE_MARKERS else None
    axes.plot(
        curves.step[known], 100 * curves.recall[known], color=colour, linewidth=2.2, marker=marker, ms=5
    )
    place = curves.step[best], 100 * curves.recall[best]
    axes.plot(*place, marker="o", markersize=10, markerfacecolor="none", color=INK, markeredgewidth=1.6)
    on_right = curves.step[best] > curves.step.mean()
    axes.annotate(
        f"best: {place[1]:.1f} at step {int(place[0]):,}",
        (place[0], 0.06),  # beside the dashed line, below the curve, which rises
        xycoords=("data", "axes fraction"),
        xytext=(-6 if on_right else 6, 0),
        textcoords="offset points",
        size=SMALL,
        color=INK,
        ha="right" if on_right else "left",
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5, "alpha": 0.85},
    )
    axes.margins(y=0.15)
    _name_panel(axes, "Validation Recall@1, %")
