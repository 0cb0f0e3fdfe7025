"""How figures look: colours, markers and sizes.

Figures are 8 inches wide, so that 9 points stay legible when a page shows them 800 pixels wide.
"""

import importlib
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayestriplet.errors import InputError, MissingDependencyError
from bayestriplet.methods import METHODS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a notebook's missing widgets are no concern of ours
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
