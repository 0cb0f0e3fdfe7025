"""What every rank of a training has of its own, and a checkpoint has to keep of each.

Weights and posterior are equal on all ranks. Generators are not: ranks draw for batches of
different sizes. Nor are the buffers of the network: batch normalisation averages over each rank's own items.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Generator, nn

from bayestriplet.errors import InputError
from bayestriplet.posterior.distributed import is_distributed

State = dict[str, Any]


def rank_state(encoder: nn.Module, draws: Generator) -> State:
    """Return the state of this rank's generators and of its network's buffers."""
    generators = {"draws": draws.get_state(), "torch": torch.get_rng_state()}
    if draws.device.type == "cuda":
        generators["cuda"] = torch.cuda.get_rng_state(draws.device)
    kept = dict(encoder.named_buffers()).keys() & encoder.state_dict().keys()
    buffers = {name: value.cpu() for name, value in encoder.state_dict().items() if name in kept}
    return {"generators": generators, "buffers": buffers}


def gather_states(own: State) -> list[State]:
    """Return the states of all ranks, in their order; every rank has to call it."""
    if not is_distributed():
        return [own]
    states: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(states, own)
    return states


def restore_rank(checkpoint: State, draws: Generator) -> None:
    """Set this rank's generators, and make its buffers those that the checkpoint loads.

    Checkpoints of earlier versions have the first rank's alone.
    """
    world, rank = (dist.get_world_size(), dist.get_rank()) if is_distributed() else (1, 0)
    states = checkpoint.get("ranks", [{"generators": checkpoint["generators"], "buffers": {}}] * world)
    if len(states) != world:
        raise InputError(f"the run was begun on {len(states)} processes; now there are {world}")
    own = states[rank]
    try:
        draws.set_state(own["generators"]["draws"].cpu())
    except RuntimeError:
        raise InputError(f"the run was not begun on this kind of device, {draws.device.type}") from None
    torch.set_rng_state(own["generators"]["torch"])
    if "cuda" in own["generators"]:
        torch.cuda.set_rng_state(own["generators"]["cuda"], draws.device)
    checkpoint["state_dict"].update({f"encoder.{name}": value for name, value in own["buffers"].items()})
