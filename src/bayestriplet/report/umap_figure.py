"""The map of an embedding: UMAP, one colour and one name per class."""

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
WIDEST_KEY = 1.9  # inches of a name in the legend


def umap_figure(
    positions: NDArray[np.float32],
    labels: NDArray[np.int64],
    names: list[str],
    title: str,
    subtitle: str,
) -> "Figure":
    """Draw positions (n, 2) with one colour per class and its name at the median of its items."""
    present = np.unique(labels)
    named = present[:: -(-len(present) // MOST_TRIED)]  # evenly spread where there are many
    words, note = drawable_names([names[k] for k in named], named.tolist())
    if len(present) > MANY:
        note = f"{len(present):,} classes, named where there is room. {note}".rstrip()
    figure = new_figure(5.6, title, f"{subtitle} {note}".rstrip())
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
        _add_names(axes, items, words)
    else:
        _add_names_beside(axes, items, words, positions)
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


def _add_names(axes: "Axes", items: list[NDArray[np.float32]], names: list[str]) -> None:
    """Write each class's name amid its items, or above them if it would hide them.

    Names are moved apart where they would overlap, with a line back.
    """
    line = {"arrowstyle": "-", "color": INK, "linewidth": 0.8, "shrinkB": 0}
    texts = _write_names(axes, items, names, 1.5, NORMAL, "bold", arrowprops=line)
    for text, own_items in zip(texts, items, strict=True):
        _uncover(axes, text, own_items)
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
    """Write the names of many classes beside their items, where that hides next to nothing."""
    extent = import_drawing("matplotlib.text").Text.get_window_extent
    texts = _write_names(axes, items, names, 1.1, SMALL, "normal")
    points, frame = axes.transData.transform(positions), axes.get_window_extent()
    low, high = np.array([frame.x0, frame.y0]), np.array([frame.x1, frame.y1])
    most = max(COVERED[0], COVERED[1] * len(points))
    taken = np.zeros((0, 2, 2))  # (names so far, lower left and upper right, 2)
    for text, own_items in zip(texts, items, strict=True):
        half = np.array([extent(text).width + 4, extent(text).height]) / 2
        places = _places_beside(axes.transData.transform(own_items), half)  # (4, 2)
        inside = ((places - half >= low) & (places + half <= high)).all(axis=1)
        overlap = (places[:, None] - half < taken[:, 1]) & (places[:, None] + half > taken[:, 0])  # (4, n, 2)
        free = inside & ~np.any(np.all(overlap, axis=2), axis=1)
        hidden = (np.abs(points - places[:, None]) <= half).all(axis=2).sum(axis=1)
        best = int(np.where(free, hidden, len(points) + 1).argmin())
        if len(taken) == MOST_NAMES or not free[best] or hidden[best] > most:
            text.remove()
            continue
        taken = np.concatenate([taken, np.stack([places[best] - half, places[best] + half])[None]])
        x, y = axes.transData.inverted().transform(places[best])
        text.set_position((x, y))


def _places_beside(points: NDArray[np.float64], half: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the centres of a name above, below, right and left of most of its points (n, 2)."""
    low, high = np.quantile(points, 0.1, axis=0), np.quantile(points, 0.9, axis=0)
    middle, away = (low + high) / 2, (high - low) / 2 + half + 3
    return middle + np.array([[0, 1], [0, -1], [1, 0], [-1, 0]]) * away


def _uncover(axes: "Axes", text: "Text", items: NDArray[np.float32]) -> None:
    """Move a name above the items (n, 2) of its class if it would hide a third of them."""
    box = import_drawing("matplotlib.text").Text.get_window_extent(text)
    places = axes.transData.transform(items)
    hidden = ((places >= box.min) & (places <= box.max)).all(1)
    if hidden.mean() > 1 / 3:
        near = places[np.abs(places[:, 1] - np.median(places[:, 1])) <= 2 * box.height]
        above = (box.x0 + box.x1) / 2, near[:, 1].max() + box.height
        x, y = axes.transData.inverted().transform(above)
        text.set_position((x, y))


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
