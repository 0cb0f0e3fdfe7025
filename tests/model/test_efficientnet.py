import pytest
import torch

from bayestriplet.errors import DataError
from bayestriplet.evaluation.weights import find_weights
from bayestriplet.model.backbone import build_features
from bayestriplet.model.efficientnet import FEATURES, EfficientNetLite0, SamePad, rename_published


def made_up():
    """Three images (3, 3, 224, 224) in 0 .. 1: a gradient, stripes and a disc."""
    y, x = torch.meshgrid(torch.linspace(0, 1, 224), torch.linspace(0, 1, 224), indexing="ij")
    disc = ((x - 0.5) ** 2 + (y - 0.5) ** 2 < 0.1).float()
    stripes = (x * 20).sin() / 2 + 0.5
    return torch.stack(
        [torch.stack([x, y, 1 - x]), torch.stack([stripes] * 3), torch.stack([disc, 0 * y + 0.3, x])]
    )


# The first features and the mean of all, as the published network gives them.
RECORDED = (
    ((0.0, 0.0, 0.6275, 0.0, 0.0, 0.0), 0.09704),
    ((0.0434, 0.0, 0.4005, 0.1571, 0.0, 0.0), 0.11632),
    ((0.0051, 0.0029, 1.4976, 0.0267, 0.0, 0.0), 0.1085),
)


def test_features_of_made_up_images_are_those_of_the_published_network():
    try:
        weights = find_weights("efficientnet-lite0", "imagenet")
    except DataError as error:
        pytest.skip(f"the weights cannot be had here: {error}")
    network, number = build_features("efficientnet-lite0", 3, 1.0, weights)
    with torch.no_grad():
        features = network.eval()((made_up() * 255 - 127) / 128)
    assert features.shape == (3, number) == (3, FEATURES)
    for row, (first, mean) in zip(features, RECORDED, strict=True):
        torch.testing.assert_close(row[:6], torch.tensor(first), atol=2e-3, rtol=1e-2)
        assert float(row.mean()) == pytest.approx(mean, rel=1e-3)


def test_the_network_has_the_published_number_of_weights():
    assert sum(value.numel() for value in EfficientNetLite0().parameters()) == 3_371_008


@pytest.mark.parametrize(("side", "kernel", "stride"), [(224, 3, 2), (7, 5, 1), (15, 5, 2), (1, 3, 2)])
def test_padding_makes_the_side_divided_by_the_stride_rounded_up(side, kernel, stride):
    padded = SamePad(kernel, stride)(torch.zeros(1, 1, side, side))
    assert (padded.shape[2] - kernel) // stride + 1 == -(-side // stride)


def test_names_of_the_published_file_become_ours():
    state = {
        "_conv_stem.weight": torch.zeros(1),
        "_blocks.3._bn1.bias": torch.zeros(1),
        "_fc.bias": torch.zeros(1),
    }
    assert list(rename_published(state)) == ["stem.conv.weight", "blocks.3.depthwise.norm.bias"]
