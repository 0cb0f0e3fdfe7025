import numpy as np
import pytest
import torch

from bayestriplet.data.augment import KINDS, augment
from bayestriplet.data.sources import open_data
from bayestriplet.evaluation.embeddings import to_tensor


def images(channels=3):
    return torch.rand(6, channels, 20, 20, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("channels", [1, 3])
def test_variations_keep_shape_and_range_and_depend_on_the_generator_alone(kind, channels):
    before = images(channels)
    one, same, other = (augment(before, kind, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert one.shape == before.shape
    assert one.min() >= 0
    assert one.max() <= 1
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert not torch.equal(one, before)
    assert torch.equal(before, images(channels))


def test_each_image_of_a_batch_is_varied_in_its_own_way():
    same = images()[:1].expand(6, -1, -1, -1)
    for kind in KINDS:
        varied = augment(same, kind, torch.Generator().manual_seed(0))
        assert len(varied.flatten(1).unique(dim=0)) == 6


def test_tissue_is_turned_and_mirrored_in_all_eight_ways():
    image = torch.zeros(1, 3, 8, 8)
    image[0, :, 0, 1] = 1  # a corner mark that no symmetry of the square leaves alone
    varied = augment(image.expand(400, -1, -1, -1), "histology", torch.Generator().manual_seed(0))
    places = varied.mean(1).flatten(1).argmax(1)
    expected = [8 * r + c for r, c in [(0, 1), (0, 6), (7, 1), (7, 6), (1, 0), (6, 0), (1, 7), (6, 7)]]
    assert sorted(places.unique().tolist()) == sorted(expected)


def test_digits_are_moved_only_a_little():
    image = torch.zeros(1, 1, 28, 28)
    image[0, 0, 10:18, 10:18] = 1
    varied = augment(image.expand(100, -1, -1, -1), "digits", torch.Generator().manual_seed(0))
    rows = torch.arange(28.0)
    center = (varied.sum((1, 3)) * rows).sum(1) / varied.sum((1, 2, 3))
    assert (center - 13.5).abs().max() < 3.5
    assert (varied.sum((1, 2, 3)) / 64 - 1).abs().max() < 0.35


def test_grey_sets_of_an_npz_file_are_never_mirrored(tmp_path):
    half = np.zeros((4, 28, 28), np.uint8)
    half[:, 4:24, 4:10] = 255  # ink on the left alone
    made = {f"{split}_{what}": half if what == "images" else np.array([0, 1, 0, 1])
            for split in ("train", "val", "test") for what in ("images", "labels")}  # fmt: skip
    np.savez(tmp_path / "glyphs.npz", **made)
    opened = open_data(str(tmp_path / "glyphs.npz"))
    pixels = to_tensor(opened.read(np.zeros(200, np.int64)))
    varied = augment(pixels, opened.kind, torch.Generator().manual_seed(0))
    assert (varied[..., :14].sum((1, 2, 3)) > varied[..., 14:].sum((1, 2, 3))).all()
