"""The mean of all ranks' gradients, the same to the last bit however they are grouped."""

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel


def average_in_order(model: nn.Module | None) -> None:
    """Add gradients in the order of ranks; on CPUs, before the first step.

    DDP groups gradients anew after its first step, and a ring adds each part of a group in an order of its
    own. With three ranks or more a resumed training, whose first step comes later, would round differently.
    """
    if isinstance(model, DistributedDataParallel) and next(model.parameters()).device.type == "cpu":
        model.register_comm_hook(None, _average)


def _average(state: None, bucket: dist.GradBucket) -> Future[Tensor]:  # type: ignore[name-defined]
    """Average a group of gradients, as a hook of DDP."""
    del state
    done: Future[Tensor] = Future()
    done.set_result(mean_over_ranks(bucket.buffer()))
    return done


def mean_over_ranks(values: Tensor) -> Tensor:
    """Return the mean (n,) of all ranks' values (n,), each added in the order of ranks.

    Every rank adds up its own part and sends the sums to the others, so that no more is sent than by a ring.
    """
    world = dist.get_world_size()
    parts = values.new_zeros(world, -(-len(values) // world))  # (R, P), the last one padded
    parts.view(-1)[: len(values)] = values
    received = torch.empty_like(parts)  # (R, P) this rank's part, of every rank
    dist.all_to_all_single(received, parts)
    total = received[0]
    for other in received[1:]:
        total = total + other
    dist.all_gather_into_tensor(parts.view(-1), total / world)
    return parts.view(-1)[: len(values)]
