"""Which items a search is among: conditions on their label, group and source."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from bayestriplet.checks import check_choice
from bayestriplet.errors import InputError

FILTERS = ("label", "group", "source")

Where = Mapping[str, str] | Sequence[str]
"""Values by field, or texts such as ``label=TUM`` and ``group!=P7``."""


class Condition(NamedTuple):
    """A value that a field has, or must not have. An empty value is that of items where it is unknown."""

    field: str
    value: str
    is_excluded: bool = False

    def __str__(self) -> str:
        return f"{self.field}{'!=' if self.is_excluded else '='}{self.value}"


def read_conditions(
    where: Where | None, exclude_group: str | None = None, *, option: str = "where"
) -> tuple[Condition, ...]:
    """Return the conditions of ``where``, and that no item is of ``exclude_group``; all have to hold."""
    texts = [where] if isinstance(where, str) else where or ()
    if isinstance(texts, Mapping):
        found = [Condition(field, value) for field, value in texts.items()]
    else:
        found = [_parse(text, option) for text in texts]
    for one in found:
        check_choice(option, one.field, FILTERS)
        if one.is_excluded and not one.value:
            raise InputError(f"{option} {one} excludes nothing: name a {one.field}, such as {one}NAME")
    if exclude_group == "":
        raise InputError("the group to exclude must have a name: an empty group is no group")
    if exclude_group is not None:
        found.append(Condition("group", exclude_group, is_excluded=True))
    _check_consistent(found, option)
    return tuple(dict.fromkeys(found))


def _parse(text: str, option: str) -> Condition:
    field, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"{option} must be FIELD=VALUE or FIELD!=VALUE, such as label=TUM; got {text!r}")
    return Condition(field.removesuffix("!"), value, field.endswith("!"))


def _check_consistent(conditions: Sequence[Condition], option: str) -> None:
    """Raise if no item could fulfil all of them."""
    wanted: dict[str, Condition] = {}
    for one in conditions:
        if not one.is_excluded and wanted.setdefault(one.field, one) != one:
            raise InputError(f"{option} names {one.field} twice: {wanted[one.field]} and {one}")
    for one in conditions:
        if one.is_excluded and wanted.get(one.field) == (one.field, one.value, False):
            raise InputError(
                f"{one.field} {one.value!r} is both asked for and excluded; leave out one of them"
            )


def in_words(conditions: Iterable[Condition]) -> str:
    """Return conditions as they are typed, joined."""
    return " and ".join(map(str, conditions))
