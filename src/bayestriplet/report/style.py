"""How figures look: colours, text, an empty figure and the file it becomes.

Figures are 8 inches wide, so that 9 points stay legible when a page shows them 800 pixels wide.
"""

import importlib
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayestriplet.atomic import replacing
from bayestriplet.errors import InputError, MissingDependencyError
from bayestriplet.methods import METHODS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 8.0  # inches
DPI = 150
SMALL, NORMAL, LARGE = 9.0, 10.0, 12.0  # points
INK, MUTED, GRID = "#1A1A1A", "#5A5A5A", "#E3E3E3"
ACCENT = "#D55E00"
MARKERS = ("o", "^", "s", "D", "v")
MANY = 20  # classes that a legend still serves

# Okabe and Ito's eight, the pale yellow last, and two more that differ from them in lightness.
CLASS_COLOURS = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000", "#F0E442",
    "#8A8A8A", "#6B3A1E",
)  # fmt: skip

METHOD_COLOURS = {name: method.colour for name, method in METHODS.items()}


def import_drawing(name: str) -> Any:
    """Return a module of matplotlib or UMAP, which take seconds to import and are optional."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingDependencyError(
            "figures need matplotlib and umap-learn: pip install 'bayestriplet[figures]'"
        ) from error


def class_styles(number: int) -> list[tuple[str, str]]:
    """Return colour and marker of every class.

    Up to 10 classes differ in colour, up to 20 in colour or marker; more are evenly spread
    over an ordered scale (viridis), neighbours with different markers.
    """
    if number <= MANY:
        size = len(CLASS_COLOURS)
        return [(CLASS_COLOURS[k % size], MARKERS[k // size]) for k in range(number)]
    scale = import_drawing("matplotlib").colormaps["viridis"]
    to_hex = import_drawing("matplotlib.colors").to_hex
    return [(to_hex(scale(0.95 * k / (number - 1))), MARKERS[k % len(MARKERS)]) for k in range(number)]


def readable(name: str, width: int) -> str:
    """Return a class name in at most ``width`` characters: its start and its end, and safe to draw.

    Both ends are kept because names of one set often share a start. A dollar sign is escaped,
    which matplotlib would take for the start of a formula.

    >>> readable("adenocarcinoma, well differentiated", 15)
    'adenocar…tiated'
    """
    plain = " ".join("".join(c if c.isprintable() else " " for c in name).split())
    if len(plain) > width:
        end = (width - 1) * 3 // 7
        plain = f"{plain[: width - 1 - end].rstrip()}…{plain[len(plain) - end :].lstrip()}"
    return plain.replace("$", r"\$")


def new_figure(height: float, title: str, subtitle: str, constrained: bool = True) -> "Figure":
    """Return a white figure with a title and a line below it that says how to read it."""
    figures = import_drawing("matplotlib.figure")
    layout = "constrained" if constrained else "none"
    figure: Figure = figures.Figure((WIDTH, height), dpi=DPI, facecolor="white", layout=layout)
    top = 1 - 0.12 / height
    figure.text(0.015, top, title, size=LARGE, weight="bold", color=INK, va="top")
    figure.text(0.015, top - 0.24 / height, subtitle, size=SMALL, color=MUTED, va="top", linespacing=1.25)
    if constrained:
        engine: Any = figure.get_layout_engine()
        head = (0.57 + 0.17 * subtitle.count("\n")) / height
        engine.set(rect=(0.01, 0.01, 0.98, 0.98 - head), w_pad=0.04, h_pad=0.05)
    return figure


def tidy(axes: "Axes") -> None:
    """Give axes a light grid and only the lines that carry something."""
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=SMALL, colors=MUTED, length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color("#9A9A9A")


def make_folder(out: Path) -> None:
    """Make the folder that figures go into."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{out} cannot be used for figures: {error.strerror}; choose another --out"
        ) from None


def save_figure(figure: "Figure", path: Path) -> None:
    """Write a figure as PNG, whole or not at all; letters that the font lacks become boxes."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        with replacing(path) as partial:
            figure.savefig(partial, format="png", dpi=DPI)
