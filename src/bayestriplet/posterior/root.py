"""A square root of every class's scatter, kept up to date row by row."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor, nn

from bayestriplet.posterior.chosen import Chosen, put_, take
from bayestriplet.posterior.host import read, send
from bayestriplet.posterior.mirror import Mirror
from bayestriplet.posterior.statistics import Addition
from bayestriplet.posterior.structure import Level

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

    def __init__(self, num_classes: int, dim: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.register_buffer("lines", torch.zeros(num_classes, lines_of(dim), dim, dtype=dtype))
        self.register_buffer("scale", torch.ones(num_classes, dtype=dtype))
        self.register_buffer("used", torch.zeros(num_classes, dtype=torch.int64))
        self._mirror = Mirror()
        turn = np.arange(num_classes) % (TURNS if num_classes > FEW else 1)
        self.limit = (
            dim + 3 * (dim + SPARE) // 4 - turn * (dim + SPARE) // (4 * TURNS)
        )  # rows of a short root
        self.shortest_limit = int(self.limit.min())
        self.highest = lines_of(dim) - (dim + SPARE) // 8  # rows above which it has to be done at once

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
        chosen, rows, room = addition.chosen, addition.rows, self.lines.shape[1]
        used, scale = (array[chosen.numbers] for array in self._mirror.read(self.used, self.scale))
        smaller = scale * np.sqrt(addition.keep).astype(scale.dtype)
        fits = (used <= room - rows.shape[1]) & (smaller > LEAST_SCALE**2)
        width, larger = min(rows.shape[1], room), 1 / scale[:, None, None]
        everywhere = bool(fits.all())
        first = used if everywhere else np.where(fits, used, 0)
        if len(chosen) == len(self.lines) and (first == first[0]).all():  # one block
            block = self.lines[:, first[0] : first[0] + width]
            torch.mul(rows[:, :width], *send(rows, larger), out=block)
        else:
            place = (first + chosen.numbers * room)[:, None] + np.arange(width)
            flat, factor = send(rows, place.reshape(-1), larger)
            fresh = (rows[:, :width] * factor).flatten(0, 1)
            self.lines.view(-1, rows.shape[2]).index_copy_(0, flat, fresh)
        if everywhere:
            self._write(chosen, used + addition.size, smaller)
        else:
            self._write(chosen, np.where(fits, used + addition.size, ABSENT), np.where(fits, smaller, 1))

    def _write(self, chosen: Chosen, used: NDArray[Any] | int, scale: NDArray[Any] | float) -> None:
        self._mirror.write((self.used, self.scale), chosen, used, scale)

    def renew(self, chosen: Chosen, scatter: Tensor) -> int:
        """Make the roots of classes (P,) that are absent or due; return the most rows of any."""
        used, scale = (array[chosen.numbers] for array in self._mirror.read(self.used, self.scale))
        most = int(used.max(initial=0))
        if most <= self.shortest_limit and scale.min(initial=1) >= LEAST_SCALE:
            return most
        absent = used == ABSENT
        full = ~absent & ((used > self.highest) | (scale < LEAST_SCALE))
        due = ~absent & ~full & (used > self.limit[chosen.numbers])
        if absent.any():
            some = chosen.at(absent)
            self._replace(some, square_root(take(scatter, some.classes)))
        if full.any():
            some = chosen.at(full)
            lines = take(self.lines, some.classes) * take(self.scale, some.classes).view(-1, 1, 1)
            self._replace(some, torch.linalg.qr(lines, mode="r").R)
        if due.any():
            self._try_to_shorten(chosen.at(due), scatter)
        return int(self._mirror.read(self.used, self.scale)[0][chosen.numbers].max(initial=0))

    def _replace(self, chosen: Chosen, lines: Tensor) -> None:
        """Set the roots of classes (P,) to lines (P, n, D)."""
        number = lines.shape[1]
        put_(self.lines[:, :number], chosen.classes, lines)
        self.lines[:, number:].index_fill_(0, chosen.classes, 0)
        self._write(chosen, number, 1.0)

    def _try_to_shorten(self, chosen: Chosen, scatter: Tensor) -> None:
        """Set the roots of classes to the Cholesky factors of their scatters, where these exist.

        The others keep their rows, until they have so many that the slower QR decomposition is due.
        """
        factor, info = torch.linalg.cholesky_ex(take(scatter, chosen.classes), upper=True)
        exists = read(info)[0] == 0
        if exists.any():
            self._replace(chosen.at(exists), take(factor, *send(info, np.flatnonzero(exists))))

    def deviate(
        self, chosen: Chosen, cross: Tensor, level: Level, most: int, num: int, generator: Generator | None
    ) -> Tensor:
        """Draw (P, num, D) of covariance L + c c^T + level I from classes (P,) with at most ``most`` rows."""
        lines = take(self.lines[:, :most], chosen.classes)
        scale = take(self.scale, chosen.classes).view(-1, 1, 1)
        (number, dim), cells = cross.shape, len(cross) * num
        extra = 0 if not isinstance(level, Tensor) and level == 0 else dim
        size = cells * (most + 1 + extra)
        standard = torch.randn(size, generator=generator, dtype=lines.dtype, device=lines.device)
        rows, along, rest = torch.split(standard, [cells * most, cells, cells * extra])
        rows = rows.view(number, num, most).mul_(scale)
        if not extra:
            deviation = torch.bmm(rows, lines)
        elif isinstance(level, Tensor):
            deviation = rest.view(number, num, dim).mul_(level**0.5).baddbmm_(rows, lines)
        else:
            deviation = rest.view(number, num, dim).baddbmm_(rows, lines, beta=level**0.5)
        return deviation.addcmul_(along.view(number, num, 1), cross.unsqueeze(1))


def square_root(matrix: Tensor) -> Tensor:
    """Return R (P, D, D) with R^T R = matrix, for symmetric positive semi-definite matrices.

    Cholesky where it exists (the upper factor is the faster one on CPUs). A matrix that is
    singular, or that rounding made slightly indefinite, goes through its eigenvalues, clamped
    at 0: the nearest positive semi-definite matrix is factorised instead.
    """
    factor, info = torch.linalg.cholesky_ex(matrix, upper=True)
    failed = info > 0
    if failed.any():
        factor[failed] = symmetric_root(matrix[failed])
    return factor


def symmetric_root(matrix: Tensor) -> Tensor:
    """Return R (..., D, D) with R^T R the nearest positive semi-definite matrix, by eigenvalues."""
    values, vectors = torch.linalg.eigh(matrix)
    return (vectors * values.clamp_min(0).sqrt().unsqueeze(-2)).mT
