"""How good an embedding is, beside two floors, as data and as a table."""

from dataclasses import asdict
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from bayestriplet.evaluation.metrics import Score

HEADINGS = {
    "recall@1": "R@1",
    "recall@4": "R@4",
    "recall@8": "R@8",
    "recall@16": "R@16",
    "r-precision": "R-prec",
    "map@r": "MAP@R",
}
Scores = dict[str, Score]


def to_json(rows: dict[str, Scores]) -> dict[str, Any]:
    """Return the scores of every row as plain numbers."""
    return {name: {key: asdict(score) for key, score in scores.items()} for name, scores in rows.items()}


def score_table(title: str, rows: dict[str, Scores]) -> Table:
    """Return a table in percent with half the width of the 95% intervals; it fits 80 columns."""
    table = Table(
        title=title,
        title_justify="left",
        caption="± half of the 95% bootstrap interval over the queries",
        caption_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 0, 0, 1),
        pad_edge=False,
    )
    table.add_column("embedding", no_wrap=True)
    for heading in HEADINGS.values():
        table.add_column(heading, justify="right", no_wrap=True)
    for name, scores in rows.items():
        table.add_row(name, *(_cell(scores[key]) for key in HEADINGS))
    return table


def _cell(score: Score) -> str:
    return f"[bold]{100 * score.value:.1f}[/][dim]±{50 * (score.high - score.low):.1f}[/]"
