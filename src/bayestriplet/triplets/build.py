"""Criteria by the names of their methods."""

from functools import partial
from typing import Any

import torch
from torch import nn

from bayestriplet.methods import METHODS
from bayestriplet.triplets.baselines import BASELINES, baseline
from bayestriplet.triplets.criteria import BUNCA, BUT

CONSTRUCTORS: dict[str, Any] = {
    "but": BUT,
    "bunca": BUNCA,
    **{name: partial(baseline, name) for name in BASELINES},
}


def build_criterion(
    method: str, num_classes: int, dim: int, *, recipe: str, generator: torch.Generator, **options: Any
) -> nn.Module:
    """Return the criterion of a method; options that are None take its own values."""
    given = {name: value for name, value in options.items() if value is not None}
    if METHODS[method].draws:
        given |= {"recipe": recipe, "generator": generator}
    criterion: nn.Module = CONSTRUCTORS[method](num_classes, dim, **given)
    return criterion


def drawing_recipe(method: str, recipe: str) -> dict[str, Any]:
    """Return what a method draws its triplets with in a recipe; nothing for those that draw none."""
    return dict(CONSTRUCTORS[method].sampling[recipe]) if METHODS[method].draws else {}
