"""A square root of every class's scatter, kept up to date row by row."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Generator, Tensor, nn

from bayestriplet.posterior.statistics import Addition

LEAST_SCALE = 1e-3  # below this, old rows would be stored too large for float32


class ScatterRoot(nn.Module):
    """Rows W (K, M, D) and a scale g (K,) with g^2 W^T W = L, the scatter (docs/method.md, eq. 9).

    A batch adds rows^T rows to a scatter, so it adds rows to W, and forgetting shrinks g: a step
    of training needs no factorisation. Only when all M = 1.5 D rows are used, every ten
    batches or so, is L itself factorised anew. All is kept in buffers, so that a training that goes on
    from a checkpoint draws the very points it would have drawn.

    Somebody may edit the scatters, which are buffers too. :meth:`note` keeps the version counter of
    the tensor that the root is of, and :meth:`check` gives the root up when it is no longer that one.
    """

    lines: Tensor  # (K, M, D), those behind ``used`` are not to be read
    scale: Tensor  # (K,)
    used: Tensor  # (), 0 while there is no root

    def __init__(self, num_classes: int, dim: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.register_buffer("lines", torch.zeros(num_classes, dim + max(1, dim // 2), dim, dtype=dtype))
        self.register_buffer("scale", torch.ones(num_classes, dtype=dtype))
        self.register_buffer("used", torch.zeros((), dtype=torch.int64))
        self._of_version: int | None = None

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        """Load the root, or give it up where only the statistics were saved: it is made anew from them."""
        if f"{prefix}used" in state_dict:
            super()._load_from_state_dict(state_dict, prefix, *rest)
        else:
            self.used.zero_()

    def note(self, scatter: Tensor) -> None:
        """Remember that the root is of these scatters as they are now."""
        self._of_version = _version_of(scatter)

    def check(self, scatter: Tensor) -> None:
        """Give the root up if the scatters were changed since :meth:`note`."""
        if self._of_version != _version_of(scatter):
            self.used.zero_()
            self.note(scatter)

    def add_(self, addition: Addition) -> None:
        """Follow the scatters through an addition; without room for its rows the root is given up."""
        used, more = int(self.used), addition.rows.shape[1]
        if not used:
            return
        everyone = len(addition.classes) == len(self.scale)
        scale = self.scale if everyone else self.scale[addition.classes]  # (P,)
        smaller = scale * addition.keep.sqrt().to(scale.dtype)
        # One line stays free for the prior's part of a draw.
        if used + more >= self.lines.shape[1] or smaller.min() < LEAST_SCALE:
            self.used.zero_()
            return
        free = self.lines[:, used : used + more]
        rows = addition.rows / scale[:, None, None]
        if everyone:
            free.copy_(rows)
            self.scale.copy_(smaller)
        else:
            free.zero_()
            free[addition.classes] = rows
            self.scale[addition.classes] = smaller
        self.used.add_(more)

    def renew(self, scatter: Tensor) -> None:
        """Factorise the scatters (K, D, D), unless there is a root of them already."""
        self.check(scatter)
        if not int(self.used):
            dim = scatter.shape[1]
            self.lines[:, :dim] = square_root(scatter)
            self.scale.fill_(1)
            self.used.fill_(dim)

    def deviate(self, classes: Tensor, cross: Tensor, num: int, generator: Generator | None) -> Tensor:
        """Draw (P, num, D) of covariance L + c c^T from ascending ``classes`` (P,) with c (P, D)."""
        used = int(self.used)
        everyone = len(classes) == len(self.scale)
        scale = self.scale if everyone else self.scale[classes]  # (P,)
        lines = self.lines[:, : used + 1] if everyone else self.lines[classes, : used + 1]
        lines[:, used] = cross / scale.unsqueeze(1)
        shape = len(classes), num, used + 1
        standard = torch.randn(shape, generator=generator, dtype=lines.dtype, device=lines.device)
        return torch.bmm(standard.mul_(scale[:, None, None]), lines)


class HasScatterRoot(nn.Module):
    """A module with scatters and their root, which stay together when it is moved, loaded or copied."""

    item_scatter: Tensor  # (K, D, D)
    root: ScatterRoot

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "HasScatterRoot":
        self.root.check(self.item_scatter)
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.root.note(self.item_scatter)
        return self

    def _load_from_state_dict(self, *arguments: Any) -> None:
        super()._load_from_state_dict(*arguments)
        self.root.note(self.item_scatter)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self.root.note(self.item_scatter)  # a copy counts its changes anew


def _version_of(scatter: Tensor) -> int | None:
    """Return how often a tensor was changed in place; one made in inference mode does not count."""
    return None if scatter.is_inference() else scatter._version


def square_root(matrix: Tensor) -> Tensor:
    """Return R (P, D, D) with R^T R = matrix, for symmetric positive semi-definite matrices.

    Cholesky where it exists (the upper factor is the faster one on CPUs). A matrix that is
    singular, or that rounding made slightly indefinite, goes through its eigenvalues, clamped
    at 0: the nearest positive semi-definite matrix is factorised instead.
    """
    factor, info = torch.linalg.cholesky_ex(matrix, upper=True)
    failed = info > 0
    if failed.any():
        values, vectors = torch.linalg.eigh(matrix[failed])
        factor[failed] = (vectors * values.clamp_min(0).sqrt().unsqueeze(-2)).mT
    return factor
