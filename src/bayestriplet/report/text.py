"""Text as it is drawn: how large it is, wrapped and shortened until it fits."""

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from bayestriplet.report.fonts import families_for, missing_letters
from bayestriplet.report.style import DPI, import_drawing

if TYPE_CHECKING:
    from matplotlib.backends.backend_agg import RendererAgg
    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontProperties

LONGEST = 200  # characters of a name that are looked at
LINE_SPACING = 1.2
BREAKS = re.compile(r"(?<=[_/])(?=[^_/])|(?<=\w-)(?=[^\W\d])|(?<=\d\.)(?=[^\W\d_])")  # in 045.Northern_Fulmar


def readable(name: str, width: int = LONGEST) -> str:
    """Return a name in at most ``width`` characters: its start and its end, and safe to draw.

    Both ends are kept because names of one set often share a start. A dollar sign is escaped,
    which matplotlib would take for the start of a formula; letters that no font has are left out.

    >>> readable("adenocarcinoma, well differentiated", 15)
    'adenocar…tiated'
    """
    plain = " ".join("".join(c if c.isprintable() else " " for c in name).split())
    missing = missing_letters(plain)
    if missing:
        plain = re.sub(r"…+", "…", "".join("…" if c in missing else c for c in plain))
    if len(plain) > width:
        end = (width - 1) * 3 // 7
        plain = f"{plain[: width - 1 - end].rstrip()}…{plain[len(plain) - end :].lstrip()}"
    return plain.replace("$", r"\$")


def readable_or(name: str, instead: str, width: int = LONGEST) -> str:
    """Return a name as ``readable`` does, or what stands for it if it cannot be drawn whole."""
    return instead if missing_letters(name) else readable(name, width)


def fit(name: str, width: float, size: float, lines: int = 1, weight: str = "normal") -> str:
    """Return a name that takes at most so many lines, each at most ``width`` inches wide."""

    def attempt(letters: int) -> str | None:
        short = readable(name, letters)
        if line_width(short, size, weight) <= width:
            return short
        wrapped = wrap(short, width, size, weight) if lines > 1 or letters == 1 else "\n"
        return wrapped if wrapped.count("\n") < lines else None

    low, high = 1, min(len(name), LONGEST)
    best = attempt(high) if high else ""
    while best is None and low < high - 1:
        middle = (low + high) // 2
        low, high = (middle, high) if attempt(middle) is not None else (low, middle)
    return attempt(low) or "…" if best is None else best


def wrap(text: str, width: float, size: float, weight: str = "normal") -> str:
    """Return a text with line breaks so that no line is wider than ``width`` inches.

    Breaks fall between words and after signs that join them (``_``, ``/``, ``-``), and elsewhere in
    a word only where it is wider than a line. Breaks that the text has are kept.
    """
    lines: list[str] = []
    for paragraph in text.split("\n"):
        lines += _wrap_paragraph(paragraph.split(), width, size, weight)
    return "\n".join(lines)


def _wrap_paragraph(words: list[str], width: float, size: float, weight: str) -> list[str]:
    lines = [""]
    for part, gap in ((part, " " * (not k)) for word in words for k, part in enumerate(BREAKS.split(word))):
        longer = f"{lines[-1]}{gap}{part}".lstrip()
        if line_width(longer, size, weight) <= width:
            lines[-1] = longer
            continue
        lines += _break_word(part, width, size, weight)
    return lines[1:] if len(lines) > 1 and not lines[0] else lines


def _break_word(word: str, width: float, size: float, weight: str) -> list[str]:
    """Return the parts of a word, none wider than a line, of about the same width."""
    parts = _cut_word(word, width, size, weight)
    even = 1.35 * line_width(word, size, weight) / len(parts)
    evenly = _cut_word(word, even, size, weight) if even < width else parts
    return evenly if len(evenly) == len(parts) else parts


def _cut_word(word: str, width: float, size: float, weight: str) -> list[str]:
    """Return the parts of a word, each as wide as a line may be, with hyphens between letters."""
    letters = re.findall(r"\\\$|.", word)  # an escaped dollar sign is one letter
    parts = [letters[0]]
    for before, letter, after in zip(letters, letters[1:], [*letters[2:], ""], strict=False):
        longer = parts[-1] + letter
        if line_width(longer + _hyphen(letter, after), size, weight) <= width:
            parts[-1] = longer
        else:
            parts[-1] += _hyphen(before, letter)
            parts.append(letter)
    return parts


def _hyphen(before: str, after: str) -> str:
    """Return what stands at the end of a line between two letters: nothing in scripts without case."""
    return "-" if all(c.lower() != c.upper() for c in (before, after)) else ""


@lru_cache(8192)
def line_width(line: str, size: float, weight: str = "normal") -> float:
    """Return the width in inches of a line as it is drawn; quicker than ``extent``."""
    renderer: Any = _scratch()[1]
    font = _font(tuple(families_for(line)), size, weight)
    width, _, _ = renderer.get_text_width_height_descent(line.replace(r"\$", "$"), font, ismath=False)
    return float(width) / DPI


@cache
def _font(families: tuple[str, ...], size: float, weight: str) -> "FontProperties":
    manager: Any = import_drawing("matplotlib.font_manager")
    font: FontProperties = manager.FontProperties(family=list(families), size=size, weight=weight)
    return font


@lru_cache(1024)
def extent(text: str, size: float, weight: str = "normal") -> tuple[float, float]:
    """Return the width and height in inches of a text as it is drawn, line breaks included."""
    if not text:
        return 0.0, 0.0
    figure, renderer = _scratch()
    drawn = figure.text(
        0, 0, text, size=size, weight=weight, family=families_for(text), linespacing=LINE_SPACING
    )
    box = drawn.get_window_extent(renderer)
    drawn.remove()
    return float(box.width) / DPI, float(box.height) / DPI


@cache
def _scratch() -> "tuple[Figure, RendererAgg]":
    """Return a figure that nobody sees, to measure texts in."""
    figure: Any = import_drawing("matplotlib.figure").Figure((1, 1), dpi=DPI)
    return figure, import_drawing("matplotlib.backends.backend_agg").FigureCanvasAgg(figure).get_renderer()
