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
from bayestriplet.retrieval.queries import Queries


@dataclass(frozen=True)
class Wish:
    """How to search; questions with the same wish are searched together."""

    k: int = 10
    where: tuple[tuple[str, str], ...] = ()
    exclude_self: bool = False


@dataclass(frozen=True, eq=False)
class Question:
    """An image, or a vector that is known already."""

    name: str
    wish: Wish
    pixels: NDArray[np.uint8] | None = None
    """(size, size, C) as the encoder sees them."""
    vector: Vectors | None = None
    """(D,)"""
    hash: str = ""
    """Of the pixels."""


@dataclass(frozen=True, eq=False)
class Reply:
    """An answer, and the vector that was searched for."""

    answer: Answer
    vector: Vectors
    """(D,)"""
    hash: str


def answer_all(index: Index, questions: Sequence[Question]) -> list[Reply | Exception]:
    """Answer questions: the images go through the encoder together, equal wishes through the search."""
    known = _encode(index, questions)
    alike: dict[Wish, list[int]] = defaultdict(list)
    for place, question in enumerate(known):
        alike[question.wish].append(place)
    replies: dict[int, Reply | Exception] = {}
    for wish, places in alike.items():
        replies |= dict(zip(places, _ask(index, wish, [known[i] for i in places]), strict=True))
    return [replies[place] for place in range(len(known))]


def _encode(index: Index, questions: Sequence[Question]) -> list[Question]:
    """Return the questions with vectors."""
    images = [one.pixels for one in questions if one.pixels is not None]
    vectors = iter(index.encoder.encode(np.stack(images)) if images else ())
    return [
        one if one.pixels is None else replace(one, vector=next(vectors), hash=hash_pixels(one.pixels))
        for one in questions
    ]


def _ask(index: Index, wish: Wish, questions: Sequence[Question]) -> Sequence[Reply | Exception]:
    queries = Queries(
        names=tuple(one.name for one in questions),
        vectors=np.stack([one.vector for one in questions if one.vector is not None]),
        hashes=tuple(one.hash for one in questions),
    )
    try:
        index.check_search(wish.k, dict(wish.where))
        answers = index.ask(queries, wish.k, where=dict(wish.where), exclude_self=wish.exclude_self)
    except BayesTripletError as error:
        return [error] * len(questions)
    return [
        Reply(answer, vector, one.hash)
        for answer, vector, one in zip(answers, queries.vectors, questions, strict=True)
    ]
