"""Joining the items of all ranks of a torch.distributed run."""

import torch
import torch.distributed as dist
from torch import Tensor

from bayestriplet.errors import BayesTripletError, InputError

REFUSED = -1


class RefusedElsewhereError(InputError):
    """The input of another rank was bad; its own error says what was wrong."""


def is_distributed() -> bool:
    """Tell whether this process is one of several ranks."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def agree_on_sizes(size: int | BayesTripletError, device: torch.device) -> list[int]:
    """Tell every rank how many items each of them has; an error on one rank raises on all.

    Every rank must call this once a step, with its error in place of a size where its input
    is bad: a rank that raised alone would leave the others waiting for it forever.
    """
    own = REFUSED if isinstance(size, BayesTripletError) else size
    sizes = torch.zeros(dist.get_world_size(), dtype=torch.int64, device=device)
    dist.all_gather_into_tensor(sizes, torch.tensor([own], dtype=torch.int64, device=device))
    if isinstance(size, BayesTripletError):
        raise size
    refused = [rank for rank, items in enumerate(sizes.tolist()) if items == REFUSED]
    if refused:
        raise RefusedElsewhereError(f"bad input on rank {refused[0]}: its own error says what was wrong")
    return [int(items) for items in sizes.tolist()]


def gather_items(embeddings: Tensor, labels: Tensor, sizes: list[int]) -> tuple[Tensor, Tensor]:
    """Return the items of all ranks, in the order of ranks, on every rank.

    Items are sent instead of statistics: B x D numbers, not K x D x D. Ranks with fewer items
    pad to the largest ``sizes`` and the padding is cut off again.
    """
    largest = max(sizes)
    padded = embeddings.new_zeros(largest, embeddings.shape[1])
    padded[: len(embeddings)] = embeddings
    padded_labels = labels.new_zeros(largest)
    padded_labels[: len(labels)] = labels
    everything = embeddings.new_empty(len(sizes) * largest, embeddings.shape[1])
    everything_labels = labels.new_empty(len(sizes) * largest)
    dist.all_gather_into_tensor(everything, padded)
    dist.all_gather_into_tensor(everything_labels, padded_labels)
    slot = torch.arange(largest, device=labels.device)  # (largest,)
    real = slot < torch.tensor(sizes, device=labels.device).unsqueeze(1)  # (ranks, largest)
    return everything[real.flatten()], everything_labels[real.flatten()]
