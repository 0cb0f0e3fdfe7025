"""The picture that ``bayestriplet search --montage`` writes."""

from pathlib import Path

from bayestriplet.data.thumbnails import read_thumbnail
from bayestriplet.errors import InputError
from bayestriplet.report.answers import describe
from bayestriplet.report.search_figure import MOST_QUERIES, SHOWN, AnsweredQuery, Found, search_figure
from bayestriplet.report.style import save_figure
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
    rows = []
    for pixels, answer in zip(queries.pixels if queries.pixels is not None else (), answers, strict=True):
        vote = None if answer.vote is None else answer.vote.label
        found = [
            Found(read_thumbnail(thumbnails[one.id]), one.label, one.distance, one.label == vote)
            for one in answer.neighbours[:SHOWN]
            if one.id in thumbnails
        ]
        caption = describe(answer, classes=1).removeprefix(answer.query)  # one line
        rows.append(AnsweredQuery(pixels, _short_name(answer.query) + caption, found))
    save_figure(search_figure(rows), path)


def _short_name(query: str) -> str:
    """Return the name of a query's file, its middle left out where it is long."""
    name = Path(query).name
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 10]}…{name[-9:]}"
