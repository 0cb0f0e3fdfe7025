"""How good an embedding is, beside two floors, as data and as tables."""

from rich.box import SIMPLE_HEAD
from rich.table import Table

from bayestriplet.evaluation.bootstrap import Score, Scores
from bayestriplet.evaluation.probabilities import Honesty

HEADINGS = {
    "recall@1": "R@1",
    "recall@4": "R@4",
    "recall@8": "R@8",
    "recall@16": "R@16",
    "r-precision": "R-prec",
    "map@r": "MAP@R",
}
INTERVAL = "± half of the 95% bootstrap interval over the queries"


def score_table(title: str, rows: dict[str, Scores]) -> Table:
    """Return a table in percent with half the width of the 95% intervals; it fits 80 columns."""
    table = _new_table(title, INTERVAL, "embedding", *HEADINGS.values())
    for name, scores in rows.items():
        table.add_row(name, *(_cell(scores[key]) for key in HEADINGS))
    return table


def probability_table(rows: dict[str, Honesty]) -> Table:
    """Return a table of ways to class probabilities; it fits 80 columns."""
    title = "Probabilities of the test items"
    table = _new_table(title, INTERVAL, "probabilities by", "accuracy, %", "log loss", "ECE")
    for name, row in rows.items():
        loss = row.log_loss
        cell = f"[bold]{loss.value:.4f}[/][dim]±{(loss.high - loss.low) / 2:.4f}[/]"
        table.add_row(name, _cell(row.accuracy), cell, f"[bold]{row.ece:.4f}[/]")
    return table


def novelty_table(rows: dict[str, float]) -> Table:
    """Return a table of ways to tell the items of classes that were held out of training."""
    table = _new_table("Items of held-out classes", None, "novelty by", "AUROC")
    for name, value in rows.items():
        table.add_row(name, f"[bold]{value:.4f}[/]")
    return table


def _new_table(title: str, caption: str | None, first: str, *headings: str) -> Table:
    table = Table(
        title=title,
        title_justify="left",
        caption=caption,
        caption_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 0, 0, 1),
        pad_edge=False,
    )
    table.add_column(first, no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _cell(score: Score) -> str:
    return f"[bold]{100 * score.value:.1f}[/][dim]±{50 * (score.high - score.low):.1f}[/]"
