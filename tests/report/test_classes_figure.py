import math

import numpy as np
import pytest

from bayestriplet.evaluation.classes import confusion
from bayestriplet.report.classes_figure import classes_figure
from tests.report.drawings import (
    LONG_DATA,
    assert_is_good,
    long_names_of,
    names_of,
    overlapping_texts,
    texts_inside,
    words_of,
)


@pytest.mark.parametrize("number", [12, 70])
def test_classes_are_drawn_with_numbers_while_they_are_legible(number, tmp_path):
    rng = np.random.default_rng(0)
    errors = confusion(rng.integers(0, number, 5000), rng.integers(0, number, 5000), np.arange(number))
    distances = rng.gamma(2, 20, (number, number))
    errors[0], distances[0] = math.nan, math.nan
    figure = classes_figure(errors, distances, names_of(number), "Classes that are close")
    assert_is_good(figure, tmp_path / "classes.png")
    assert bool(figure.axes[0].texts) == (number <= 12)
    assert any("Bhattacharyya" in word for word in words_of(figure))


def test_a_perfect_confusion_and_coinciding_classes_can_be_drawn(tmp_path):
    figure = classes_figure(100 * np.eye(3), np.zeros((3, 3)), ["a", "b", "c"], "Classes")
    assert_is_good(figure, tmp_path / "classes.png")
    assert words_of(figure).count("100") == 3


@pytest.mark.parametrize("number", [2, 9, 50])
def test_long_names_stay_inside(number):
    rng = np.random.default_rng(0)
    errors, distances = 100 * rng.dirichlet(np.ones(number), number), rng.gamma(2, 20, (number, number))
    title = f"Classes that are close: test items of {LONG_DATA}"
    assert texts_inside(classes_figure(errors, distances, long_names_of(number), title))


@pytest.mark.parametrize("number", [2, 9, 30])
def test_short_names_below_a_table_do_not_touch(number):
    table = np.ones((number, number))
    figure = classes_figure(table, table, [f"c{i}" for i in range(number)], "Classes")
    assert not overlapping_texts(figure)


@pytest.mark.usefixtures("bare_fonts")
def test_names_without_glyphs_are_numbers():
    figure = classes_figure(100 * np.eye(2), np.ones((2, 2)), ["腺癌", "b"], "Classes")
    assert "class 0" in words_of(figure)
    assert any("1 name cannot be drawn with the fonts" in word for word in words_of(figure))
