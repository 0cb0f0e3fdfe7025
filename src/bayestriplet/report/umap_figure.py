"""The map of an embedding: UMAP, in the colours of the classes, with their names."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayestriplet.report.figure import new_figure
from bayestriplet.report.fonts import MAIN, drawable_names, families_for, use_fonts
from bayestriplet.report.style import INK, MANY, MUTED, NORMAL, SMALL, class_styles, import_drawing
from bayestriplet.report.text import fit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

MOST_NAMES = 50
MOST_TRIED = 300  # names of many classes that a place is looked for
COVERED = 2, 1e-3  # points that a name of many may hide, and the share of all points, if that is more
AMID = 0.1  # share of a class's items that its name may hide among few classes
WIDEST_KEY = 1.9  # inches of a name in the legend


def umap_figure(
    positions: NDArray[np.float32],
    labels: NDArray[np.int64],
    names: list[str],
    title: str,
    subtitle: str,
) -> "Figure":
    """Draw positions (n, 2) in the colours of their classes, with the names of these."""
    present = np.unique(labels)
    step = -(-len(present) // MOST_TRIED)
    named = present[::step]  # evenly spread where there are many
    words, note = drawable_names([names[k] for k in present], present.tolist())
    where = "Names amid their class or beside it."
    if len(present) > MANY:
        where = f"{len(present):,} classes, named beside their items where there is room."
    figure = new_figure(5.6, title, f"{subtitle} {where} {note}".rstrip())
    axes = figure.add_subplot()
    styles = dict(zip(present.tolist(), class_styles(len(present)), strict=True))
    _scatter(axes, positions, labels, styles)
    axes.set(xticks=[], yticks=[])
    axes.set_xlabel("UMAP 1", size=SMALL, color=MUTED)
    axes.set_ylabel("UMAP 2", size=SMALL, color=MUTED)
    axes.margins(0.06)
    for spine in axes.spines.values():
        spine.set_color("#C4C4C4")
    if len(present) <= MANY:
        _add_legend(axes, words, list(styles.values()))
    items = [positions[labels == k] for k in named]
    if len(present) <= MANY:
        _add_names(axes, items, words, positions)
    else:
        _add_names_beside(axes, items, words[::step], positions)
    return figure


def _scatter(
    axes: "Axes",
    positions: NDArray[np.float32],
    labels: NDArray[np.int64],
    styles: dict[int, tuple[str, str]],
) -> None:
    """Draw the items of all classes, mixed."""
    order = np.random.default_rng(0).permutation(len(labels))  # so that no class covers the others
    size = float(np.clip(30_000 / len(labels), 6, 36))
    for marker in dict.fromkeys(marker for _, marker in styles.values()):
        rows = order[[styles[label][1] == marker for label in labels[order].tolist()]]
        colours = [styles[label][0] for label in labels[rows].tolist()]
        axes.scatter(
            positions[rows, 0], positions[rows, 1], s=size, c=colours, marker=marker, alpha=0.75, linewidths=0
        )


def _add_legend(axes: "Axes", names: list[str], styles: list[tuple[str, str]]) -> None:
    """Put a legend to the right of the axes."""
    lines = import_drawing("matplotlib.lines")
    keys = [lines.Line2D([], [], color=c, marker=m, linestyle="none", markersize=7) for c, m in styles]
    legend = axes.legend(
        keys,
        ["?"] * len(keys),  # the names come after: a legend drops those that begin with "_"
        loc="center left",
        bbox_to_anchor=(1.0, 0.5),
        frameon=False,
        fontsize=SMALL,
        handletextpad=0.2,
    )
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set_text(fit(name, WIDEST_KEY, SMALL))


def _add_names(
    axes: "Axes", items: list[NDArray[np.float32]], names: list[str], positions: NDArray[np.float32]
) -> None:
    """Write each class's name amid its items, or beside them if it would hide more than a few.

    Names without a free place are moved apart, with a line back.
    """
    line = {"arrowstyle": "-", "color": INK, "linewidth": 0.8, "shrinkB": 0}
    texts = _write_names(axes, items, names, 1.5, NORMAL, "bold", arrowprops=line)
    room = _Room(axes, positions)
    for text, own_items in zip(texts, items, strict=True):
        half, points = room.half_of(text), axes.transData.transform(own_items)
        places = np.concatenate(
            [np.median(points, axis=0)[None], _places_beside(points, half, 0.96)]
        )  # (9, 2)
        hidden, free = room.look(places, half)
        if (np.abs(points - places[0]) <= half).all(axis=1).mean() <= AMID:
            hidden[0] = 0
        room.take(text, places[np.where(free, hidden, len(positions)).argmin()], half)
    _move_apart(axes, texts)


def _write_names(
    axes: "Axes", items: list[NDArray[np.float32]], names: list[str], width: float, size: float, weight: str,
    **more: Any,
) -> list["Text"]:  # fmt: skip
    """Write names at the medians of their items, and settle the layout that their places depend on."""
    effects = import_drawing("matplotlib.patheffects")
    halo = [effects.withStroke(linewidth=3, foreground="white")]
    texts: list[Text] = []
    for name, own_items in zip(names, items, strict=True):
        place = np.median(own_items, axis=0).tolist()
        own = weight if families_for(name) == [MAIN] else "normal"  # other fonts may have no bold letters
        texts.append(
            axes.annotate(
                fit(name, width, size, weight=own), place, place, ha="center", va="center", size=size,
                weight=own, color=INK, path_effects=halo, **more,
            )
        )  # fmt: skip
    figure: Any = axes.figure
    use_fonts(figure)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    return texts


def _add_names_beside(
    axes: "Axes", items: list[NDArray[np.float32]], names: list[str], positions: NDArray[np.float32]
) -> None:
    """Write the names of many classes beside their items, where that hides next to nothing.

    A class whose items are far apart has no name: no place is beside all of them.
    """
    texts = _write_names(axes, items, names, 1.1, SMALL, "normal")
    room, most = _Room(axes, positions), max(COVERED[0], COVERED[1] * len(positions))
    for text, own_items in zip(texts, items, strict=True):
        half, points = room.half_of(text), axes.transData.transform(own_items)
        places = _places_beside(points, half)[:4]  # no corners: whose?
        hidden, free = room.look(places, half)
        best = int(np.where(free, hidden, len(positions) + 1).argmin())
        is_scattered = (np.ptp(np.quantile(points, (0.1, 0.9), axis=0), axis=0) > room.size / 4).any()
        if len(room.taken) == MOST_NAMES or is_scattered or not free[best] or hidden[best] > most:
            text.remove()
        else:
            room.take(text, places[best], half)


class _Room:
    """Where names may still stand on a map, in pixels."""

    def __init__(self, axes: "Axes", positions: NDArray[np.float32]) -> None:
        frame = axes.get_window_extent()
        self.axes, self.points = axes, axes.transData.transform(positions)
        self.low, self.high = np.array([frame.x0, frame.y0]), np.array([frame.x1, frame.y1])
        self.size = self.high - self.low
        self.taken = np.zeros((0, 2, 2))  # (names so far, lower left and upper right, 2)

    def half_of(self, text: "Text") -> NDArray[np.float64]:
        """Return half of the width and height that a name takes."""
        box = import_drawing("matplotlib.text").Text.get_window_extent(
            text
        )  # an annotation's has its line too
        return np.array([box.width + 4, box.height]) / 2

    def look(
        self, places: NDArray[np.float64], half: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return how many points a name at each place (P, 2) would hide, and whether it is free."""
        inside = ((places - half >= self.low) & (places + half <= self.high)).all(axis=1)
        overlap = (places[:, None] - half < self.taken[:, 1]) & (places[:, None] + half > self.taken[:, 0])
        hidden = (np.abs(self.points - places[:, None]) <= half).all(axis=2).sum(axis=1)
        free: NDArray[np.bool_] = inside & ~np.any(np.all(overlap, axis=2), axis=1)
        return hidden, free

    def take(self, text: "Text", place: NDArray[np.float64], half: NDArray[np.float64]) -> None:
        """Put a name at a place."""
        self.taken = np.concatenate([self.taken, np.stack([place - half, place + half])[None]])
        x, y = self.axes.transData.inverted().transform(place)
        text.set_position((x, y))


def _places_beside(
    points: NDArray[np.float64], half: NDArray[np.float64], most: float = 0.8
) -> NDArray[np.float64]:
    """Return the centres (8, 2) of a name above, below, right, left and at the corners of its points.

    ``most`` is the share of the points that the name stays clear of.
    """
    low, high = np.quantile(points, (1 - most) / 2, axis=0), np.quantile(points, (1 + most) / 2, axis=0)
    middle, away = (low + high) / 2, (high - low) / 2 + half + 3
    sides = [[0, 1], [0, -1], [1, 0], [-1, 0], [1, 1], [-1, 1], [1, -1], [-1, -1]]
    return middle + np.array(sides) * away


def _move_apart(axes: "Axes", texts: "Sequence[Text]") -> None:
    """Move texts until none overlaps another and all lie within the axes, as far as there is room."""
    extent = import_drawing("matplotlib.text").Text.get_window_extent  # an annotation's has its line too
    boxes = [extent(text) for text in texts]
    half = np.array([[box.width + 6, box.height + 2] for box in boxes]) / 2  # (P, 2)
    place = np.array([[(box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2] for box in boxes])
    home, frame = place.copy(), axes.get_window_extent()
    low, high = np.array([frame.x0, frame.y0]) + half, np.array([frame.x1, frame.y1]) - half
    room = half[:, None] + half[None]  # (P, P, 2)
    first = np.triu(np.ones(room.shape[:2]), 1) - np.tril(np.ones(room.shape[:2]), -1)
    place = np.clip(place, low, high)
    for _ in range(300):
        apart = place[:, None] - place[None]  # (P, P, 2)
        overlap = np.clip(room - np.abs(apart), 0, None)
        overlap *= (first != 0)[..., None]
        depth = overlap.min(-1)
        if not depth.any():
            break
        # Up or down is the shorter way for words; of two at the same height the first goes up.
        up = np.where(apart[..., 1] == 0, first, np.sign(apart[..., 1]))
        place[:, 1] += (np.where(depth > 0, overlap[..., 1], 0) * up).sum(1) * 0.3
        place = np.clip(place, low, high)
    for text, new, old in zip(texts, place, home, strict=True):
        x, y = axes.transData.inverted().transform(new)
        text.set_position((x, y))
        arrow = getattr(text, "arrow_patch", None)
        if arrow is not None and np.abs(new - old).max() < 12:
            arrow.set_visible(False)
