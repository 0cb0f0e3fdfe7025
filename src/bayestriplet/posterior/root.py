"""A square root of every class's scatter, kept up to date row by row."""

from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import pad

from bayestriplet.posterior.host import read, send
from bayestriplet.posterior.statistics import Addition, put_, take

LEAST_SCALE = 1e-3  # below this, old rows would be stored too large for float32
ABSENT = 1 << 30  # in place of the number of rows, for a class whose root has to be made from its scatter
SPARE = 16  # rows, so that batches find room where D is small
TURNS = 8  # classes are made shorter in turns: those met together would all be due together
FEW = 16  # classes that need no turns


def lines_of(dim: int) -> int:
    """Return how many rows a root has room for."""
    return 2 * dim + SPARE


class ScatterRoot(nn.Module):
    """Rows W (K, M, D) and a scale g (K,) with g^2 W^T W = L, the scatter (docs/method.md, eq. 9a).

    A batch adds rows^T rows to a scatter, so it adds rows to W, and forgetting shrinks g: a step
    of training needs no factorisation. Only when a class that is drawn from has little room left are
    its rows made D again: by Cholesky's factor of the scatter, or where that does not exist, by a QR
    decomposition of the rows, which is slower and always exists. A class without a root, because its
    state was saved without one or somebody changed its scatter, or because a batch brought more rows
    than there was room for, has it made from the scatter when it is drawn from. All is kept in
    buffers, so that a training that goes on from a checkpoint draws the very points it would have drawn.
    """

    lines: Tensor  # (K, M, D), zeros behind ``used``
    scale: Tensor  # (K,)
    used: Tensor  # (K,) rows in use, or ABSENT
    limit: Tensor  # (K,) rows above which a root is made shorter

    def __init__(self, num_classes: int, dim: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.register_buffer("lines", torch.zeros(num_classes, lines_of(dim), dim, dtype=dtype))
        self.register_buffer("scale", torch.ones(num_classes, dtype=dtype))
        self.register_buffer("used", torch.zeros(num_classes, dtype=torch.int64))
        turn = torch.arange(num_classes) % (TURNS if num_classes > FEW else 1)
        limit = dim + (dim + SPARE) // 2 - turn * (dim + SPARE) // (4 * TURNS)
        self.register_buffer("limit", limit, persistent=False)
        self.highest = lines_of(dim) - (dim + SPARE) // 4  # rows above which it has to be done at once

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        """Load the root, or give it up where none of this form was saved: it is made anew."""
        saved = [state_dict.get(f"{prefix}{name}") for name in ("lines", "scale", "used")]
        own = [self.lines, self.scale, self.used]
        if all(a is not None and a.shape == b.shape for a, b in zip(saved, own, strict=True)):
            super()._load_from_state_dict(state_dict, prefix, *rest)
        else:
            self.give_up()

    def give_up(self) -> None:
        """Forget all roots; each is made from its scatter when its class is drawn from."""
        self.used.fill_(ABSENT)

    def add_(self, addition: Addition) -> None:
        """Follow the scatters through an addition; a class without room for its rows loses its root."""
        classes, rows = addition.classes, addition.rows
        used, scale = take(self.used, classes), take(self.scale, classes)  # (P,), (P,)
        smaller = scale * addition.root
        width = min(rows.shape[1], self.lines.shape[1])
        fits = (used <= self.lines.shape[1] - rows.shape[1]).logical_and_(smaller > LEAST_SCALE**2)
        place = (used * fits).unsqueeze(1) + torch.arange(width, device=used.device)  # (P, n)
        flat = (place + (classes * self.lines.shape[1]).unsqueeze(1)).flatten()
        fresh = rows[:, :width] / scale[:, None, None]
        self.lines.view(-1, rows.shape[2]).index_copy_(0, flat, fresh.flatten(0, 1))
        put_(self.used, classes, torch.where(fits, used + addition.size, ABSENT))
        put_(self.scale, classes, torch.where(fits, smaller, 1))

    def renew(self, classes: Tensor, scatter: Tensor) -> int:
        """Make the roots of ``classes`` (P,) that are absent or due; return the most rows of any."""
        # The one transfer of a step's draws.
        used, limit, scale = read(*(take(one, classes) for one in (self.used, self.limit, self.scale)))
        absent = used == ABSENT
        full = ~absent & ((used > self.highest) | (scale < LEAST_SCALE))
        due = ~absent & ~full & (used > limit)
        most = int(np.where(absent, scatter.shape[1], used).max(initial=0))
        if absent.any():
            chosen = classes.index_select(0, *send(classes, np.flatnonzero(absent)))
            self._replace(chosen, square_root(scatter.index_select(0, chosen)), self.lines.shape[1])
        if full.any():
            chosen = classes.index_select(0, *send(classes, np.flatnonzero(full)))
            lines = self.lines[:, :most].index_select(0, chosen)
            lines.mul_(self.scale.index_select(0, chosen).view(-1, 1, 1))
            self._replace(chosen, torch.linalg.qr(lines, mode="r").R, most)
        if due.any():
            chosen = classes.index_select(0, *send(classes, np.flatnonzero(due)))
            self._try_to_shorten(chosen, scatter.index_select(0, chosen), most)
        return most

    def _replace(self, classes: Tensor, lines: Tensor, most: int) -> None:
        """Set the roots of ``classes`` (P,), which had at most so many rows, to lines (P, n, D)."""
        padded = pad(lines, (0, 0, 0, most - lines.shape[1]))
        self.lines[:, :most].index_copy_(0, classes, padded)
        self.scale.index_fill_(0, classes, 1)
        self.used.index_fill_(0, classes, lines.shape[1])

    def _try_to_shorten(self, classes: Tensor, scatter: Tensor, most: int) -> None:
        """Set the roots of ``classes`` to the Cholesky factors of their scatters, where these exist.

        It is the device that looks where they do, so that nothing waits for it. The others keep their
        rows, until they have so many that the slower QR decomposition is due.
        """
        factor, info = torch.linalg.cholesky_ex(scatter, upper=True)
        exists = info == 0
        padded = pad(factor, (0, 0, 0, most - factor.shape[1]))
        old = self.lines[:, :most].index_select(0, classes)
        self.lines[:, :most].index_copy_(0, classes, torch.where(exists.view(-1, 1, 1), padded, old))
        used, scale = self.used.index_select(0, classes), self.scale.index_select(0, classes)
        self.used.index_copy_(0, classes, torch.where(exists, factor.shape[1], used))
        self.scale.index_copy_(0, classes, torch.where(exists, 1, scale))

    def deviate(
        self, classes: Tensor, cross: Tensor, most: int, num: int, generator: Generator | None
    ) -> Tensor:
        """Draw (P, num, D) of covariance L + c c^T from ``classes`` (P,) with at most ``most`` rows."""
        lines = take(self.lines[:, :most], classes)
        scale = take(self.scale, classes).view(-1, 1, 1)
        shape = len(classes), num, most + 1
        standard = torch.randn(shape, generator=generator, dtype=lines.dtype, device=lines.device)
        deviation = torch.bmm(standard[:, :, :most] * scale, lines)
        return deviation.addcmul_(standard[:, :, most:], cross.unsqueeze(1))


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
