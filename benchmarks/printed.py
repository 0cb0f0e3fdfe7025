"""The posterior as the paper prints it, mistake by mistake, to show what each of them costs."""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from bayestriplet.posterior.posterior import ClassPosterior
from bayestriplet.posterior.root import square_root


@dataclass(frozen=True)
class Mistakes:
    """Which lines of the printed algorithm are taken at their word."""

    inverse: bool = False  # Sigma0 := Upsilon^-1 / (n' + n0 - D - 1)
    feedback: bool = False  # the expectation enters the next batch as if it were a sample covariance
    order: bool = False  # mu0 is overwritten before the cross term uses it
    batch_only: bool = False  # up to D + 1 items, the covariance of the current batch alone


class PrintedPosterior(ClassPosterior):
    """Class distributions by the printed updates, one class after the other; draws are normal."""

    def __init__(self, num_classes: int, dim: int, mistakes: Mistakes) -> None:
        super().__init__(num_classes, dim, prior="improper")
        self.mistakes = mistakes
        self.sigma = torch.zeros(num_classes, dim, dim)  # the covariance that is drawn from
        self.carried = torch.zeros(num_classes, dim, dim)  # what stands for n0 Sigma0 in the next batch

    @torch.no_grad()
    def absorb(self, embeddings: Tensor, labels: Tensor, sizes: list[int], numbers: object = None) -> None:
        del sizes, numbers
        for k in labels.unique().tolist():
            self._absorb_class(k, embeddings.detach()[labels == k])

    def _absorb_class(self, k: int, x: Tensor) -> None:
        new, old = len(x), float(self.count[k])
        mean = x.mean(0)
        scatter = (x - mean).mT @ (x - mean)
        before = self.item_mean[k].clone()
        self.item_mean[k] = (new * mean + old * before) / (new + old)
        if old:
            gap = (self.item_mean[k] if self.mistakes.order else before) - mean
            total = self.carried[k] + scatter + new * old / (new + old) * torch.outer(gap, gap)
        else:
            total = scatter
        number = new + old
        self.count[k] = number
        self.seen[k] += new
        if number > self.dim + 1:
            sigma = torch.linalg.inv(total) if self.mistakes.inverse else total
            self.sigma[k] = sigma / (number - self.dim - 1)
        else:
            self.sigma[k] = scatter / new if self.mistakes.batch_only else total / number
        self.carried[k] = number * self.sigma[k] if self.mistakes.feedback else total

    @property
    def mean(self) -> Tensor:
        return self.item_mean

    @torch.no_grad()
    def draw(  # type: ignore[override]
        self, classes: Tensor, num: int, generator: Generator | None, *, noise: float, **_: object
    ) -> Tensor:
        standard = torch.randn(len(classes), num, self.dim, generator=generator)
        return self.item_mean[classes].unsqueeze(1) + noise * standard @ square_root(self.sigma[classes])
