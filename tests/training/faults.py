"""A small backbone with batch normalisation that does as FAULT says: "nan:1:7", on rank 1 at step 7."""

import os
import signal
from pathlib import Path

import torch
from torch import nn

from tests.training.networks import small


class Faulty(nn.Module):
    def __init__(self, channels, dim):
        super().__init__()
        self.network, self.steps = small(channels, dim), 0
        what, rank, step = os.environ.get("FAULT", "none:0:0").split(":")
        own = os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0"))
        self.what, self.step = (what, int(step)) if rank == own else ("none", 0)

    def forward(self, images):
        if self.training and torch.is_grad_enabled():
            self.steps += 1
            if self.steps == self.step:
                return self.fail(images)
        return self.network(images)

    def fail(self, images):
        Path(os.environ["FAULT_AT"]).touch()
        if self.what == "nan":
            return self.network(images) * torch.nan
        os.kill(os.getpid(), signal.Signals[self.what])
        return self.network(images)


def faulty(channels, dim):
    return Faulty(channels, dim)
