"""Projection onto the unit sphere."""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, pad

from bayestriplet.errors import StateError

SMALLEST_NORM = 1e-12
TABLE_CELLS = 2**21  # numbers of a table of vertices that is kept, at most


def refuse_second_derivative() -> None:
    """Raise in a backward pass that is itself to be differentiated: ours keep no graph for that.

    Cheaper than torch's ``once_differentiable``, which wraps every result.
    """
    if torch.is_grad_enabled():
        raise StateError("second derivatives (create_graph=True) are not supported by these losses")


def length_of(x: Tensor) -> Tensor:
    """Return the lengths (..., 1) of vectors (..., D), above 0."""
    return torch.linalg.vector_norm(x, dim=-1, keepdim=True).clamp_min_(SMALLEST_NORM)


class _Unit(torch.autograd.Function):
    """x / |x| with its gradient in three passes; autograd's takes nine."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        norm = length_of(x)
        unit = x / norm
        ctx.save_for_backward(unit, norm)
        return unit

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        refuse_second_derivative()
        return before_sphere(gradient, *ctx.saved_tensors)


def before_sphere(gradient: Tensor, unit: Tensor, norm: Tensor) -> Tensor:
    """Return the gradient in x, given that in u = x / |x|: (g - u (u . g)) / |x|."""
    radial = (gradient * unit).sum(-1, keepdim=True)
    return torch.addcmul(gradient, unit, radial, value=-1).div_(norm)


def to_sphere(x: Tensor) -> Tensor:
    """Scale every vector of x (..., D) to length 1; a zero vector stays zero."""
    return _Unit.apply(x)  # type: ignore[no-untyped-call]


def simplex_vertices(num_classes: int, dim: int) -> Tensor:
    """Return K unit vectors (K, D) as far apart as can be: the vertices of a regular simplex.

    There are D + 1 of these in D dimensions; more classes get random directions, always the
    same, which in many dimensions are nearly at right angles.
    """
    if num_classes > dim + 1:
        return random_directions(torch.arange(num_classes), dim)
    # Helmert's basis of the vectors that sum to 0: row j is (1, ..., 1, -j, 0, ...), made a unit.
    column = torch.arange(num_classes)
    step = column[1:].unsqueeze(1).double()  # (K - 1, 1)
    basis = torch.where(column < step, 1.0, torch.where(column == step, -step, 0.0))  # (K - 1, K)
    return pad(normalize(normalize(basis).mT), (0, dim - num_classes + 1))


def random_directions(classes: Tensor, dim: int) -> Tensor:
    """Return a unit vector (N, D) for each of classes (N,), float64: the same one whenever it is asked for.

    Normal numbers made of hashed positions, so that no table of all classes is needed.
    """
    cell = classes.unsqueeze(1) * (2 * dim) + torch.arange(2 * dim, device=classes.device)  # (N, 2 D)
    uniform = (_hashed(cell).double() + 0.5) / 2**32
    radius, angle = uniform.chunk(2, 1)
    return normalize((-2 * radius.log()).sqrt_() * (2 * math.pi * angle).cos_())


def _hashed(number: Tensor) -> Tensor:
    """Return 32 mixed bits of whole numbers, the finaliser of MurmurHash3 twice, in 64-bit integers."""
    low = 0xFFFFFFFF
    for constant in (0x9E3779B9, 0x7F4A7C15):
        number = (number ^ (number >> 32) ^ constant) & low
        number = ((number ^ (number >> 16)) * 0x7FEB352D) & low
        number = ((number ^ (number >> 15)) * 0x46A7BC35) & low
        number = number ^ (number >> 16)
    return number


class Vertices(nn.Module):
    """The vertex of each class, kept in a table while that is small, else made when it is asked for."""

    table: Tensor | None  # (K, D)

    def __init__(self, num_classes: int, dim: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.dim, self.dtype = dim, dtype
        kept = num_classes <= dim + 1 or num_classes * dim <= TABLE_CELLS
        table = simplex_vertices(num_classes, dim).to(dtype) if kept else None
        self.register_buffer("table", table, persistent=False)

    def forward(self, classes: Tensor) -> Tensor:
        """Return the vertices (N, D) of classes (N,); all of them without a copy."""
        if self.table is None:
            return random_directions(classes, self.dim).to(self.dtype)
        table = self.table.to(self.dtype)
        return table if len(classes) == len(table) else table.index_select(0, classes)
