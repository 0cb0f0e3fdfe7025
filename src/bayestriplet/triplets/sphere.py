"""Projection onto the unit sphere."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize, pad

from bayestriplet.errors import StateError

SMALLEST_NORM = 1e-12


def refuse_second_derivative() -> None:
    """Raise in a backward pass that is itself to be differentiated: ours keep no graph for that.

    Cheaper than torch's ``once_differentiable``, which wraps every result.
    """
    if torch.is_grad_enabled():
        raise StateError("second derivatives (create_graph=True) are not supported by these losses")


class _Unit(torch.autograd.Function):
    """x / |x| with its gradient (g - u (u . g)) / |x| in three passes; autograd's takes nine."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True).clamp_min(SMALLEST_NORM)
        unit = x / norm
        ctx.save_for_backward(unit, norm)
        return unit

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        refuse_second_derivative()
        unit, norm = ctx.saved_tensors
        radial = (gradient * unit).sum(-1, keepdim=True)
        return torch.addcmul(gradient, unit, radial, value=-1) / norm


def to_sphere(x: Tensor) -> Tensor:
    """Scale every vector of x (..., D) to length 1; a zero vector stays zero."""
    return _Unit.apply(x)  # type: ignore[no-untyped-call]


def simplex_vertices(num_classes: int, dim: int) -> Tensor:
    """Return K unit vectors (K, D) as far apart as can be: the vertices of a regular simplex.

    There are D + 1 of these in D dimensions; more classes get random directions, always the
    same, which in many dimensions are nearly at right angles.
    """
    if num_classes > dim + 1:
        generator = torch.Generator().manual_seed(0)
        return normalize(torch.randn(num_classes, dim, generator=generator, dtype=torch.float64))
    # Helmert's basis of the vectors that sum to 0: row j is (1, ..., 1, -j, 0, ...), made a unit.
    column = torch.arange(num_classes)
    step = column[1:].unsqueeze(1).double()  # (K - 1, 1)
    basis = torch.where(column < step, 1.0, torch.where(column == step, -step, 0.0))  # (K - 1, K)
    return pad(normalize(normalize(basis).mT), (0, dim - num_classes + 1))
