import numpy as np
import pytest

from bayestriplet.data.thumbnails import LARGEST, make_thumbnail, read_thumbnail
from tests.data.pictures import noise


@pytest.mark.parametrize("channels", [1, 3])
def test_a_small_image_keeps_every_pixel(channels):
    pixels = noise(28, 28, channels)
    assert (read_thumbnail(make_thumbnail(pixels)) == pixels).all()


@pytest.mark.parametrize(("side", "shown"), [(64, 64), (96, 96), (224, LARGEST), (1024, LARGEST)])
@pytest.mark.parametrize("channels", [1, 3])
def test_a_large_one_is_shrunk_and_looks_the_same(side, shown, channels):
    ramp = np.linspace(0, 255, side).astype(np.uint8)
    pixels = np.broadcast_to(ramp[:, None, None], (side, side, channels)).copy()
    content = make_thumbnail(pixels)
    found = read_thumbnail(content)
    assert found.shape == (shown, shown, channels)
    assert np.abs(found[:, 0, 0] - np.linspace(0, 255, shown)).max() < 8
    assert len(content) < 10_000
