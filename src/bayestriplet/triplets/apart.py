"""More directions than a regular simplex has vertices, moved apart until they repel each other evenly."""

import torch
from torch import Tensor
from torch.nn.functional import normalize

from bayestriplet.triplets.sphere import random_directions

MOST_CLASSES = 2048  # above that a step takes too long: random directions stay as they are
STEPS = 100
SOFTEST, SHARPEST = 10.0, 200.0  # inverse temperatures of the repulsion, from the first step to the last
BLOCK = 512  # rows of the table of cosines that are held at a time


def directions_apart(num_classes: int, dim: int) -> Tensor:
    """Return unit vectors (K, D), float32, whose smallest angle is large; always the same ones.

    They begin as random directions. A step moves every vector away from a mean of the others,
    weighted by softmax(t cos): at first from all that are near, in the end from the nearest alone.
    """
    vectors = random_directions(torch.arange(num_classes), dim).float()
    if num_classes > MOST_CLASSES:
        return vectors
    for step in range(STEPS):
        done = step / STEPS
        sharpness = SOFTEST * (SHARPEST / SOFTEST) ** done
        vectors = normalize(vectors - (1 - done) * _nearby(vectors, sharpness))
    return vectors


def _nearby(vectors: Tensor, sharpness: float) -> Tensor:
    """Return for every vector (K, D) the weighted mean of the others, in which the nearest count most."""
    means = torch.empty_like(vectors)
    for start in range(0, len(vectors), BLOCK):
        block = vectors[start : start + BLOCK]
        cosines = block @ vectors.mT  # (R, K)
        cosines.diagonal(start).fill_(-torch.inf)  # none is repelled by itself
        torch.mm(torch.softmax(cosines.mul_(sharpness), 1), vectors, out=means[start : start + BLOCK])
    return means
