"""How well the classes lie apart by themselves, and how far draws still need their vertices."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bayestriplet.posterior.host import in_memory, read, send

KEPT = 0.9  # of what was known, when a batch brings more
CELLS = 1_000_000  # comparisons of an item with a class mean that are held at a time
SMALLEST = 1e-12  # length of a table that has a direction


def separation_of(
    items: Tensor, means: Tensor, line: NDArray[np.int64], known: NDArray[np.bool_]
) -> Tensor | float | None:
    """Return how much more often items are nearer to their own class mean than to another one.

    Somers' D (docs/method.md, eq. 9c): 1 where each of the items (B, D) is nearest to its own mean, 0 where
    chance decides or all distances are equal. The means (P, D) are those of the batch's classes from before
    the items, whose class is that of ``line`` (B,). Classes not yet ``known`` (P,) are left out. None where
    nothing can be compared.
    """
    others = int(np.count_nonzero(known)) - 1
    rows = known[line].nonzero()[0] if others < len(known) - 1 else line
    pairs = len(rows) * others
    if not pairs:
        return None
    if others < len(known) - 1:
        line = (known.astype(np.int64).cumsum() - 1)[line[rows]]
        kept, classes = send(items, rows, known.nonzero()[0])
        items, means = items[kept], means[classes]
    if in_memory(items):  # NumPy takes a fraction of the time, where there is nothing to wait for
        near_items, near_means = read(items, means)
        return float(_ahead(near_items, near_means, np.arange(len(line)), line)) / pairs
    row, own = send(items, np.arange(len(line)), line)
    found: Tensor = _ahead(items, means, row, own) / pairs
    return found


def _ahead(items: Any, means: Any, row: Any, line: Any) -> Any:
    """Return how often the own mean is nearer minus how often it is farther, of tensors or arrays.

    A large batch of many classes is read in parts, whose table of B x P never has more than ``CELLS``.
    """
    half, together = (means * means).sum(1) / 2, max(1, CELLS // len(means))
    ahead: Any = 0
    for start in range(0, len(items), together):
        part = slice(start, start + together)
        near = items[part] @ means.T - half  # (b, P), larger is nearer
        own = near[row[part] - start, line[part]][:, None]
        ahead = ahead + ((own > near).sum() - (own < near).sum())
    return ahead


def remember_(separation: Tensor, found: Tensor | float | None) -> None:
    """Let a separation () move towards that of a batch."""
    if found is not None:
        separation.lerp_(torch.as_tensor(found).to(separation), 1 - KEPT)


def share_of_vertices(spread: float, separation: Tensor, shift: Tensor, vertex: Tensor) -> Tensor | float:
    """Return the share () of the way to their vertices that centres are moved by (docs/method.md, eq. 9c).

    All of the spread while classes do not lie apart, and where they lie apart at their vertices: their
    means, seen from the mean of all, ``shift`` (P, D), point to ``vertex`` (P, D). None of it where classes
    lie apart elsewhere.
    """
    if in_memory(separation):  # plain numbers take a fraction of the time
        near_shift, near_vertex = read(shift, vertex)
        length = (float(np.vdot(near_shift, near_shift)) * len(near_vertex)) ** 0.5
        aligned = max(0.0, float(np.vdot(near_shift, near_vertex))) / (length + SMALLEST)
        return spread * (1 - max(0.0, float(separation)) * (1 - min(1.0, aligned)))
    product = torch.dot(shift.flatten(), vertex.flatten())
    reach = torch.linalg.vector_norm(shift) * len(vertex) ** 0.5
    aligned_there = (product / (reach + SMALLEST)).clamp(0, 1)
    return (spread * (1 - separation.clamp_min(0) * (1 - aligned_there))).to(shift.dtype)
