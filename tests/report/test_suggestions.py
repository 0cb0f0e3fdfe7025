import numpy as np
import pytest

from bayestriplet.report.search_figure import DrawnNeighbour
from bayestriplet.report.suggestions import IN_A_ROW, suggestions_figure
from tests.report.drawings import assert_is_good, long_names_of, overlapping_texts, texts_inside, words_of

PICTURE = np.full((8, 8, 1), 128, dtype=np.uint8)


@pytest.mark.parametrize("number", [1, IN_A_ROW, IN_A_ROW + 1, 20])
def test_suggested_images_are_drawn_once_each_and_their_labels_stay_apart(number, tmp_path):
    names = long_names_of(number)
    figure = suggestions_figure([DrawnNeighbour(PICTURE, name, 0.5, is_match=True) for name in names])
    assert len(figure.axes) == number
    assert words_of(figure).count("0.500") == number
    assert texts_inside(figure)
    assert not overlapping_texts(figure)
    assert_is_good(figure, tmp_path / "suggestions.png")


def test_the_heading_promises_no_query_no_distance_and_no_neighbours():
    said = " ".join(words_of(suggestions_figure([DrawnNeighbour(PICTURE, "wren", 0.5, is_match=True)])))
    assert "worth a label" in said
    assert not {"query", "distance", "neighbours"} & set(said.lower().replace(",", "").split())
