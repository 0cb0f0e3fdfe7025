"""Searches of a store that leave out a query's own items, or say why nothing was found."""

from collections.abc import Sequence

from bayestriplet.checks import nearest
from bayestriplet.errors import InputError
from bayestriplet.retrieval.conditions import Condition, in_words
from bayestriplet.retrieval.items import Hit, Vectors
from bayestriplet.retrieval.store import Store


def find_others(
    store: Store, vectors: Vectors, k: int, where: Sequence[Condition], own: Sequence[str] | None
) -> list[list[Hit]]:
    """Return the k nearest items of each vector, without those whose hash is its ``own``."""
    if own is None:
        return store.search(vectors, k, where)
    more = 1
    while True:  # until enough is left, however often a query is in the index
        found = store.search(vectors, k + more, where)
        others = [
            [hit for hit in hits if hit.item.hash != mine] for hits, mine in zip(found, own, strict=True)
        ]
        if all(len(rest) >= k or len(hits) < k + more for rest, hits in zip(others, found, strict=True)):
            return [rest[:k] for rest in others]
        more *= 8


def check_fulfilled(
    store: Store, vector: Vectors, conditions: Sequence[Condition], classes: Sequence[str]
) -> None:
    """Raise if no item at all fulfils conditions."""
    if any(store.search(vector, 1, conditions)):
        return
    labels = [one.value for one in conditions if one.field == "label" and not one.is_excluded]
    hint = nearest(labels[0], classes) if labels else ""
    raise InputError(f"no item of the index has {in_words(conditions)}{hint}")
