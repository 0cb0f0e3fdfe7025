"""Criteria by the names of their methods."""

from functools import partial
from typing import Any

import torch
from torch import nn

from bayestriplet.methods import METHODS
from bayestriplet.triplets.apart import MOST_CLASSES, directions_apart
from bayestriplet.triplets.baselines import BASELINES, baseline
from bayestriplet.triplets.criteria import BUNCA, BUT

CONTROLS: dict[str, dict[str, Any]] = {  # what of BUNCA's options a control fixes
    "vertices": {"spread": 1.0, "noise": 0.0, "handover": False},
    "means": {"spread": 0.0, "noise": 0.0},
    "no-noise": {"noise": 0.0},
}


def vertices_only(num_classes: int, dim: int, **options: Any) -> BUNCA:
    """Return BUNCA that draws the fixed points of the classes alone; more than D + 1 are moved apart."""
    criterion = BUNCA(num_classes, dim, **CONTROLS["vertices"], **options)
    if dim + 1 < num_classes <= MOST_CLASSES:
        criterion.sampler.vertex.table = directions_apart(num_classes, dim).to(criterion.sampler.vertex.dtype)
    return criterion


CONSTRUCTORS: dict[str, Any] = {
    "but": BUT,
    "bunca": BUNCA,
    **{name: partial(baseline, name) for name in BASELINES},
    **{name: partial(BUNCA, **fixed) for name, fixed in CONTROLS.items()},
    "vertices": vertices_only,
}


def build_criterion(
    method: str, num_classes: int, dim: int, *, recipe: str, generator: torch.Generator, **options: Any
) -> nn.Module:
    """Return the criterion of a method; options that are None take its own values.

    A control takes the options of BUNCA, but for those that it fixes.
    """
    given = {name: value for name, value in options.items() if value is not None}
    if METHODS[method].draws:
        given |= {"recipe": recipe, "generator": generator}
    criterion: nn.Module = CONSTRUCTORS[method](num_classes, dim, **given)
    return criterion


def drawing_recipe(method: str, recipe: str) -> dict[str, Any]:
    """Return what a method draws its triplets with in a recipe, and which pull; nothing if it draws none."""
    if not METHODS[method].draws:
        return {}
    fixed = CONTROLS.get(method)
    constructor = CONSTRUCTORS[method] if fixed is None else BUNCA
    of_loss = constructor.loss_recipes[recipe]
    margin = {name: of_loss[name] for name in ("positive_margin",) if name in of_loss}
    return constructor.sampling[recipe] | margin | (fixed or {})
