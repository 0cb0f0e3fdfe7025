"""A script that trains and leaves the final state of every rank: states_of_ranks.py OUT DEVICES STATES."""

import sys
from pathlib import Path

import torch

import bayestriplet as bt
from bayestriplet.training.module import EmbeddingModule


def save(self):
    broadcasts = self.trainer.strategy.model.forward_sync_buffers
    state = {"state": self.state_dict(), "draws": self.draws.get_state(), "broadcasts": broadcasts}
    torch.save(state, Path(sys.argv[3]) / f"{self.global_rank}.pt")


if __name__ == "__main__":
    EmbeddingModule.on_train_end = save
    bt.train(
        "digits", out=sys.argv[1], devices=int(sys.argv[2]), backbone="tests.training.faults:faulty", dim=16,
        batches="random", batch_size=31, max_steps=12, validate_every=6,
    )  # fmt: skip
