import numpy as np
import pytest
from matplotlib.text import Text

from bayestriplet.evaluation.calibration import Judged, reliability
from bayestriplet.report.figure import save_figure
from bayestriplet.report.reliability_figure import reliability_figure
from tests.report.drawings import LONG_DATA, assert_is_good, overlapping_texts, texts_inside, words_of


def drawn_items(number, classes, seed=0):
    """Probabilities, and labels drawn by them."""
    rng = np.random.default_rng(seed)
    probabilities = rng.dirichlet(np.full(classes, 0.2), number)
    return probabilities, (probabilities.cumsum(1) > rng.random((number, 1))).argmax(1)


def judged(probabilities, labels):
    with np.errstate(divide="ignore"):
        return Judged.of(np.log(probabilities), labels)


@pytest.mark.parametrize(("number", "classes"), [(3, 2), (2000, 10)])
def test_reliability_is_drawn_with_its_error(number, classes, tmp_path):
    probabilities, labels = drawn_items(number, classes)
    figure = reliability_figure(judged(probabilities, labels), "test items of made ones")
    assert_is_good(figure, tmp_path / "reliability.png")
    error = 100 * reliability(probabilities, labels).error
    assert any(f"calibration error {error:.2f}%" in word for word in words_of(figure))
    assert f"all items: {100 * (probabilities.argmax(1) == labels).mean():.1f}%" in words_of(figure)


def test_probabilities_that_are_all_right_or_all_wrong_can_be_drawn(tmp_path):
    for k in (0, 1):
        found = judged(np.eye(3)[[0, 1, 2, 0]], np.array([k, k + 1, 2 * (1 - k), k]))
        figure = reliability_figure(found, "items")
        save_figure(figure, tmp_path / f"{k}.png")


def test_the_accuracy_of_all_items_is_written_below_the_curve():
    sure = np.linspace(1, 0.6, 100)
    labels = (np.arange(100) == 95).astype(int)  # the curve falls at its end, and rises again
    figure = reliability_figure(judged(np.stack([sure, 1 - sure], 1), labels), "items")
    figure.draw_without_rendering()
    (text,) = (text for text in figure.axes[1].texts if "all items" in text.get_text())
    curve = figure.axes[1].transData.transform(figure.axes[1].lines[0].get_xydata())
    assert Text.get_window_extent(text).y1 < curve[:, 1].min()


@pytest.mark.parametrize("classes", [2, 9, 50])
def test_texts_stay_inside_and_apart(classes):
    figure = reliability_figure(judged(*drawn_items(500, classes)), f"test items of {LONG_DATA}")
    assert texts_inside(figure)
    assert not overlapping_texts(figure)
