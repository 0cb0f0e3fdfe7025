"""What a search says about a query."""

import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bayestriplet.retrieval.items import Hit

MANY = 100  # classes up to which an answer has the probabilities of all
LIKELIEST = 10  # classes that it has of more
UNLIKE = 99.0  # percentile of novelty beyond which a query is unlike the known classes
FEW = 200  # validation items below which an answer says how many there were


@dataclass(frozen=True, slots=True)
class Neighbour:
    """An indexed item near a query."""

    rank: int
    """From 1, the nearest."""
    id: str
    label: str
    """Empty where it is unknown."""
    distance: float
    """Euclidean."""
    path: str
    """Of the file it was indexed from; empty for an item of a set in memory."""


@dataclass(frozen=True)
class Vote:
    """The class that most neighbours are of."""

    label: str
    """Where several classes are tied, the one of them that is nearest."""
    share: float
    """Of the neighbours."""
    tied: tuple[str, ...] = ()
    """The classes that equally many neighbours are of, nearest first; empty where one class wins."""


@dataclass(frozen=True)
class Answer:
    """What was found for one query."""

    query: str
    neighbours: tuple[Neighbour, ...]
    vote: Vote | None
    """None where no neighbour has a label."""
    probabilities: dict[str, float] | None = None
    """Of every class, or of the ten likeliest where there are over 100; None for a run that keeps none."""
    novelty: float | None = None
    """Percentage of held-out items that are less novel; None like the probabilities."""
    excluded_group: str | None = None
    """The group (patient, slide) whose items were left out."""
    against: str = "trained on"
    """Which classes novelty is about: those trained on, or trained on or taught."""
    evidence: str = ""
    """What novelty rests on, where that is little."""

    @property
    def is_unlike(self) -> bool:
        """Whether the query is unlike the known classes: more novel than 99% of held-out items."""
        return self.novelty is not None and self.novelty > UNLIKE

    def to_json(self) -> dict[str, Any]:
        """Return the answer as plain values."""
        vote = None if self.vote is None else dict(vars(self.vote))
        neighbours = tuple(  # 10,000 of them are not rare enough for dataclasses.asdict
            {"rank": one.rank, "id": one.id, "label": one.label, "distance": one.distance, "path": one.path}
            for one in self.neighbours
        )
        return {**vars(self), "neighbours": neighbours, "vote": vote}


def name_shares(classes: Sequence[str], shares: Sequence[float]) -> dict[str, float]:
    """Return the probability of every class; of more than 100, the likeliest ten, likeliest first."""
    if len(classes) <= MANY:
        return dict(zip(classes, shares, strict=True))
    return {classes[k]: shares[k] for k in heapq.nlargest(LIKELIEST, range(len(shares)), shares.__getitem__)}


def make_neighbours(hits: Sequence[Hit]) -> tuple[Neighbour, ...]:
    """Return hits with their ranks."""
    return tuple(
        Neighbour(rank, hit.item.id, hit.item.label, hit.distance, hit.item.path)
        for rank, hit in enumerate(hits, 1)
    )


def take_vote(neighbours: Sequence[Neighbour]) -> Vote | None:
    """Return the vote of the neighbours that have a label; they come nearest first."""
    counts = Counter(one.label for one in neighbours if one.label)
    if not counts:
        return None
    number = max(counts.values())
    first, *others = (
        label for label, votes in counts.items() if votes == number
    )  # in the order they were met
    return Vote(first, number / len(neighbours), (first, *others) if others else ())
