"""What torch computes on."""

import torch


def describe_devices() -> list[str]:
    """Return the devices that torch can use, the CPU with its threads first."""
    found = [f"CPU, threads of torch: {torch.get_num_threads()}"]
    if torch.cuda.is_available():
        found += [f"GPU {i}: {torch.cuda.get_device_name(i)}" for i in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        found.append("GPU of Apple (mps)")
    return found
