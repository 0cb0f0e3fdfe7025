import time
import warnings

import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from matplotlib import font_manager

from bayestriplet.report import fonts
from bayestriplet.report.figure import new_figure, save_figure
from bayestriplet.report.fonts import MAIN, drawable_names, families_for, missing_letters

CHINESE = "中文"


def make_font(path, letters):
    """Write a font whose letters are black squares."""
    pen = TTGlyphPen(None)
    for step, point in enumerate([(100, 0), (100, 800), (900, 800), (900, 0)]):
        (pen.lineTo if step else pen.moveTo)(point)
    pen.closePath()
    square = pen.glyph()
    names = [".notdef", *(f"g{k}" for k in range(len(letters)))]
    font = FontBuilder(1000, isTTF=True)
    font.setupGlyphOrder(names)
    font.setupCharacterMap({ord(c): f"g{k}" for k, c in enumerate(letters)})
    font.setupGlyf(dict.fromkeys(names, square))
    font.setupHorizontalMetrics(dict.fromkeys(names, (1000, 0)))
    font.setupHorizontalHeader(ascent=900, descent=-100)
    font.setupNameTable({"familyName": "Made Squares", "styleName": "Regular"})
    font.setupOS2()
    font.setupPost()
    font.save(path)
    return path


@pytest.mark.usefixtures("bare_fonts")
def test_a_name_is_drawn_with_another_installed_font_that_has_its_letters(tmp_path):
    font_manager.fontManager.addfont(make_font(tmp_path / "squares.ttf", CHINESE))
    assert families_for(f"a{CHINESE}") == [MAIN, "Made Squares"]
    assert drawable_names([CHINESE, "b"]) == ([CHINESE, "b"], "")
    figure = new_figure(1, f"Classes {CHINESE}", "s")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # matplotlib warns of every letter that becomes a box
        save_figure(figure, tmp_path / "figure.png")


@pytest.mark.usefixtures("bare_fonts")
def test_a_name_that_no_font_can_draw_becomes_its_number_and_the_reader_is_informed():
    names, note = drawable_names(["a", CHINESE, "Ünïcode"])
    assert names == ["a", "class 1", "Ünïcode"]
    assert note == "1 name cannot be drawn with the fonts of this machine; a number stands for it."
    names, note = drawable_names([CHINESE, CHINESE[0]], [7, 30], "regime")
    assert names == ["regime 7", "regime 30"]
    assert note == "2 names cannot be drawn with the fonts of this machine; numbers stand for them."


@pytest.mark.usefixtures("bare_fonts")
@pytest.mark.parametrize("letter", ["中", "한", "ह", "🧬"])
def test_a_font_of_boxes_is_no_font_for_a_letter(letter):
    assert missing_letters(f"a{letter}") == {letter}  # matplotlib's "Last Resort" has all of them


def test_letters_of_europe_and_of_arabic_are_drawn_by_the_usual_font():
    assert families_for("Ünïcode ß, Ж, λ, سرطان, …") == [MAIN]


@pytest.mark.usefixtures("bare_fonts")
def test_looking_for_letters_takes_little_time_and_is_done_once(monkeypatch):
    names = [chr(0x4E00 + k) for k in range(300)]
    start = time.perf_counter()
    assert missing_letters("".join(names)) == set(names)
    assert time.perf_counter() - start < 0.3
    monkeypatch.setattr(fonts, "_search_fonts", lambda letters: pytest.fail(f"searched {letters} again"))
    assert missing_letters("".join(names)) == set(names)
