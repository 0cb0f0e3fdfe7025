"""Items that images become which came with no set, and words for items that are not there."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from bayestriplet.errors import InputError, InputTypeError
from bayestriplet.retrieval.items import Item
from bayestriplet.retrieval.queries import Queries

NEAR = 0.5  # likeness of a value that a message names
ADDED = ""  # source of items that came with no set: no set has that name


def no_such_item(where: Mapping[str, str], items: Sequence[Item]) -> str:
    """Return that no item fulfils some conditions, with values near those that do not occur."""
    said = " and ".join(f"{field}={value}" for field, value in where.items())
    near = []
    for field, value in where.items():
        values = {getattr(one, field) for one in items}
        if value not in values:
            near += [f"{field}={close}" for close in get_close_matches(value, values, cutoff=NEAR)]
    return f"no item of the index has {said}" + (f"; there is {', '.join(near)}" if near else "")


def added_items(
    read: Queries, hashes: Sequence[str], labels: Sequence[str] | None, ids: Sequence[str] | None,
    groups: Sequence[str] | None,
) -> tuple[Item, ...]:  # fmt: skip
    """Return the items that images become which came with no set."""
    blank = [""] * len(hashes)
    files = blank if read.paths is None else [str(path.absolute()) for path in read.paths]
    names = ids if ids is not None else [file or own for file, own in zip(files, hashes, strict=True)]
    for argument, values in (("labels", labels), ("ids", ids), ("groups", groups)):
        if values is not None and len(values) != len(hashes):
            raise InputError(f"{argument} must be {len(hashes)}, one per image; got {len(values)}")
        if values is not None and (wrong := [value for value in values if not isinstance(value, str)]):
            raise InputTypeError(f"{argument} must be strings, '' where unknown; got {wrong[0]!r}")
    if len(set(names)) < len(names):
        raise InputError("ids must differ, and so must images without ids")
    columns = zip(names, labels or blank, files, groups or blank, hashes, strict=True)
    return tuple(Item(name, label, path, group, ADDED, own) for name, label, path, group, own in columns)
