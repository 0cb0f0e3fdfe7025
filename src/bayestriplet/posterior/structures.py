"""Choosing a structure of the covariance by what it needs, before anything is allocated."""

import os
from collections.abc import Collection

import torch

from bayestriplet.checks import check_choice
from bayestriplet.errors import InputError
from bayestriplet.posterior.diagonal import DiagonalStructure
from bayestriplet.posterior.full import FullStructure
from bayestriplet.posterior.lowrank import LowRankStructure
from bayestriplet.posterior.structure import Structure
from bayestriplet.posterior.tied import TiedStructure

STRUCTURES: dict[str, type[Structure]] = {
    one.name: one for one in (FullStructure, TiedStructure, LowRankStructure, DiagonalStructure)
}
CHOICES = ("auto", *STRUCTURES)
FULL_UP_TO = 64 * 2**20  # bytes of state, for "auto"; a constant, so that results depend on no machine
PREFERRED = ("full", "lowrank", "diagonal", "tied")
DENSE_UP_TO = 2**30  # bytes of covariance matrices that are made at once


def bytes_needed(
    structure: str, num_classes: int, dim: int, dtype: torch.dtype, compensated: bool = False
) -> int:
    """Return the bytes of a posterior's state: counts, means, what its structure keeps, and remainders."""
    kind, means = STRUCTURES[structure], num_classes * dim
    kept = kind.numbers(num_classes, dim) + means
    if compensated:
        kept += kind.sums(num_classes, dim) + means
    return kept * dtype.itemsize + 16 * num_classes + 8 * (dim + 4)


def choose_structure(
    structure: str, num_classes: int, dim: int, dtype: torch.dtype, compensated: bool = False
) -> str:
    """Return the name of the structure to use; raise where its state cannot fit into memory.

    Remainders do not count for "auto": the structure does not depend on them.
    """
    check_choice("structure", structure, CHOICES)
    if structure == "auto":
        fits = bytes_needed("full", num_classes, dim, dtype) <= FULL_UP_TO
        structure = "full" if fits else "lowrank"
    needed = bytes_needed(structure, num_classes, dim, dtype, compensated)
    memory = memory_of_machine()
    if memory is not None and needed > memory:
        sizes = {name: bytes_needed(name, num_classes, dim, dtype, compensated) for name in STRUCTURES}
        fitting = [name for name in PREFERRED if sizes[name] <= memory]
        best = fitting[0] if fitting else min(sizes, key=lambda name: sizes[name])
        advice = (
            f"structure={best!r} needs {in_units(sizes[best])}"
            if fitting
            else f"the least, structure={best!r}, needs {in_units(sizes[best])}: use fewer classes "
            "or dimensions"
        )
        raise InputError(
            f"{num_classes} classes in {dim} dimensions need {in_units(needed)} with "
            f"structure={structure!r}, more than the {in_units(memory)} of this machine; {advice}"
        )
    return structure


def structure_of(state: Collection[str]) -> str:
    """Return the structure that the names of a state belong to; full, if none is known."""
    return next((name for name, kind in STRUCTURES.items() if kind.own_state in state), "full")


def memory_of_machine() -> int | None:
    """Return the bytes of physical memory; None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def in_units(size: float) -> str:
    """Return bytes as a short text: 1.4 GB."""
    for unit in ("bytes", "kB", "MB", "GB", "TB", "PB"):
        if size < 1000 or unit == "PB":
            break
        size /= 1000
    return f"{size:.3g} {unit}"
