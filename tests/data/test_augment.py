import pytest
import torch

from bayestriplet.data.augment import KINDS, augment


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
