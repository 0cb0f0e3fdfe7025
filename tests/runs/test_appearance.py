"""How pictures look: measures against slow loops, densities against scipy."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import multivariate_t
from sklearn.datasets import load_digits

from bayestriplet.runs.appearance import (
    EDGES,
    FREEDOM,
    LEAST_COLOUR,
    LEAST_ENERGY,
    LEAST_SHARE,
    MOST_COMPONENTS,
    Appearance,
    Scale,
    measure,
)
from bayestriplet.runs.row_statistics import KAPPA
from bayestriplet.runs.statistics import Statistics

SCANS = np.repeat(np.repeat((load_digits().images * 15.9).astype(np.uint8), 2, 1), 2, 2)[..., None]  # 16 x 16


def slow_measures(picture):
    """What a picture (H, W, C) measures, by loops over its pixels."""
    x = picture.astype(float) / 255
    size, channels = len(x), x.shape[2]
    grey = x.mean(2)
    levels = np.floor(grey * 255 + 0.5)
    bounds = [*EDGES, 256]
    found = [np.log(LEAST_SHARE + np.mean((levels >= low) & (levels < high)))
             for low, high in pairwise(bounds)]  # fmt: skip
    found += [x[..., c].mean() for c in range(channels)]
    if channels > 1:
        found += [np.log(LEAST_COLOUR + np.abs(x[..., c] - grey).mean()) for c in range(channels)]
    while True:
        n = len(grey)
        across = [(grey[i, j + 1] - grey[i, j]) ** 2 for i in range(n) for j in range(n - 1)]
        down = [(grey[i + 1, j] - grey[i, j]) ** 2 for i in range(n - 1) for j in range(n)]
        second = [
            (grey[i - 1, j] + grey[i + 1, j] + grey[i, j - 1] + grey[i, j + 1] - 4 * grey[i, j]) ** 2
            for i in range(1, n - 1) for j in range(1, n - 1)
        ]  # fmt: skip
        found += [np.log(LEAST_ENERGY + np.mean(one)) for one in (across, down, second)]
        if n < 6:
            break
        grey = np.array([[grey[2 * i : 2 * i + 2, 2 * j : 2 * j + 2].mean() for j in range(n // 2)]
                         for i in range(n // 2)])  # fmt: skip
    edges = [size * i // 7 for i in range(8)]
    boxes = [x[a:b, c:d, k].mean() for k in range(channels)
             for a, b in pairwise(edges)
             for c, d in pairwise(edges)]  # fmt: skip
    return np.array(found), np.array(boxes)


@pytest.mark.parametrize(("size", "channels"), [(8, 1), (13, 3), (28, 1), (30, 3)])
def test_measures_are_those_of_a_loop_over_the_pixels(size, channels):
    pixels = np.random.default_rng(size).integers(0, 256, (3, size, size, channels)).astype(np.uint8)
    pixels[1] = 255
    found, thumbnails = measure(pixels)
    for i in range(3):
        plain, boxes = slow_measures(pixels[i])
        np.testing.assert_allclose(found[i], plain, atol=2e-4)
        np.testing.assert_allclose(thumbnails[i], boxes, atol=1e-5)


@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_tiny_pictures_have_finite_measures(size):
    pixels = np.random.default_rng(0).integers(0, 256, (60, size, size, 1)).astype(np.uint8)
    found = Appearance.of(pixels)
    assert np.isfinite(found.surprise(found.describe(pixels))).all()
    assert found.describe(pixels[:0]).shape == (0, found.length)


def test_surprise_is_the_log_density_of_a_t_and_of_what_was_taught_the_best():
    found = Appearance.of(SCANS[:800])
    looks = found.describe(SCANS[800:])
    oracle = multivariate_t(found.mean, found.covariance * (FREEDOM - 2) / FREEDOM, df=FREEDOM)
    np.testing.assert_allclose(found.surprise(looks), -oracle.logpdf(looks), rtol=1e-6)
    white = found.describe(np.full((3, 16, 16, 1), 255, np.uint8))
    widened = found.widened(
        Statistics.of(white, np.zeros(3, np.int64), 2), np.array([0, 1])
    )  # the second was not looked at
    kappa, freedom = KAPPA + 3, FREEDOM + 3
    mean = (KAPPA * found.mean + 3 * white[0]) / kappa
    shift = white[0] - found.mean
    scale = (FREEDOM - 2) * found.covariance + KAPPA * 3 / kappa * np.outer(shift, shift)
    taught = multivariate_t(mean, scale * (kappa + 1) / (kappa * freedom), df=freedom)
    expected = -np.maximum(oracle.logpdf(looks), taught.logpdf(looks))
    np.testing.assert_allclose(widened.surprise(looks), expected, rtol=1e-6)
    assert (widened.surprise(looks) <= found.surprise(looks)).all()
    assert widened.surprise(white)[0] < np.quantile(found.surprise(looks), 0.99) < found.surprise(white)[0]


def test_many_taught_classes_look_like_one():
    found = Appearance.of(SCANS[:800])
    looks, labels = found.describe(SCANS[800:1000]), np.arange(200) % (MOST_COMPONENTS + 1)
    widened = found.widened(Statistics.of(looks, labels, MOST_COMPONENTS + 1), np.arange(MOST_COMPONENTS + 1))
    together = found.widened(Statistics.of(looks, np.zeros(200, np.int64), 1), np.zeros(1, np.int64))
    np.testing.assert_allclose(widened.surprise(looks), together.surprise(looks), rtol=1e-6)


def test_a_score_grows_with_the_surprise_and_faster_beyond_the_tail():
    scale = Scale(middle=10.0, tail=20.0, unit=5.0)
    surprise = np.array([10.0, 0.0, 20.0, 40.0])
    np.testing.assert_allclose(scale.add(np.full(4, 3.0), surprise), [3.0, 2.0, 4.0, 16.0])
    plain, surprise = np.arange(1001.0), 2 * np.arange(1001.0)
    assert Scale.of(plain, surprise) == Scale(1000.0, 1990.0, 495.0)
    of_classes = Scale.of(plain, surprise, 3 * plain)
    assert of_classes == Scale(1000.0, 1990.0, 495.0, 1500.0, 2985.0)
    found = of_classes.add(np.zeros(2), np.array([0.0, 2980.0]), np.array([2985.0, 1500.0]))
    np.testing.assert_allclose(found, [0.5 * 495, 495])  # half of how unlike its class, all beyond the tail
    assert Scale.of(np.empty(0), np.empty(0)).add(np.ones(1), np.full(1, 9.0)) == [1.0]


def test_pictures_that_show_nothing_of_the_kind_are_beyond_all_ordinary_ones():
    found = Appearance.of(SCANS[:800])
    ordinary = found.surprise(found.describe(SCANS[800:]))
    stripes = np.tile(np.array([0, 255], np.uint8), (1, 16, 8))[..., None]
    grey = np.full((1, 16, 16, 1), 128, np.uint8)
    for odd in (stripes, grey, 255 - SCANS[:5]):
        assert found.surprise(found.describe(odd)).min() > ordinary.max()


def test_what_a_file_keeps_gives_the_same_surprise_and_parts_that_do_not_fit_are_refused():
    found = Appearance.of(SCANS[:200]).calibrated(np.arange(5.0), _looks(5), None)
    back = Appearance.read(found.tensors())
    assert back.scale == found.scale
    np.testing.assert_array_equal(back.surprise(_looks(3)), found.surprise(_looks(3)))
    with pytest.raises(ValueError, match="do not belong together"):
        Appearance.read(found.tensors() | {"appearance_width": np.ones(2)})


def _looks(number):
    return Appearance.of(SCANS[:200]).describe(SCANS[300 : 300 + number])
