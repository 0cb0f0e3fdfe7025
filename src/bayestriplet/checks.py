"""Checks of option values, shared by every public constructor and function."""

import difflib
import math
from collections.abc import Iterable
from numbers import Integral, Real
from pathlib import Path

from bayestriplet.errors import InputError, InputTypeError

SPLIT_BY = ("item", "group", "class")
VECTORS = "vectors"  # before the colon and the path of data that are vectors; also the backbone of such a run


def nearest(name: str, allowed: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the closest allowed name, or nothing."""
    close = difflib.get_close_matches(name, list(allowed), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def check_choice(argument: str, value: object, allowed: Iterable[str]) -> str:
    """Return ``value`` if it is one of the allowed names."""
    names = list(allowed)
    if isinstance(value, str) and value in names:
        return value
    hint = nearest(value, names) if isinstance(value, str) else ""
    raise InputError(f"{argument} must be one of {', '.join(map(repr, names))}; got {value!r}{hint}")


def check_number(
    argument: str, value: object, *, above: float | None = None, least: float | None = None
) -> float:
    """Return ``value`` as a finite float inside the given bound."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InputTypeError(f"{argument} must be a number; got {value!r}")
    number = float(value)
    if (above is not None and not number > above) or (least is not None and not number >= least):
        bound = f"above {above:g}" if above is not None else f"at least {least:g}"
        raise InputError(f"{argument} must be {bound}; got {value!r}")
    if not math.isfinite(number):
        raise InputError(f"{argument} must be finite; got {value!r}")
    return number


def check_whole(argument: str, value: object, least: int) -> int:
    """Return ``value`` as an int of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InputTypeError(f"{argument} must be a whole number; got {value!r}")
    if value < least:
        raise InputError(f"{argument} must be at least {least}; got {value}")
    return int(value)


def check_flag(argument: str, value: object) -> bool:
    """Return ``value`` if it is True or False."""
    if not isinstance(value, bool):
        raise InputTypeError(f"{argument} must be True or False; got {value!r}")
    return value


def check_seeds(seeds: Iterable[int]) -> tuple[int, ...]:
    """Return seeds, each at least 0 and none twice."""
    numbers = tuple(check_whole("seeds", seed, 0) for seed in seeds)
    if not numbers or len(set(numbers)) < len(numbers):
        raise InputError(f"seeds must hold different numbers; got {list(numbers)}")
    return numbers


def is_vectors(data: str) -> bool:
    """Return whether a data argument names vectors (vectors:FILE), not images."""
    return data.startswith(f"{VECTORS}:")


def check_split_by(value: object) -> tuple[str, Path | None]:
    """Return what data are split by, and the absolute path of FILE where ``value`` is class:FILE."""
    kind, colon, file = value.partition(":") if isinstance(value, str) else (value, "", "")
    if colon and kind == "class" and file:
        return "class", Path(file).expanduser().absolute()
    if colon or kind not in SPLIT_BY:
        hint = nearest(kind, SPLIT_BY) if isinstance(kind, str) and not colon else ""
        raise InputError(f"split_by must be item, group, class or class:FILE.csv; got {value!r}{hint}")
    return str(kind), None
