"""The picture that ``bayestriplet search --montage`` writes."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bayestriplet.data.thumbnails import read_thumbnail
from bayestriplet.errors import InputError
from bayestriplet.report.answers import describe
from bayestriplet.report.figure import save_figure
from bayestriplet.report.fonts import missing_letters
from bayestriplet.report.search_figure import (
    MOST_QUERIES,
    SHOWN,
    AnsweredQuery,
    DrawnNeighbour,
    search_figure,
)
from bayestriplet.retrieval.answers import Answer
from bayestriplet.retrieval.index import Index
from bayestriplet.retrieval.queries import Queries

LONGEST_NAME = 24  # characters


def check_montage(path: Path, number: int) -> None:
    """Raise before any work if the picture cannot be made."""
    if path.suffix.lower() != ".png":
        raise InputError(f"--montage must name a .png file; got {path}")
    if number > MOST_QUERIES:
        raise InputError(f"--montage shows at most {MOST_QUERIES} queries; there are {number}")
    if not path.parent.is_dir():
        raise InputError(f"--montage: there is no folder {path.parent}")


def write_montage(path: Path, index: Index, queries: Queries, answers: list[Answer]) -> None:
    """Draw queries and their neighbours, from the thumbnails that the index keeps."""
    shown = {one.id for answer in answers for one in answer.neighbours[:SHOWN]}
    thumbnails = index.store.thumbnails(shown)
    pixels = [None] * len(answers) if queries.pixels is None else queries.pixels
    rows = []
    for number, (image, answer) in enumerate(zip(pixels, answers, strict=True), 1):
        vote = answer.vote
        first = () if vote is None else vote.tied or (vote.label,)  # all that are tied
        found = [
            DrawnNeighbour(_read(thumbnails.get(one.id)), one.label, one.distance, one.label in first)
            for one in answer.neighbours[:SHOWN]
        ]
        caption = describe(answer, classes=1).removeprefix(answer.query)  # one line
        rows.append(AnsweredQuery(image, _name_query(answer.query, number) + caption, found))
    save_figure(search_figure(rows), path)


def _read(thumbnail: bytes | None) -> NDArray[np.uint8] | None:
    """Return the pixels of a thumbnail; None where the index has none that can be read."""
    try:
        return read_thumbnail(thumbnail) if thumbnail else None
    except (OSError, SyntaxError, ValueError):  # of Pillow, for files that are cut or no pictures
        return None


def _name_query(query: str, number: int) -> str:
    """Return the name of a query's file, its middle left out where it is long."""
    name = Path(query).name
    if missing_letters(name):
        return f"query {number}"
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 10]}…{name[-9:]}"
