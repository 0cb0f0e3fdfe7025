"""How surely new classes are told apart, fitted to their own examples left out one at a time (eq. 19b)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayestriplet.runs.students import Floats

MOST_ASKED = 1000  # validation items, and examples, that the fit looks at
SHARPNESS, CONTRAST, BIAS = 0.7, 0.5, 1.0  # how far these are expected from what they are without examples
LADDER = np.exp(np.linspace(-2.0, 2.0, 81))  # of the sharpness
STEPS = 30


@dataclass(frozen=True)
class Adapted:
    """What the taught examples say of the reading of new classes (docs/method.md, eq. 19b)."""

    sharpness: float = 1.0
    """Power of the densities among new classes."""
    contrast: float = 1.0
    """Factor of the contrast of new classes against old ones."""
    bias: float = 0.0
    """What is added to the log odds of new classes."""

    @classmethod
    def fit(
        cls, scores: Floats, labels: NDArray[np.int64], odds: tuple[Floats, Floats], prior: float,
        contrast: float, bias: float,
    ) -> "Adapted":  # fmt: skip
        """Return the adaptation with the least log loss, held to what is expected without examples.

        ``scores`` (n, P) are the terms of the new classes for their examples. ``odds`` are the log odds of
        new classes by the densities, of validation items (V,) and of examples (n,), ``prior`` those of the
        class prior.
        """
        sharpness = _fit_sharpness(scores, labels)
        factor, shift = _fit_odds(*odds, prior, contrast, bias)
        return cls(sharpness, factor, shift)


def _fit_sharpness(scores: Floats, labels: NDArray[np.int64]) -> float:
    own = scores[np.arange(len(labels)), labels]
    losses = [
        (np.logaddexp.reduce(power * scores, 1) - power * own).sum() + (np.log(power) / SHARPNESS) ** 2 / 2
        for power in LADDER
    ]
    return float(LADDER[int(np.argmin(losses))])


def _fit_odds(old: Floats, new: Floats, prior: float, contrast: float, bias: float) -> tuple[float, float]:
    """Return the factor of the contrast and the shift of the bias: a convex problem, by Newton's method."""
    sign = np.concatenate([np.full(len(old), 1.0), np.full(len(new), -1.0)])
    weight = np.concatenate([np.full(len(old), len(new) / len(old)), np.ones(len(new))])
    slopes = np.stack([contrast * np.concatenate([old, new]), np.ones(len(sign))], 1)  # (N, 2)
    center, precision = np.array([1.0, 0.0]), 1 / np.square([CONTRAST, BIAS])

    def loss(at: Floats) -> float:
        held = (precision * np.square(at - center)).sum() / 2
        return float(weight @ np.logaddexp(0.0, sign * (slopes @ at + prior + bias)) + held)

    at = center
    for _ in range(STEPS):
        level = sign * (slopes @ at + prior + bias)
        chance = np.exp(-np.logaddexp(0.0, -level))  # of being wrong
        slope = slopes.T @ (weight * sign * chance) + precision * (at - center)
        bend = (slopes * (weight * chance * (1 - chance))[:, None]).T @ slopes + np.diag(precision)
        step, size = np.linalg.solve(bend, slope), 1.0
        while size > 1e-6 and loss(at - size * step) > loss(at) - 1e-4 * size * (slope @ step):
            size /= 2
        at = at - size * step
        if np.abs(size * step).max() < 1e-9:
            break
    return max(float(at[0]), 0.0), float(at[1])
