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
class SearchOptions:
    """How to search; questions with the same options are searched together."""

    k: int = 10
    where: tuple[tuple[str, str], ...] = ()
    exclude_self: bool = False


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


@dataclass(frozen=True, eq=False)
class Reply:
    """An answer, and the vector that was searched for."""

    answer: Answer
    vector: Vectors
    """(D,)"""
    hash: str


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
    vectors = iter(index.encoder.encode(np.stack(images)) if images else ())
    return [
        one if one.pixels is None else replace(one, vector=next(vectors), hash=hash_pixels(one.pixels))
        for one in questions
    ]


def _ask(index: Index, options: SearchOptions, questions: Sequence[Question]) -> Sequence[Reply | Exception]:
    queries = Queries(
        names=tuple(one.name for one in questions),
        vectors=np.stack([one.vector for one in questions if one.vector is not None]),
        hashes=tuple(one.hash for one in questions),
    )
    try:
        index.check_search(options.k, dict(options.where))
        answers = index.ask(queries, options.k, where=dict(options.where), exclude_self=options.exclude_self)
    except BayesTripletError as error:
        return [error] * len(questions)
    return [
        Reply(answer, vector, one.hash)
        for answer, vector, one in zip(answers, queries.vectors, questions, strict=True)
    ]
