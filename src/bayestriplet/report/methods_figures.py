"""Methods beside each other: recall with intervals, learning curves, and regimes."""

import math
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayestriplet.evaluation.paired import Difference, Row, difference, half_width, rank, rows_of
from bayestriplet.methods import METHODS
from bayestriplet.report.figure import new_figure, save_figure
from bayestriplet.report.fonts import drawable_names
from bayestriplet.report.methods_table import MEASURED, describe_regime
from bayestriplet.report.style import INK, METHOD_COLOURS, MUTED, NORMAL, SMALL, import_drawing, tidy
from bayestriplet.report.text import fit, readable_or

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

OWN = tuple(name for name, method in METHODS.items() if method.draws and not method.control)
REGIME_TICKS = (-50, -20, -10, -5, -2, -1, -0.5, 0, 0.5, 1, 2, 5, 10)
ONE_SEED = "One seed, so no intervals."
WIDEST_REGIME = 2.0  # inches of a regime's name
SHOWS = {
    "recall.png": "test Recall@1 of every method, with its interval if there are several seeds",
    "learning.png": "validation Recall@1 against steps and against seconds",
    "regimes.png": "how far every method is from the best one, regime by regime",
}


def draw_comparison(summary: dict[str, Any], out: Path) -> dict[str, Path]:
    """Write recall.png and learning.png of a comparison and return their paths by file name."""
    save_figure(recall_figure(rows_of(summary), summary["floors"], summary["data"]), out / "recall.png")
    save_figure(learning_figure(summary), out / "learning.png")
    return {name: out / name for name in ("recall.png", "learning.png")}


def draw_regimes(summaries: dict[Path, dict[str, Any]], out: Path) -> dict[str, Path]:
    """Write regimes.png of comparisons, by their folders, and return its path by file name."""
    names = {folder: describe_regime(summary["settings"]) for folder, summary in summaries.items()}
    often = Counter(names.values())
    regimes = {
        name if often[name] == 1 else f"{name} ({folder.name})": rows_of(summaries[folder])
        for folder, name in names.items()
    }
    save_figure(regimes_figure(regimes), out / "regimes.png")
    return {"regimes.png": out / "regimes.png"}


def recall_figure(rows: list[Row], floors: dict[str, dict[str, float]], data: str) -> "Figure":
    """Draw test Recall@1 of every method with its 95% interval and the single seeds, best on top."""
    ranked = rank(rows)
    shown = _floors_in_reach(ranked, floors)
    several = any(len(row.values["recall@1"]) > 1 for row in rows)
    how = "Bars: 95% interval of the mean over seeds; rings: single seeds." if several else ONE_SEED
    figure = new_figure(
        0.8 + 0.36 * len(ranked),
        f"Recall@1 on the test items of {_name_data(data)}, %",
        f"{MEASURED}. {how}{' Dashed: without training.' if shown else ''}",
    )
    axes = figure.subplots()
    for place, row in enumerate(reversed(ranked)):
        values, width = row.values["recall@1"], row.half_width("recall@1")
        colour = METHOD_COLOURS[row.method]
        strong = 4.5 if row.method in OWN else 3.0
        if not math.isnan(width):
            ends = [row.mean("recall@1") - width, min(100.0, row.mean("recall@1") + width)]
            axes.plot(ends, [place] * 2, color=colour, lw=strong)
        if len(values) > 1:
            axes.plot(values, [place] * len(values), "o", ms=5, mfc="white", mec=colour, mew=1.2, zorder=3)
        axes.plot(row.mean("recall@1"), place, "o", ms=8, color=colour, zorder=4)
    axes.set_yticks(range(len(ranked)), [row.method for row in reversed(ranked)])
    _draw_floors(axes, len(ranked), shown)
    tidy(axes)
    axes.tick_params(axis="y", labelsize=NORMAL, colors=INK)
    return figure


def _floors_in_reach(rows: list[Row], floors: dict[str, dict[str, float]]) -> dict[str, float]:
    """Return the floors that are not too far below the methods to be shown at their scale."""
    lowest = min(min(row.values["recall@1"]) for row in rows)
    highest = max(max(row.values["recall@1"]) for row in rows)
    reach = max(highest - lowest, 1.0)
    recalls = {name: scores["recall@1"] for name, scores in floors.items()}
    return {name: recall for name, recall in recalls.items() if recall > lowest - 1.5 * reach}


def _draw_floors(axes: "Axes", methods: int, floors: dict[str, float]) -> None:
    """Draw a named line per floor above so many methods, each name on a level of its own."""
    for level, (name, recall) in enumerate(floors.items()):
        axes.axvline(recall, color=MUTED, lw=1, ls=(0, (4, 3)), zorder=1)
        text = axes.text(recall, methods - 0.45 + 0.5 * level, f" {name}", size=SMALL, color=MUTED, ha="left")
        text.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 0.5})
    axes.set_ylim(-0.6, methods - 0.1 + 0.5 * max(0, len(floors) - 1))


def learning_figure(summary: dict[str, Any], seconds: bool = True) -> "Figure":
    """Draw validation Recall@1 over the seeds against steps and, if wanted, against seconds."""
    several = any(len(entry["seeds"]) > 1 for entry in summary["methods"].values())
    how = "Mean over the seeds and its 95% interval." if several else ONE_SEED
    both = " Left: by steps; right: by seconds of training, validation included."
    title = f"Learning on {_name_data(summary['data'])}: validation Recall@1, %"
    figure = new_figure(3.8, title, how + both * seconds)
    panels = figure.subplots(1, 2 if seconds else 1, sharey=True, squeeze=False)[0]
    for method, entry in summary["methods"].items():
        curves = [np.asarray(seed["learning"], dtype=float) for seed in entry["seeds"].values()]
        shortest = min(len(curve) for curve in curves)
        if not shortest:
            continue
        together = np.stack([curve[:shortest] for curve in curves])  # (seeds, validations, 3)
        mean, width = together.mean(0), np.apply_along_axis(half_width, 0, together[:, :, 2])
        own = method in OWN
        style = {"color": METHOD_COLOURS[method], "lw": 2.6 if own else 1.5, "zorder": 3 if own else 2}
        for column, axes in enumerate(panels):
            x, y = mean[:, column], mean[:, 2]
            axes.plot(x, y, label=method, marker="o", ms=4 if own else 3, **style)
            if len(curves) > 1:
                axes.fill_between(x, y - width, y + width, color=style["color"], alpha=0.12, lw=0)
    for axes, name in zip(panels, ("step", "seconds"), strict=False):
        tidy(axes)
        axes.set_xlabel(name, size=SMALL, color=MUTED)
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(
        handles, names, fontsize=SMALL, frameon=False, loc="outside lower center", ncols=9, columnspacing=1.0
    )
    return figure


def regimes_figure(regimes: dict[str, list[Row]]) -> "Figure":
    """Draw, for every regime, how far each method's Recall@1 is from that of the regime's best method."""
    methods = [
        method
        for method in METHOD_COLOURS
        if any(row.method == method for rows in regimes.values() for row in rows)
    ]
    names, note = drawable_names(list(regimes), range(1, len(regimes) + 1), "regime")
    title = "Test Recall@1 of each method less the best one's, in points, regime by regime"
    figure = new_figure(0.95 + 0.55 * len(regimes), title, f"{_explain_regimes(regimes)} {note}".rstrip())
    axes = figure.subplots()
    spread = 0.7 / max(1, len(methods))
    for place, rows in enumerate(reversed(list(regimes.values()))):
        best = rank(rows)[0]
        for row in rows:
            at = place + 0.35 - spread * (methods.index(row.method) + 0.5)
            _draw_difference(axes, row, difference(row, best), at, is_best=row is best)
    _scale_points(axes)
    labels = [fit(name, WIDEST_REGIME, NORMAL, lines=2) for name in reversed(names)]
    axes.set_yticks(range(len(regimes)), labels)
    axes.set_ylim(-0.6, len(regimes) - 0.4)
    axes.axvline(0, color=INK, lw=1)
    for method in methods:
        axes.plot([], [], ls="", label=method, **_marker(method))
    tidy(axes)
    axes.tick_params(axis="y", labelsize=NORMAL, colors=INK)
    axes.legend(fontsize=SMALL, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def _scale_points(axes: "Axes") -> None:
    """Make the scale of points linear up to 1 and logarithmic beyond, with plain numbers."""
    axes.set_xscale("symlog", linthresh=1.0, linscale=1.2)
    axes.set_xlim(right=max(0.25, axes.get_xlim()[1]))
    ticks = import_drawing("matplotlib.ticker")
    axes.xaxis.set_major_locator(ticks.FixedLocator(REGIME_TICKS))
    axes.xaxis.set_major_formatter(ticks.StrMethodFormatter("{x:g}"))
    axes.xaxis.set_minor_locator(ticks.NullLocator())


def _explain_regimes(regimes: dict[str, list[Row]]) -> str:
    """Return how to read the figure: of intervals only where some are drawn."""
    seeds = [len(row.values["recall@1"]) for rows in regimes.values() for row in rows]
    if max(seeds, default=1) < 2:
        intervals = ONE_SEED
    else:
        intervals = (
            "Bars: 95% interval of the difference, paired by seed. "
            "Hollow: it holds 0, so statistically tied with the best."
        )
        intervals += " Without bars: one seed." if min(seeds) < 2 else ""
    return f"At 0: the best of the regime. {intervals} The scale is logarithmic beyond 1 point."


def _name_data(name: str) -> str:
    return readable_or(name, "the data set", 60)


def _draw_difference(axes: "Axes", row: Row, gap: Difference, at: float, is_best: bool) -> None:
    interval = None if is_best or math.isnan(gap.half_width) else gap.half_width
    marker = _marker(row.method)
    is_tied = interval is not None and not gap.is_clear
    fill = "white" if is_tied else marker["color"]
    axes.errorbar(gap.value, at, xerr=interval, lw=1.4, mfc=fill, **marker)


def _marker(method: str) -> dict[str, Any]:
    own = method in OWN
    return {"marker": "D" if own else "o", "ms": 6 if own else 5, "color": METHOD_COLOURS[method]}
