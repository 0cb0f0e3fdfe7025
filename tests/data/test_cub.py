import numpy as np
import pytest

from bayestriplet.data.sources import open_data
from bayestriplet.errors import DataError
from tests.data.pictures import save_picture

NUMBERS = (1, 2, 80, 81, 100, 101, 150, 200)


@pytest.fixture
def root(tmp_path):
    """Species on both sides of every limit, two photographs each."""
    for number in NUMBERS:
        for i in (1, 2):
            name = f"{number:03}.Bird_{number}/Bird_{number}_{i:04}.jpg"
            save_picture(tmp_path / "CUB_200_2011" / "images" / name, 30, 20 + i, 3, seed=number + i)
    return tmp_path / "CUB_200_2011"


def test_species_are_split_by_their_numbers(root):
    images = open_data(f"cub:{root}")
    assert (images.name, images.kind, images.size, images.channels) == ("cub", "photo", 224, 3)
    assert images.classes[:2] == ("001.Bird_1", "002.Bird_2")
    numbers = np.array(NUMBERS)[images.labels]
    assert sorted(set(numbers[images.indices("train")])) == [1, 2, 80]
    assert sorted(set(numbers[images.indices("val")])) == [81, 100]
    assert sorted(set(numbers[images.indices("test")])) == [101, 150, 200]
    assert images.ids[0] == "001.Bird_1/Bird_1_0001.jpg"
    assert open_data(f"cub:{root}", size=32).read([0]).shape == (1, 32, 32, 3)


def test_folders_that_are_not_cub_are_one_line(root):
    with pytest.raises(
        DataError, match=r"images has no folder images; name CUB_200_2011, to which the archive"
    ):
        open_data(f"cub:{root / 'images'}")
    with pytest.raises(DataError, match=r"CUB_200_2011 has splits of its own, and --split-by class is given"):
        open_data(f"cub:{root}", split_by="class")
    for name in ("081.Bird_81", "100.Bird_100"):
        (root / "images" / name).rename(root / "images" / name.replace("081", "003").replace("100", "004", 1))
    with pytest.raises(DataError, match=r"CUB_200_2011 lacks the species of val: 1 to 80 are to train on"):
        open_data(f"cub:{root}")
    (root / "images" / "001.Bird_1").rename(root / "images" / "Bird_1")
    with pytest.raises(DataError, match=r"images/Bird_1 is no class of CUB-200-2011: its name must begin"):
        open_data(f"cub:{root}")
