import pytest
import torch

from bayestriplet.posterior import nearest
from bayestriplet.posterior.nearest import nearest_rows


@pytest.mark.parametrize("number", [1, 5, 127, 128, 129, 300, 512])
@pytest.mark.parametrize("num", [1, 3])
@pytest.mark.parametrize("cells", [4_000_000, 700])
def test_the_nearest_rows_are_those_of_sorted_distances(number, num, cells, monkeypatch):
    monkeypatch.setattr(nearest, "BLOCK_CELLS", cells)
    generator = torch.Generator().manual_seed(number)
    rows = torch.randn(number, 4, dtype=torch.float64, generator=generator)
    points = torch.randn(7, 4, dtype=torch.float64, generator=generator)
    square = rows.square().sum(1)
    square[::5] = torch.inf  # never near
    values, found = nearest_rows(points, rows, square, min(num, number))
    distance = torch.cdist(points, rows).square() - points.square().sum(1, keepdim=True)
    distance[:, ::5] = torch.inf
    expected = distance.sort(1).values[:, : min(num, number)]
    torch.testing.assert_close(values, expected)
    torch.testing.assert_close(distance.gather(1, found), expected)
