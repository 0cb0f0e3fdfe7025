import math

import numpy as np
import pytest

from bayestriplet.report.curves_figure import curves_figure, smooth
from bayestriplet.report.style import METHOD_COLOURS
from bayestriplet.runs.metrics import Curves
from tests.report.drawings import LONG_DATA, assert_is_good, texts_inside, words_of


def curves_of(recall, steps=100):
    """Curves of ``steps`` rows, 20 steps apart; ``recall`` by row."""
    step = 20.0 * np.arange(1, steps + 1)
    values = np.array([recall.get(row, math.nan) for row in range(steps)])
    return Curves(step, 20 / step, np.full(steps, 0.5), values, step / 10)


def test_of_equally_good_validations_the_last_is_marked_whose_network_is_kept(tmp_path):
    figure = curves_figure(curves_of({29: 0.9, 59: 0.9, 89: 0.5}), "Training", METHOD_COLOURS["but"])
    assert len(figure.axes) == 3
    assert "best: 90.0 at step 1,200" in words_of(figure)
    for axes in figure.axes:
        (dashed,) = [line for line in axes.lines if line.get_linestyle() == "--"]
        assert set(dashed.get_xdata()) == {1200}
    assert_is_good(figure, tmp_path / "curves.png")


def test_without_active_triplets_or_validation_their_panels_are_left_away(tmp_path):
    nothing = np.array([math.nan])
    curves = Curves(np.array([20.0]), np.array([1.0]), nothing, nothing, np.array([1.0]))
    figure = curves_figure(curves, "Training", "#000000")
    assert len(figure.axes) == 1
    assert_is_good(figure, tmp_path / "curves.png")


def test_curves_of_one_row_can_be_drawn(tmp_path):
    one = Curves(*(np.array([value]) for value in (10.0, 0.5, 0.2, 0.7, 1.0)))
    assert_is_good(curves_figure(one, "Training", "#0072B2"), tmp_path / "curves.png")


@pytest.mark.parametrize("width", [1, 2, 5, 12])
def test_smoothing_is_a_centred_mean(width):
    values = np.random.default_rng(0).normal(size=20)
    values[3] = math.nan
    padded = np.full(20 + 2 * width, math.nan)
    padded[width : 20 + width] = values
    first = width - width // 2
    expected = [
        np.nanmean(padded[i + first : i + first + width]) if width > 1 else values[i] for i in range(20)
    ]
    np.testing.assert_allclose(smooth(values, width), expected)


@pytest.mark.parametrize("best", [0, 50, 99])
def test_texts_stay_inside_wherever_the_best_step_is(best):
    assert texts_inside(curves_figure(curves_of({best: 1.0}), f"Training BUT on {LONG_DATA}", "#0072B2"))
