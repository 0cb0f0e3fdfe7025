"""An empty figure under its title, and the file that it becomes."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayestriplet.atomic import replacing
from bayestriplet.report.fonts import use_fonts
from bayestriplet.report.style import DPI, INK, LARGE, MUTED, SMALL, WIDTH, import_drawing
from bayestriplet.report.text import LINE_SPACING, extent, wrap

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEFT = 0.12  # inches of margin left and right of titles
ABOVE, BETWEEN, BELOW = 0.12, 0.06, 0.12  # inches: above the title, between the two, below the subtitle


def new_figure(body: float, title: str, subtitle: str, constrained: bool = True) -> "Figure":
    """Return a white figure with a title and, below it, a sentence that says how to read it.

    Both are wrapped to the figure's width. ``body`` inches are left below them, so the figure is
    ``body + head_height(title, subtitle)`` high, to the pixel.
    """
    figures = import_drawing("matplotlib.figure")
    title, subtitle = _wrap_head(title, subtitle)
    head = head_height(title, subtitle)
    height = round((body + head) * DPI) / DPI  # whole pixels
    layout = "constrained" if constrained else "none"
    figure: Figure = figures.Figure((WIDTH, height), dpi=DPI, facecolor="white", layout=layout)
    below = ABOVE + extent(title, LARGE, "bold")[1] + BETWEEN
    style: dict[str, Any] = {"va": "top", "linespacing": LINE_SPACING}
    figure.text(LEFT / WIDTH, 1 - ABOVE / height, title, size=LARGE, weight="bold", color=INK, **style)
    figure.text(LEFT / WIDTH, 1 - below / height, subtitle, size=SMALL, color=MUTED, **style)
    if constrained:
        engine: Any = figure.get_layout_engine()
        engine.set(rect=(0.01, 0.01, 0.98, 0.99 - head / height), w_pad=0.04, h_pad=0.05)
    return figure


def head_height(title: str, subtitle: str) -> float:
    """Return the inches that a title and a subtitle take, wrapped, with the space around them."""
    title, subtitle = _wrap_head(title, subtitle)
    return ABOVE + extent(title, LARGE, "bold")[1] + BETWEEN + extent(subtitle, SMALL)[1] + BELOW


def _wrap_head(title: str, subtitle: str) -> tuple[str, str]:
    room = WIDTH - 2 * LEFT
    return wrap(title, room, LARGE, "bold"), wrap(subtitle, room, SMALL)


def save_figure(figure: "Figure", path: Path) -> None:
    """Write a figure as PNG, whole or not at all."""
    use_fonts(figure)
    with replacing(path) as partial:
        figure.savefig(partial, format="png", dpi=DPI)
