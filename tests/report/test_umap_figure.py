import warnings

import numpy as np
import pytest
from matplotlib.text import Text

from bayestriplet.report.umap_figure import umap_figure
from tests.report.drawings import (
    LONG_DATA,
    assert_is_good,
    long_names_of,
    names_of,
    overlapping_texts,
    texts_inside,
    words_of,
)


@pytest.mark.parametrize(("number", "least"), [(20, 20), (30, 25)])
def test_a_map_names_every_class_of_few_and_cuts_nothing_off(number, least, tmp_path):
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(number), 12)
    positions = (10 * rng.normal(size=(number, 2))[labels] + rng.normal(size=(len(labels), 2))).astype("f")
    figure = umap_figure(positions, labels, names_of(number), "UMAP of made items", "How to read it.")
    assert_is_good(figure, tmp_path / "umap.png")
    (axes,) = figure.axes
    assert least <= len(axes.texts) <= number
    assert (axes.get_legend() is not None) == (number <= 20)


def test_names_at_the_same_place_are_moved_apart():
    labels = np.arange(6).repeat(2)
    positions = np.concatenate([np.zeros((6, 2)), np.full((6, 2), 1e-3)]).astype("f")
    figure = umap_figure(positions, labels, names_of(6), "t", "s")
    figure.draw_without_rendering()
    boxes = [Text.get_window_extent(text).padded(-2) for text in figure.axes[0].texts]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_names_hide_few_items_of_their_class():
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(6), 8)
    positions = (10 * rng.normal(size=(6, 2))[labels] + 0.2 * rng.normal(size=(48, 2))).astype("f")
    names = [f"{k}45.Northern_Fulmar" for k in range(6)]
    figure = umap_figure(positions, labels, names, "t", "s")
    figure.draw_without_rendering()
    (axes,) = figure.axes
    for k, text in enumerate(axes.texts):
        box, places = Text.get_window_extent(text), axes.transData.transform(positions[labels == k])
        assert ((places >= box.min) & (places <= box.max)).all(1).mean() <= 1 / 3


@pytest.mark.parametrize("number", [2, 9])
@pytest.mark.parametrize(
    "names", [long_names_of, lambda number: ["腺癌组织高分化"[: 2 + k % 6] for k in range(number)]]
)
def test_names_of_few_classes_hide_few_items_of_any_class(number, names):
    positions, labels = spread_items(number)
    figure = umap_figure(positions, labels, names(number), "t", "s")
    figure.draw_without_rendering()
    (axes,) = figure.axes
    places = axes.transData.transform(positions)
    boxes = [Text.get_window_extent(text) for text in axes.texts]
    hidden = [((places >= box.min) & (places <= box.max)).all(1).sum() for box in boxes]
    assert len(hidden) == number
    assert max(hidden) <= 3  # of 12 per class
    assert sum(hidden) <= 0.1 * len(places)


def test_of_many_classes_none_is_named_whose_items_are_far_apart():
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(30), 12)
    positions = (10 * rng.normal(size=(30, 2))[labels] + 0.2 * rng.normal(size=(360, 2))).astype("f")
    positions[labels == 0] = rng.uniform(-15, 15, (12, 2))
    names = [f"class {k}" for k in range(30)]
    written = [text.get_text() for text in umap_figure(positions, labels, names, "t", "s").axes[0].texts]
    assert len(written) >= 20
    assert "class 0" not in written


def test_the_caption_says_where_names_are():
    for number, where in (
        (3, "Names amid their class or beside it"),
        (21, "named beside their items where there"),
    ):
        figure = umap_figure(*spread_items(number), names_of(number), "t", "How to read it.")
        assert any(where in " ".join(words.split()) for words in words_of(figure))


@pytest.mark.usefixtures("bare_fonts")
def test_of_many_classes_all_names_that_cannot_be_drawn_are_counted():
    figure = umap_figure(*spread_items(1000), [f"腺{k}" for k in range(1000)], "t", "s")
    assert any("1,000 names cannot be drawn" in " ".join(words.split()) for words in words_of(figure))


def test_absent_classes_have_no_name_in_the_map():
    figure = umap_figure(np.eye(4, 2, dtype="f"), np.array([0, 0, 2, 2]), ["a", "b", "c"], "t", "s")
    assert [text.get_text() for text in figure.axes[0].texts] == ["a", "c"]


def spread_items(number):
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(number), 12)
    return (10 * rng.normal(size=(number, 2))[labels] + rng.normal(size=(len(labels), 2))).astype("f"), labels


@pytest.mark.parametrize("number", [2, 9, 50])
def test_long_names_stay_inside_the_map(number):
    title, subtitle = f"UMAP of test items of {LONG_DATA}: Recall@1 97.1%", "Names at the median. " * 7
    figure = umap_figure(*spread_items(number), long_names_of(number), title, subtitle)
    assert texts_inside(figure)
    assert not overlapping_texts(figure)


@pytest.mark.parametrize("names", [long_names_of, names_of])
def test_of_many_classes_those_are_named_whose_names_can_be_read(names):
    positions, labels = spread_items(1000)
    figure = umap_figure(positions, labels, names(1000), "t", "How to read it.")
    assert not overlapping_texts(figure)
    assert 10 <= len(figure.axes[0].texts) <= 50
    assert any(
        "1,000 classes, named beside their items where there is room" in word for word in words_of(figure)
    )
    figure.draw_without_rendering()
    places = figure.axes[0].transData.transform(positions)
    for text in figure.axes[0].texts:
        box = Text.get_window_extent(text)
        assert ((places >= box.min) & (places <= box.max)).all(1).sum() <= len(positions) / 1000


@pytest.mark.usefixtures("bare_fonts")
def test_names_without_glyphs_are_numbers_on_the_map_and_in_the_legend(tmp_path):
    positions, labels = spread_items(3)
    figure = umap_figure(positions, labels + 2, ["a", "b", "c", "腺癌", "淋巴"], "t", "How to read it.")
    assert words_of(figure).count("class 3") == words_of(figure).count("class 4") == 2
    assert any("2 names cannot be drawn with the fonts" in word for word in words_of(figure))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # matplotlib warns of every letter that becomes a box
        assert_is_good(figure, tmp_path / "umap.png")
