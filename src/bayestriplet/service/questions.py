"""What is asked of an index, and how several questions are answered at once."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bayestriplet.errors import BayesTripletError
from bayestriplet.retrieval.answers import Answer
from bayestriplet.retrieval.index import Index
from bayestriplet.retrieval.indexing import hash_pixels
from bayestriplet.retrieval.items import Vectors
from bayestriplet.retrieval.live import look_at
from bayestriplet.retrieval.queries import Queries


@dataclass(frozen=True)
class SearchOptions:
    """How to search; questions with the same options are searched together."""

    k: int = 10
    where: tuple[tuple[str, str], ...] = ()
    exclude_self: bool = False
    exclude_group: str | None = None
    """A group to leave out; empty for none, and None for the query's own."""

    def of_item(self, group: str) -> "SearchOptions":
        """Return how to search from an item: its group is left out, unless the request says otherwise."""
        if self.exclude_group is not None or "group" in dict(self.where):
            return self
        return replace(self, exclude_group=group)


@dataclass(frozen=True, eq=False)
class Question:
    """An image, or a vector that is known already."""

    name: str
    options: SearchOptions
    pixels: NDArray[np.uint8] | None = None
    """(size, size, C) as the encoder sees them."""
    vector: Vectors | None = None
    """(D,)"""
    hash: str = ""
    """Of the pixels."""
    looks: NDArray[np.float64] | None = None
    """(F,) how the image looks, where that is known."""


@dataclass(frozen=True, eq=False)
class Reply:
    """An answer, and the vector that was searched for."""

    answer: Answer
    vector: Vectors
    """(D,)"""
    hash: str
    looks: NDArray[np.float64] | None = None
    """(F,)"""


def answer_all(index: Index, questions: Sequence[Question]) -> list[Reply | Exception]:
    """Answer questions: images are encoded together, and those with equal options searched together."""
    known = _encode(index, questions)
    alike: dict[SearchOptions, list[int]] = defaultdict(list)
    for position, question in enumerate(known):
        alike[question.options].append(position)
    replies: dict[int, Reply | Exception] = {}
    for options, positions in alike.items():
        replies |= dict(zip(positions, _ask(index, options, [known[i] for i in positions]), strict=True))
    return [replies[position] for position in range(len(known))]


def _encode(index: Index, questions: Sequence[Question]) -> list[Question]:
    """Return the questions with vectors."""
    images = [one.pixels for one in questions if one.pixels is not None]
    if not images:
        return list(questions)
    pixels = np.stack(images)
    looks = look_at(index.predictive, pixels)
    known = iter(
        {"vector": vector, "hash": hash_pixels(image), "looks": None if looks is None else looks[row]}
        for row, (vector, image) in enumerate(zip(index.encoder.encode(pixels), pixels, strict=True))
    )
    return [one if one.pixels is None else replace(one, **next(known)) for one in questions]


def _ask(index: Index, options: SearchOptions, questions: Sequence[Question]) -> Sequence[Reply | Exception]:
    queries = Queries(
        names=tuple(one.name for one in questions),
        vectors=np.stack([one.vector for one in questions if one.vector is not None]),
        hashes=tuple(one.hash for one in questions),
        looks=stack_looks([one.looks for one in questions]),
    )
    where, left_out = dict(options.where), options.exclude_group or None
    try:
        index.check_search(options.k, where, left_out)
        answers = index.ask(
            queries, options.k, where=where, exclude_self=options.exclude_self, exclude_group=left_out
        )
    except BayesTripletError as error:
        return [error] * len(questions)
    return [
        Reply(answer, vector, one.hash, one.looks)
        for answer, vector, one in zip(answers, queries.vectors, questions, strict=True)
    ]


def stack_looks(found: Sequence[NDArray[np.float64] | None]) -> NDArray[np.float64] | None:
    """Return how images look (n, F), NaN where it is unknown of one; None where of all."""
    length = next((len(one) for one in found if one is not None), None)
    if length is None:
        return None
    return np.stack([np.full(length, np.nan) if one is None else one for one in found])
