"""The full covariance: a scatter matrix per class, and a root of it to draw from."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Generator, Tensor

from bayestriplet.posterior.chosen import Chosen, take
from bayestriplet.posterior.predictive import StudentClasses
from bayestriplet.posterior.priors import NIWPosterior
from bayestriplet.posterior.root import ScatterRoot, lines_of
from bayestriplet.posterior.statistics import Addition, add_to_scatters_
from bayestriplet.posterior.structure import Level, Structure
from bayestriplet.posterior.versions import Noted


class FullStructure(Structure):
    """Scatters (K, D, D), exact.

    Somebody may edit the scatters, which are buffers. The version counters tell: where those of the
    scatters moved and those of the root did not, the root is given up. Where both moved, as when
    DistributedDataParallel broadcasts all buffers, they came together.
    """

    name = "full"
    own_state = "item_scatter"
    item_scatter: Tensor  # (K, D, D)
    root: ScatterRoot

    def __init__(self, num_classes: int, dim: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.register_buffer("item_scatter", torch.zeros(num_classes, dim, dim, dtype=dtype))
        self.root = ScatterRoot(num_classes, dim, dtype)
        self._noted, self._noted_root = Noted(), Noted()
        self.note()

    @staticmethod
    def numbers(num_classes: int, dim: int) -> int:
        return num_classes * dim * (dim + lines_of(dim))

    @staticmethod
    def sums(num_classes: int, dim: int) -> int:
        return num_classes * dim * dim

    def watched(self) -> list[Tensor]:
        return [self.item_scatter]

    def note(self) -> None:
        """Remember that the root is of the scatters as they are now."""
        self._noted.note((self.item_scatter,))
        self._noted_root.note((self.root.lines,))

    def check(self) -> None:
        """Give the root up if the scatters alone were changed since :meth:`note`."""
        scatters = self._noted.changed((self.item_scatter,))
        root = self._noted_root.changed((self.root.lines,))
        if scatters and not root:
            self.root.give_up()
        if scatters or root:
            self.note()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "FullStructure":
        self.check()
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.note()
        return self

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self.note()  # a copy counts its changes anew

    def add_(self, addition: Addition, total: float) -> None:
        del total
        self.check()
        add_to_scatters_(self.item_scatter, addition, self.scatter_rest)
        self.root.add_(addition)
        self.note()

    def trace(self, classes: Tensor) -> Tensor:
        return take(self.item_scatter.diagonal(dim1=-2, dim2=-1), classes).sum(dtype=torch.float64)

    def deviate(
        self, chosen: Chosen, share: Tensor, cross: Tensor, level: Level, num: int,
        generator: Generator | None,
    ) -> Tensor:  # fmt: skip
        del share
        self.check()
        most = self.root.renew(chosen, self.item_scatter)
        self.note()
        return self.root.deviate(chosen, cross, level, most, num, generator)

    def dense(self, classes: Tensor, share: Tensor) -> Tensor:
        del share
        return take(self.item_scatter, classes)

    def log_density(
        self, x: Tensor, niw: NIWPosterior, classes: Tensor, share: Tensor, next_item: bool, repair: bool
    ) -> Tensor:
        del share
        return StudentClasses.of(niw, take(self.item_scatter, classes), next_item, repair).log_density(x)
