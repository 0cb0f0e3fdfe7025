from itertools import pairwise

import pytest

from bayestriplet.report.style import SMALL, WIDTH
from bayestriplet.report.text import extent, fit, line_width, readable, readable_or, wrap
from tests.report.drawings import LONG_NAMES


def test_a_name_is_drawn_as_it_is_and_shortened_in_the_middle():
    assert readable("$5 and $6", 20) == r"\$5 and \$6"
    assert readable("two\nlines", 20) == "two lines"
    assert len(readable("a" * 50 + " 07", 12)) == 12
    assert readable("class with a long name 07", 12).endswith("07")


@pytest.mark.parametrize("name", LONG_NAMES)
@pytest.mark.parametrize(("width", "lines"), [(0.5, 1), (0.6, 2), (1.2, 1), (3.0, 1)])
def test_a_fitted_name_takes_no_more_than_its_lines_and_their_width(name, width, lines):
    fitted = fit(name, width, SMALL, lines)
    assert fitted
    assert len(fitted.split("\n")) <= lines
    assert extent(fitted, SMALL)[0] <= width
    longer = extent(readable(name), SMALL)[0]
    assert longer <= width or extent(fitted, SMALL)[0] > 0.5 * width  # no more is left out than must be


@pytest.mark.parametrize("line", [*LONG_NAMES, "100%", r"\$5 and \$6", "one"])
@pytest.mark.parametrize("weight", ["normal", "bold"])
def test_the_width_of_a_line_is_that_of_the_text_that_is_drawn(line, weight):
    line = readable(line)
    assert line_width(line, SMALL, weight) == pytest.approx(extent(line, SMALL, weight)[0], abs=0.01)


def test_a_name_that_fits_is_left_alone_and_an_empty_one_stays_empty():
    assert fit("normal mucosa", 2.0, SMALL) == "normal mucosa"
    assert fit("", 2.0, SMALL) == ""


def test_wrapped_lines_hold_all_words_and_are_as_wide_as_they_may_be():
    text = "Thick frame, cross, name below: another class than the query's. " * 4
    wrapped = wrap(text, WIDTH / 2, SMALL)
    lines = wrapped.split("\n")
    assert " ".join(lines) == text.strip()  # nothing is hyphenated
    assert all(extent(line, SMALL)[0] <= WIDTH / 2 for line in lines)
    for line, following in pairwise(lines):
        assert extent(f"{line} {following.split()[0]}", SMALL)[0] > WIDTH / 2


def test_wrapping_keeps_line_breaks_breaks_long_words_and_does_not_split_an_escape():
    assert wrap("one\ntwo three", 5, SMALL) == "one\ntwo three"
    wrapped = wrap(r"\$" * 40, 1, SMALL)
    assert wrapped.replace("\n", "") == r"\$" * 40
    assert all(line.count("\\") == line.count("$") for line in wrapped.split("\n"))
    assert wrap(wrapped, 1, SMALL) == wrapped


def test_a_name_breaks_after_signs_before_letters_are_cut():
    assert wrap("045.Northern_Fulmar", 0.7, SMALL) == "045.\nNorthern_\nFulmar"
    assert wrap("colorectal-cancer/tiles 98.9", 0.8, SMALL) == "colorectal-\ncancer/tiles\n98.9"
    assert wrap("at -0.5", 0.35, SMALL) == "at\n-0.5"


def test_a_broken_word_has_a_hyphen_between_letters_and_parts_of_like_width():
    assert fit("lymphocytes", 0.6, SMALL, lines=2) == "lympho-\ncytes"
    assert fit("an_underscored_name", 0.8, SMALL, lines=2).count("-") <= 1
    assert "-" not in wrap("אבגדהוזחטיכלמנסעפצ", 0.4, SMALL)


@pytest.mark.usefixtures("bare_fonts")
def test_what_stands_for_a_name_is_used_only_where_letters_are_missing():
    assert readable_or("mnist", "the data set") == "mnist"
    assert readable_or("病理1", "the data set") == "the data set"
    assert readable("病理1.png") == "…1.png"
