"""The sets of an index: which data each one holds, and what its items are called.

An item's ``source`` is the name of its set, and no two sets have the same name: the items alone say
which set they belong to. The store keeps beside them what each name stands for.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count, islice
from pathlib import Path
from typing import NamedTuple

from bayestriplet.data.sources import PREFIXES, absolute_data
from bayestriplet.errors import InputError, StateError
from bayestriplet.retrieval.items import Item

MOST_PARTS = 100  # names of a set that are tried


class IndexedSet(NamedTuple):
    """A set of an index: one split, or the whole, of some data."""

    name: str
    """The ``source`` of its items."""
    data: str
    """Resolved path, or the name of a named data set."""
    split: str
    """train, val or test; empty for the whole."""
    prefix: str
    """Ids of its items begin with this and a slash."""

    def __str__(self) -> str:
        split = f", split {self.split}" if self.split else ""
        return f"{self.name}{split}" + (f" ({self.data})" if self.data != self.name else "")


class Registration(NamedTuple):
    """A set that is registered, in place of what was registered under its name."""

    before: IndexedSet | None
    after: IndexedSet

    @property
    def moved_from(self) -> str:
        """Where the data were before; empty where they have not moved."""
        moved = self.before is not None and self.before.data != self.after.data
        return self.before.data if moved and self.before is not None else ""


class Removal(NamedTuple):
    """A set that is forgotten."""

    before: IndexedSet


SetChange = Registration | Removal


def apply_changes(
    sets: Mapping[str, IndexedSet], changes: Iterable[SetChange], uri: str
) -> dict[str, IndexedSet]:
    """Return the register after some changes, unless another process changed the same entries."""
    out = dict(sets)
    for change in changes:
        name = change.before.name if isinstance(change, Removal) else change.after.name
        if out.pop(name, None) != change.before:
            raise StateError(f"{uri}: set {name!r} was changed by another process; run it again")
        if isinstance(change, Registration):
            out[name] = change.after
    return out


def locate(data: str) -> str:
    """Return what distinguishes data from others: the resolved path, or the name of a named set."""
    absolute = absolute_data(data)
    kind, colon, path = absolute.partition(":")
    if colon and kind in PREFIXES:
        return f"{kind}:{Path(path).resolve()}"
    return str(Path(absolute).resolve()) if Path(absolute).is_absolute() else absolute


def choose_set(
    sets: Mapping[str, IndexedSet], items: Iterable[Item], *, data: str, split: str, last: str,
    name: str | None = None,
) -> Registration:  # fmt: skip
    """Return the set that some data belong to, registered already or new.

    ``data`` is located, ``last`` its last name. Items of no registered set were indexed by version
    0.1.0, by the last name alone: the first set of that name takes them over.
    """
    same = next((one for one in sets.values() if (one.data, one.split) == (data, split)), None)
    if name is not None:
        return _named_set(sets, same, name, data, split)
    if same is not None:
        return Registration(same, same)
    known = list(items)
    unregistered = {item.source for item in known} - set(sets) - {""}
    if last in unregistered:
        return Registration(None, IndexedSet(last, data, split, last))
    loose = {item.id for item in known if item.source == ""}
    return Registration(None, _new_set(sets, unregistered, loose, data, split, last))


def _new_set(
    sets: Mapping[str, IndexedSet], unregistered: set[str], loose: set[str], data: str, split: str, last: str
) -> IndexedSet:
    """Return a set with a name of its own, and with ids that no other set and no ``loose`` item can have."""
    taken = set(sets) | unregistered
    # A set whose name was given stands alone: its ids do not begin as those of the data do.
    siblings = {one.prefix: one for one in sets.values() if one.data == data}
    shared = next((one for one in islice(_suffixes(data, last), MOST_PARTS) if one in siblings), None)
    if shared is not None:  # another split of the same data
        names = (f"{one}:{split or 'all'}" for one in _suffixes(data, last))
        return IndexedSet(_first_free(names, taken), data, split, shared)
    prefixes = {one.prefix for one in sets.values()} | unregistered
    free = (
        one
        for one in _suffixes(data, last)
        if not any(_overlap(one, other) for other in prefixes)
        and not any(other.startswith(f"{one}/") for other in loose)
    )
    name = _first_free(free, taken)
    return IndexedSet(name, data, split, name)


def _named_set(
    sets: Mapping[str, IndexedSet], same: IndexedSet | None, name: str, data: str, split: str
) -> Registration:
    """Return the set of a name that was given: a new one, or one whose data may have moved."""
    if not name or not name.isprintable():
        raise InputError(f"--name must be a line of text; got {name!r}")
    if same is not None and same.name != name:
        raise InputError(
            f"{data} is already indexed as {same.name!r}; leave out --name, "
            f"or take it out first with --remove source={same.name}"
        )
    before = sets.get(name)
    if before is None:
        if any(_overlap(name, one.prefix) for one in sets.values()):
            raise InputError(f"--name {name}: ids of another set begin like that; choose another name")
        return Registration(None, IndexedSet(name, data, split, name))
    if before.split != split:
        kind = f"the split {before.split}" if before.split else "the whole"
        raise InputError(f"--name {name} is {kind} of {before.data}; choose another name")
    return Registration(before, before._replace(data=data))


def relatives(sets: Mapping[str, IndexedSet], own: IndexedSet) -> list[str]:
    """Return the names of sets that hold items of the same data by the same ids: the whole and its splits."""
    return [
        one.name
        for one in sets.values()
        if (one.data, one.prefix) == (own.data, own.prefix) and "" in (one.split, own.split)
    ]


def emptied(sets: Mapping[str, IndexedSet], left: Iterable[Item]) -> Sequence[SetChange]:
    """Return that the sets of which no items are left are forgotten."""
    used = {item.source for item in left}
    return [Removal(one) for one in sets.values() if one.name not in used]


def _suffixes(data: str, last: str) -> Iterator[str]:
    """Yield names for a set, the shortest first: its last name, then more of its path, then numbers."""
    yield last
    kind, colon, path = data.partition(":")
    parents = Path(path if colon and kind in PREFIXES else data).parts[1:-1]
    for number in range(1, len(parents) + 1):
        yield "/".join((*parents[-number:], last))
    for number in count(2):
        yield f"{last}-{number}"


def _first_free(names: Iterator[str], taken: set[str]) -> str:
    return next(name for name in names if name not in taken)


def _overlap(one: str, other: str) -> bool:
    """Return whether ids that begin with one could be ids that begin with the other."""
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")
