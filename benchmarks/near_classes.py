"""Draws that an anchor meets of the classes nearest to its own alone, which the ablation tries."""

from dataclasses import replace

import torch
from torch import Generator, Tensor

from bayestriplet.triplets.sampler import TripletSampler
from bayestriplet.triplets.triplets import Triplets


class NearClasses(TripletSampler):
    """A sampler of joined draws in which an anchor meets those of a few classes; items of the batch stay."""

    few: int = 3

    def forward(
        self, embeddings: Tensor, labels: Tensor, generator: Generator | None = None, pick: bool = True
    ) -> Triplets:
        triplets = super().forward(embeddings, labels, generator, pick)
        mean, own = self.posterior.mean, triplets.labels.unsqueeze(1)
        rank = torch.cdist(mean[triplets.labels], mean)  # (B, K)
        rank = rank.masked_fill(self.posterior.seen == 0, torch.inf).scatter(1, own, torch.inf)
        met = torch.zeros_like(rank, dtype=torch.bool)
        met.scatter_(1, rank.topk(min(self.few, len(mean) - 1), largest=False).indices, True)
        drawn = len(triplets.points) - len(triplets.labels)
        mask = triplets.mask.clone()
        mask[:, :drawn] &= met.gather(1, triplets.negative_labels[:, :drawn])
        return replace(triplets, mask=mask)
