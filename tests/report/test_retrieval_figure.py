import numpy as np
import pytest

from bayestriplet.report.retrieval_figure import Retrieval, choose_queries, retrieval_figure
from tests.report.drawings import assert_is_good, names_of, words_of


def test_queries_are_seeded_one_a_class_and_two_are_misses():
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
    for k, name in enumerate(names_of(3)):
        pixels = rng.integers(0, 256, (near + 1, side, side, channels), dtype=np.uint8)
        others = [name if i != k % near else "wrong" for i in range(near)]
        rows.append(Retrieval(pixels[0], name, pixels[1:], others))
    figure = retrieval_figure(rows, "Nearest neighbours", "How to read it.")
    assert_is_good(figure, tmp_path / "retrieval.png")
    assert words_of(figure).count("wrong") == 3
    pictures = [axes.images[0] for axes in figure.axes]
    assert len(pictures) == 3 * (near + 1)
    assert {p.get_interpolation() for p in pictures} == {"nearest" if side < 64 else "antialiased"}
    assert pictures[0].get_array().ndim == (2 if channels == 1 else 3)
    widths = [axes.spines["left"].get_linewidth() for axes in figure.axes]
    assert widths.count(3.0) == 3
