import numpy as np
import pytest
from PIL import Image

from bayestriplet.data.thumbnails import (
    HEAVIEST,
    LARGEST,
    make_picture,
    make_thumbnail,
    picture_type,
    read_thumbnail,
    thumbnail_side,
)
from tests.data.pictures import noise


@pytest.mark.parametrize("channels", [1, 3])
def test_a_small_image_keeps_every_pixel(channels):
    pixels = noise(28, 28, channels)
    assert (read_thumbnail(make_thumbnail(pixels)) == pixels).all()


@pytest.mark.parametrize(("side", "shown"), [(64, 64), (96, 96), (224, 224), (512, LARGEST), (1024, LARGEST)])
@pytest.mark.parametrize("channels", [1, 3])
def test_a_large_one_is_shrunk_and_looks_the_same(side, shown, channels):
    ramp = np.linspace(0, 255, side).astype(np.uint8)
    pixels = np.broadcast_to(ramp[:, None, None], (side, side, channels)).copy()
    content = make_thumbnail(pixels)
    found = read_thumbnail(content)
    assert found.shape == (shown, shown, channels)
    assert np.abs(found[:, 0, 0] - np.linspace(0, 255, shown)).max() < 8
    assert len(content) < 10_000


@pytest.mark.parametrize("channels", [1, 3])
def test_a_thumbnail_of_noise_is_no_heavier_than_allowed(channels):
    content = make_thumbnail(noise(512, 512, channels))
    assert 0 < len(content) <= HEAVIEST
    assert read_thumbnail(content).shape == (LARGEST, LARGEST, channels)


@pytest.mark.parametrize(
    ("size", "shown"), [((20, 30), 28), ((28, 28), 28), ((100, 60), 60), ((512, 300), LARGEST)]
)
def test_a_thumbnail_has_the_pixels_of_the_file_up_to_the_most(size, shown):
    assert thumbnail_side(Image.new("L", size), 28) == shown


@pytest.mark.parametrize(
    ("size", "shown", "kind"),
    [
        ((20, 30), (20, 30), "image/png"),
        ((300, 200), (300, 200), "image/jpeg"),
        ((800, 200), (400, 100), "image/jpeg"),
    ],
)
def test_a_picture_keeps_its_shape_and_is_at_most_so_large(size, shown, kind):
    content = make_picture(Image.new("RGB", size, (200, 30, 90)), 400)
    assert picture_type(content) == kind
    found = read_thumbnail(content)
    assert found.shape == (shown[1], shown[0], 3)
    assert np.abs(found.astype(int) - (200, 30, 90)).max() < 8
