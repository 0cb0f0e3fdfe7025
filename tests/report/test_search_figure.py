import warnings

import numpy as np
import pytest

from bayestriplet.report.search_figure import AnsweredQuery, DrawnNeighbour, search_figure
from tests.report.drawings import (
    LONG_NAMES,
    assert_is_good,
    long_names_of,
    overlapping_texts,
    texts_inside,
    words_of,
)

PICTURE = np.full((8, 8, 1), 128, dtype=np.uint8)


def answered(names, number=10, image=PICTURE):
    found = [
        DrawnNeighbour(image, names[k % len(names)], 0.1234 * k, is_match=k % 3 > 0) for k in range(number)
    ]
    caption = f"{names[0]}_query.png: {names[0]}, 6 of 10 neighbours; probability {names[1]} 98.4%"
    return AnsweredQuery(image, f"{caption}; novelty 99.7, unlike the classes trained on", found)


@pytest.mark.parametrize("classes", [2, 9, 50])
@pytest.mark.parametrize("queries", [1, 16])
def test_long_labels_and_captions_stay_inside_and_apart(classes, queries):
    figure = search_figure([answered(long_names_of(classes)) for _ in range(queries)])
    assert texts_inside(figure)
    assert not overlapping_texts(figure)


@pytest.mark.parametrize("name", LONG_NAMES)
def test_the_same_long_label_below_every_picture_does_not_run_into_the_next(name, tmp_path):
    figure = search_figure([answered([name, name]), answered([name, name], number=3)])
    assert not overlapping_texts(figure)
    assert_is_good(figure, tmp_path / "montage.png")


def test_a_label_that_fits_is_written_whole_and_an_unknown_one_is_a_question_mark():
    words = words_of(search_figure([answered(["tumour", ""])]))
    assert words.count("tumour") == words.count("?") == 5
    assert "0.123" in words


@pytest.mark.usefixtures("bare_fonts")
def test_labels_without_glyphs_have_the_same_number_in_the_caption_and_below_pictures(tmp_path):
    figure = search_figure([answered(["腺癌", "b", "腺癌二"])])
    words = words_of(figure)
    assert words.count("label 1") == 4
    assert words.count("label 2") == 3
    assert any("label 1, 6 of 10 neighbours; probability b 98.4%" in word for word in words)
    assert any("2 names cannot be drawn with the fonts" in word for word in words)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # matplotlib warns of every letter that becomes a box
        assert_is_good(figure, tmp_path / "montage.png")


def test_items_without_a_picture_keep_their_place_and_the_reader_is_informed(tmp_path):
    figure = search_figure([answered(["a", "b"], image=None), AnsweredQuery(None, "nothing was found", [])])
    assert len(figure.axes) == 12
    assert any("Grey: no picture is stored." in word for word in words_of(figure))
    assert not any("Grey" in word for word in words_of(search_figure([answered(["a", "b"])])))
    assert_is_good(figure, tmp_path / "montage.png")
