"""Whether probabilities can be trusted: how often a confidence is right, and what it is good for."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bayestriplet.evaluation.calibration import (
    BINS,
    Floats,
    Judged,
    Reliability,
    in_bins,
    selective_accuracy,
    wilson_interval,
)
from bayestriplet.report.figure import new_figure
from bayestriplet.report.style import ACCENT, INK, MUTED, NORMAL, SMALL, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUBTITLE = (
    "Left: on the line, probabilities are honest; bars are 95% intervals, areas grow with the items.\n"
    "Right: the likeliest class is right this often if only the most confident items are answered."
)


def reliability_figure(judged: Judged, about: str) -> "Figure":
    """Draw how probabilities of items fared: calibration beside selective accuracy."""
    found = in_bins(judged.confidence, judged.right)
    title = f"Probabilities of {about}: calibration error {100 * found.error:.2f}%"
    figure = new_figure(3.65, title, SUBTITLE)
    left, right = figure.subplots(1, 2)
    _draw_reliability(left, found)
    _draw_selection(right, judged.confidence, judged.right)
    return figure


def _draw_reliability(axes: "Axes", found: Reliability) -> None:
    used = found.number > 0
    number, confidence, accuracy = found.number[used], found.confidence[used], found.accuracy[used]
    low, high = wilson_interval(accuracy * number, number)
    axes.plot([0, 100], [0, 100], color=MUTED, linewidth=1.2, linestyle=(0, (4, 3)))
    reach = 100 * np.abs(np.stack([accuracy - low, high - accuracy]))
    axes.errorbar(
        100 * confidence, 100 * accuracy, reach, fmt="none", ecolor=ACCENT, elinewidth=1.4, alpha=0.6
    )
    size = 20 + 180 * number / number.max()
    axes.scatter(100 * confidence, 100 * accuracy, size, color=ACCENT, edgecolor="white", zorder=3)
    axes.set_xlim(-3, 104)
    axes.set_ylim(-3, 104)
    _name(
        axes, f"Right, % of items, in {BINS} bins of confidence", "confidence: probability of that class, %"
    )


def _draw_selection(axes: "Axes", confidence: Floats, right: NDArray[np.bool_]) -> None:
    share, accuracy = selective_accuracy(confidence, right)
    start = min(len(share) - 1, len(share) // 20)  # the first few items alone only jitter
    axes.plot(100 * share[start:], 100 * accuracy[start:], color=ACCENT, linewidth=2.2)
    axes.set_xlim(0, 104)
    lowest = 100 * float(accuracy[start:].min())
    room = max(100 - lowest, 0.5) if lowest < 100 else 5.0  # nothing is wrong: no scale of its own
    axes.set_ylim(100 - 1.2 * room, 100 + 0.04 * room)
    axes.ticklabel_format(axis="y", useOffset=False)
    axes.annotate(
        f"all items: {100 * accuracy[-1]:.1f}%",
        (100, lowest),  # below the curve, which may rise to its end
        xytext=(-8, -4),
        textcoords="offset points",
        size=SMALL,
        color=INK,
        ha="right",
        va="top",
    )
    _name(axes, "Right, % of the items answered", "items answered, most confident first, %")


def _name(axes: "Axes", title: str, below: str) -> None:
    tidy(axes)
    axes.set_title(title, loc="left", size=NORMAL, color=INK)
    axes.set_xlabel(below, size=SMALL, color=MUTED)
