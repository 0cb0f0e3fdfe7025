"""A linear head that begins at the principal components of the features it is trained on."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

LENGTH = 64.0  # mean length of an output: steps of the default rate then change directions slowly enough
MANY_FEATURES = 2048  # above that many, components are those of as many items
MOST_ITEMS = 8192
SMALLEST = 1e-6  # variance beside the largest that is more than rounding


def chosen_items(items: int, features: int) -> NDArray[np.int64]:
    """Return which of a number of items components are computed from: all, or evenly spaced ones."""
    most = MOST_ITEMS if features <= MANY_FEATURES else MANY_FEATURES
    return np.arange(items) if items <= most else np.linspace(0, items - 1, most).astype(np.int64)


@torch.no_grad()
def start_at_components(head: nn.Linear, features: NDArray[Any]) -> None:
    """Set a head's rows to the first D principal directions of features (n, F), and its bias to centre them.

    Where there are fewer directions, the other rows stay random. All are scaled alike, so that the mean
    length of an output is 64. Features without any variance leave the head as it is.
    """
    mean = torch.from_numpy(features.mean(0, dtype=np.float64))  # (F,)
    x = torch.from_numpy(np.array(features, np.float32)) - mean.float()  # (n, F)
    directions = principal_directions(x)[: head.out_features]  # (P, F)
    if not len(directions):
        return
    rows = head.weight.detach().clone()
    rows[: len(directions)] = directions
    scale = LENGTH / torch.linalg.vector_norm(x @ rows.mT, dim=1).mean()
    head.weight.copy_(rows * scale)
    head.bias.copy_(-(head.weight.double() @ mean))


def principal_directions(x: Tensor) -> Tensor:
    """Return the principal directions (P, F) of centred x (n, F), that of the largest variance first.

    Eigenvectors of the smaller one of the two products of x with itself. The largest number of a direction
    is positive, so that they are always the same.
    """
    items, features = x.shape
    is_wide = items < features
    product = (x @ x.mT if is_wide else x.mT @ x).double()
    variances, vectors = torch.linalg.eigh(product)
    order = variances.argsort(descending=True)
    order = order[variances[order] > SMALLEST * variances[-1].clamp_min(torch.finfo(torch.float32).tiny)]
    found = vectors[:, order].mT  # (P, n) or (P, F)
    if is_wide:
        found = found @ x.double()
        found = found / torch.linalg.vector_norm(found, dim=1, keepdim=True)
    largest = found.gather(1, found.abs().argmax(1, keepdim=True))
    return (found * largest.sign()).to(x.dtype)
