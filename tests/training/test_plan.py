"""What a training will do, before it does it."""

import pytest

from bayestriplet.config import make_config
from bayestriplet.errors import InputError
from bayestriplet.training.plan import open_images, resolve


def test_a_large_batch_of_more_than_all_training_items_is_refused():
    values = {"data": "digits", "size": 8}
    images = open_images(make_config(values, "test"))
    assert resolve(make_config({**values, "batch_size": 1024}, "test"), images).batch_size == 1024
    with pytest.raises(InputError, match=r"--batch-size 1,000,000 is more than the 1,\d+ training items"):
        resolve(make_config({**values, "batch_size": 1_000_000}, "test"), images)
