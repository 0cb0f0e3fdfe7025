import numpy as np
import pytest

from bayestriplet.report.retrieval_figure import Retrieval, choose_queries, retrieval_figure
from tests.report.drawings import (
    LONG_DATA,
    assert_is_good,
    long_names_of,
    names_of,
    overlapping_texts,
    texts_inside,
    words_of,
)


def test_queries_are_seeded_one_per_class_and_two_are_misses():
    labels = np.arange(200) % 12
    nearest = (np.arange(200) + 12) % 192
    nearest[192:] = labels[192:]
    nearest[[5, 40, 77]] = [6, 41, 78]
    chosen = choose_queries(labels, nearest, seed=3)
    assert len(chosen) == len(set(labels[chosen])) == 8
    assert (labels[nearest[chosen]] != labels[chosen]).sum() == 2
    np.testing.assert_array_equal(chosen, choose_queries(labels, nearest, seed=3))
    assert not np.array_equal(chosen, choose_queries(labels, nearest, seed=4))
    assert len(choose_queries(np.array([0, 0, 1, 1]), np.array([1, 0, 3, 2]), 0)) == 2


@pytest.mark.parametrize(("channels", "side", "near"), [(1, 8, 10), (3, 64, 2)])
def test_retrievals_are_drawn_with_wrong_ones_named_and_pixels_kept(channels, side, near, tmp_path):
    rng = np.random.default_rng(0)
    rows = []
    for k in range(3):
        pixels = rng.integers(0, 256, (near + 1, side, side, channels), dtype=np.uint8)
        others = [k if i != k % near else 3 for i in range(near)]
        rows.append(Retrieval(pixels[0], k, pixels[1:], others))
    figure = retrieval_figure(rows, [*names_of(3), "wrong"], "Nearest neighbours", "How to read it.")
    assert_is_good(figure, tmp_path / "retrieval.png")
    assert words_of(figure).count("wrong") == 3
    pictures = [axes.images[0] for axes in figure.axes]
    assert len(pictures) == 3 * (near + 1)
    assert {p.get_interpolation() for p in pictures} == {"nearest" if side < 64 else "antialiased"}
    assert pictures[0].get_array().ndim == (2 if channels == 1 else 3)
    widths = [axes.patches[0].get_linewidth() for axes in figure.axes]
    assert widths.count(3.0) == 3


def wrong_rows(number, side=8):
    """Up to eight queries with ten neighbours each, most of other classes."""
    pixels = np.zeros((11, side, side, 1), dtype=np.uint8)
    return [
        Retrieval(pixels[0], k, pixels[1:], [(k + i) % number for i in range(10)])
        for k in range(min(8, number))
    ]


@pytest.mark.parametrize("number", [2, 9, 50])
def test_long_names_below_and_beside_pictures_stay_inside_and_apart(number):
    title = f"Nearest neighbours among test items of {LONG_DATA}"
    subtitle = (
        "Thick frame, cross, name below: another class than the query's. "
        "2 of the 8 queries picked among those whose nearest neighbour is wrong."
    )
    figure = retrieval_figure(wrong_rows(number), long_names_of(number), title, subtitle)
    assert texts_inside(figure)
    assert not overlapping_texts(figure)


@pytest.mark.parametrize("name", ["W" * 24, "腺癌组织" * 6, "moderately differentiated"])
def test_the_same_long_name_below_every_picture_does_not_run_into_the_next(name):
    pixels = np.zeros((11, 8, 8, 1), dtype=np.uint8)
    row = Retrieval(pixels[0], 0, pixels[1:], [1] * 10)
    assert not overlapping_texts(retrieval_figure([row, row], [name, name], "t", "s"))


@pytest.mark.usefixtures("bare_fonts")
def test_names_without_glyphs_are_the_numbers_of_their_classes():
    figure = retrieval_figure(wrong_rows(3), ["a", "腺癌", "b"], "t", "s")
    assert "class 1" in words_of(figure)
    assert any("1 name cannot be drawn with the fonts" in word for word in words_of(figure))
