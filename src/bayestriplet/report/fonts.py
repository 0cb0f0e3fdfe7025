"""Which installed fonts draw a text, and what stands for a name that none of them can draw."""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from bayestriplet.report.style import import_drawing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAIN = "DejaVu Sans"  # comes with matplotlib: Latin, Greek, Cyrillic, Hebrew, Arabic, symbols
# Fonts of many letters, looked into before all others.
LARGE_FONTS = (
    "Noto Sans CJK SC", "Noto Sans CJK JP", "Source Han Sans SC", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei",
    "Droid Sans Fallback", "Microsoft YaHei", "SimHei", "PingFang SC", "Arial Unicode MS", "Noto Sans",
)  # fmt: skip
# Fonts whose glyphs are boxes, pictures that cannot be drawn in one colour, or of an encoding of their own.
UNFIT = ("last resort", "color emoji", "colour emoji", "stixnonunicode", "stixsize", "cmb10", "cmex10",
         "cmmi10", "cmr10", "cmss10", "cmsy10", "cmtt10", "cmti10")  # fmt: skip
REGULAR, BOLD = 400, 700


def missing_letters(text: str) -> set[str]:
    """Return the characters of a text that no font of this machine can draw."""
    return {letter for letter, family in _find_families(text).items() if family is None}


def families_for(text: str) -> list[str]:
    """Return the font families that draw a text together, the usual one first."""
    return [*dict.fromkeys([MAIN, *(family for family in _find_families(text).values() if family)])]


def use_fonts(figure: "Figure") -> None:
    """Give the texts of a figure the fonts that they need."""
    for text in figure.findobj(import_drawing("matplotlib.text").Text):
        if not text.get_text().isascii():
            text.set_family(families_for(text.get_text()))


def drawable_names(
    names: Sequence[str], numbers: Iterable[int] | None = None, word: str = "class"
) -> tuple[list[str], str]:
    """Return names that can all be drawn, and a sentence for the reader if some could not.

    Such a name becomes "class 3", by its number: its place in the list, unless numbers are given.
    """
    places = range(len(names)) if numbers is None else numbers
    missing = missing_letters("".join(names))  # one look for all of them
    lost = [not missing.isdisjoint(name) for name in names]
    drawn = [
        f"{word} {number}" if is_lost else name
        for name, number, is_lost in zip(names, places, lost, strict=True)
    ]
    return drawn, _explain(sum(lost))


def _explain(number: int) -> str:
    if not number:
        return ""
    what = "1 name" if number == 1 else f"{number:,} names"
    instead = "a number stands for it" if number == 1 else "numbers stand for them"
    return f"{what} cannot be drawn with the fonts of this machine; {instead}."


_known: dict[str, str | None] = {}  # families by letter: fonts are not installed while figures are drawn


def _find_families(text: str) -> dict[str, str | None]:
    """Return the family for every letter beyond ASCII, None where there is none."""
    letters = [letter for letter in dict.fromkeys(text) if letter > "~" and letter.isprintable()]
    unknown = {letter for letter in letters if letter not in _known}
    if unknown:
        _known.update(_search_fonts(unknown))
    return {letter: _known[letter] for letter in letters}


def _search_fonts(letters: set[str]) -> dict[str, str | None]:
    """Look through the installed fonts until every letter is found."""
    found: dict[str, str | None] = dict.fromkeys(letters)
    left = set(letters)
    for family, (regular, bold) in installed_fonts().items():
        if not left:
            break
        here = _letters_in(regular, left)
        if here and bold != regular:
            here = _letters_in(bold, here)
        found |= dict.fromkeys(here, family)
        left -= here
    return found


def _letters_in(path: str, letters: set[str]) -> set[str]:
    """Return which letters a font file has outlines for."""
    try:
        font: Any = import_drawing("matplotlib.ft2font").FT2Font(path)
    except (OSError, RuntimeError):  # gone since matplotlib listed it, or broken
        return set()
    return {letter for letter in letters if font.scalable and font.get_char_index(ord(letter))}


@cache
def installed_fonts() -> dict[str, tuple[str, str]]:
    """Return the upright regular and bold file of every family, those that are likely to help first."""
    manager = import_drawing("matplotlib.font_manager")
    faces: dict[str, list[tuple[int, str]]] = {}
    for entry in manager.fontManager.ttflist:
        if entry.style == "normal" and not entry.name.lower().startswith(UNFIT):
            weight = manager.weight_dict.get(entry.weight, entry.weight)
            faces.setdefault(entry.name, []).append((int(weight), entry.fname))
    first = {family: place for place, family in enumerate((MAIN, *LARGE_FONTS))}
    order = sorted(faces, key=lambda family: (first.get(family, len(first)), family))
    return {family: (_nearest(faces[family], REGULAR), _nearest(faces[family], BOLD)) for family in order}


def _nearest(faces: list[tuple[int, str]], weight: int) -> str:
    return min(faces, key=lambda face: abs(face[0] - weight))[1]
