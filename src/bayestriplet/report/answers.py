"""The answers of a search, as people read them."""

import io
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, overload

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

from bayestriplet.retrieval.answers import Answer, Vote

WIDTH = 100  # columns of a text
WIDEST_LABEL = 32  # columns
SHOWN = 3  # most probable classes
LEAST_SHARE = 0.001  # probability of a class that is worth a word


@dataclass(frozen=True)
class SearchResult(Sequence[Answer]):
    """The answers to queries, in their order; it prints a line and a table for each."""

    answers: tuple[Answer, ...]

    @overload
    def __getitem__(self, place: int) -> Answer: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Answer, ...]: ...
    def __getitem__(self, place: int | slice) -> Answer | tuple[Answer, ...]:
        return self.answers[place]

    def __len__(self) -> int:
        return len(self.answers)

    def __str__(self) -> str:
        console = plain_console()
        with console.capture() as captured:
            show_answers(self.answers, console)
        return "\n".join(line.rstrip() for line in captured.get().rstrip().splitlines())


def plain_console() -> Console:
    """Return a console whose output is captured as text, in a notebook too."""
    return Console(width=WIDTH, color_system=None, highlight=False, force_jupyter=False, file=io.StringIO())


def show_answers(answers: Sequence[Answer], console: Console | None = None) -> None:
    """Print a line and a table for each query."""
    console = console or Console()
    for answer in answers:
        console.print(escape(describe(answer)), soft_wrap=True, highlight=False)
        table = Table(box=SIMPLE_HEAD, padding=(0, 0, 0, 1), pad_edge=False)
        for heading in ("rank", "label", "distance", "item"):
            side: Literal["left", "right"] = "right" if heading in ("rank", "distance") else "left"
            widest = WIDEST_LABEL if heading == "label" else None
            table.add_column(heading, justify=side, overflow="fold", max_width=widest)
        for one in answer.neighbours:
            table.add_row(str(one.rank), escape(one.label), f"{one.distance:.4f}", escape(one.path or one.id))
        _print_whole(table, console)


def _print_whole(table: Table, console: Console) -> None:
    """Print a table without breaking its last column: a path is to be copied, by people and programs."""
    width = console.width
    console.width = max(
        width, Measurement.get(console, console.options.update(max_width=1_000_000), table).maximum
    )
    try:
        console.print(table, highlight=False)
    finally:
        console.width = width


def describe(answer: Answer, classes: int = SHOWN) -> str:
    """Return what an answer says, in a line: the vote, the most probable classes, the novelty."""
    parts = [_describe_vote(answer.vote, len(answer.neighbours))]
    if answer.probabilities is not None:
        likely = sorted(answer.probabilities.items(), key=lambda pair: -pair[1])[:classes]
        shown = [f"{name} {100 * share:.1f}%" for name, share in likely if share >= LEAST_SHARE]
        parts.append("probability " + ", ".join(shown))
    if answer.novelty is not None:
        rests_on = f" ({answer.evidence})" if answer.evidence else ""
        unlike = f", unlike the classes {answer.against}" if answer.is_unlike else ""
        parts.append(f"novelty {answer.novelty:.1f}{rests_on}{unlike}")
    if answer.excluded_group:
        parts.append(f"without group {answer.excluded_group}")
    return f"{answer.query}: " + "; ".join(parts)


def _describe_vote(vote: Vote | None, number: int) -> str:
    """Return the vote of a number of neighbours: the class that wins, or those that are tied."""
    if vote is None:
        return "no labels"
    votes = f"{vote.share * number:.0f} of {number} neighbours"
    if not vote.tied:
        return f"{vote.label}, {votes}"
    return f"tie: {', '.join(vote.tied[:-1])} and {vote.tied[-1]}, {votes} each"


def note_moved(answers: Sequence[Answer]) -> bool:
    """Say on standard error, and return, whether files are not where they were indexed."""
    paths = {one.path for answer in answers for one in answer.neighbours if one.path}
    gone = sum(not _is_there(Path(path)) for path in paths)
    if gone:
        print(
            f"Note: {gone} of these {len(paths)} files are no longer where they were indexed; "
            "`bayestriplet index` brings the index up to date",
            file=sys.stderr,
        )
    return gone > 0


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # one may not look
        return False
