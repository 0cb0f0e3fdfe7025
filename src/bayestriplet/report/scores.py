"""How good an embedding is, beside two floors, as data and as tables."""

from rich.box import SIMPLE_HEAD
from rich.table import Table

from bayestriplet.evaluation.bootstrap import Score
from bayestriplet.evaluation.few_shot import EPISODES, QUERIES, FewShot
from bayestriplet.evaluation.galleries import GalleryScores
from bayestriplet.evaluation.probabilities import Honesty

HEADINGS = {
    "recall@1": "R@1",
    "recall@4": "R@4",
    "recall@8": "R@8",
    "recall@16": "R@16",
    "r-precision": "R-prec",
    "map@r": "MAP@R",
}


def score_table(found: GalleryScores) -> Table:
    """Return a table in percent with half the width of the 95% intervals; it fits 80 columns."""
    caption = "\n".join([f"Percent {_interval(found.resampled, found.units)}", *_left_out(found)])
    table = _new_table(found.title, caption, "embedding", *HEADINGS.values())
    for name, scores in found.rows.items():
        table.add_row(name, *(_cell(scores[key]) for key in HEADINGS))
    return table


def _interval(resampled: str, units: int) -> str:
    """Return what stands behind ±."""
    number = "" if resampled == "queries" else f" ({units:,})"
    return f"± half the 95% interval; intervals resample {resampled}{number}"


def _left_out(found: GalleryScores) -> list[str]:
    """Return lines about the queries that have no match."""
    lines = []
    if found.dropped:
        lines.append(f"{found.dropped:,} more dropped: no item of their class in another group")
    if found.unmatched:
        lines.append(f"{found.unmatched:,} have no item of their class there and count as misses")
    return lines


def probability_table(rows: dict[str, Honesty], resampled: str = "queries", units: int = 0) -> Table:
    """Return a table of ways to class probabilities; it fits 80 columns."""
    title = "Probabilities of test items, from the training items"
    table = _new_table(
        title, _interval(resampled, units), "probabilities by", "accuracy, %", "log loss", "ECE"
    )
    for name, row in rows.items():
        loss = row.log_loss
        cell = f"[bold]{loss.value:.4f}[/][dim]±{(loss.high - loss.low) / 2:.4f}[/]"
        table.add_row(name, _cell(row.accuracy), cell, f"[bold]{row.ece:.4f}[/]")
    return table


def few_shot_table(found: FewShot) -> Table:
    """Return a table of accuracies in percent, task by task; it fits 80 columns."""
    lines = [
        "Percent ± half the 95% interval; by the nearest class mean",
        f"{EPISODES:,} episodes each, up to {QUERIES} queries per class",
    ]
    left_out = {task.shots: task for task in found.tasks if task.left_out}
    lines += [
        f"{shots}-shot: {task.left_out:,} classes left out, with fewer than {shots + 1} items"
        for shots, task in left_out.items()
    ]
    headings = [f"{task.ways}-way {task.shots}-shot" for task in found.tasks]
    table = _new_table(found.title, "\n".join(lines), "embedding", *headings)
    for name in found.tasks[0].rows:
        table.add_row(name, *(_cell(task.rows[name]) for task in found.tasks))
    return table


def novelty_table(rows: dict[str, float]) -> Table:
    """Return a table of ways to tell the items of classes that were held out of training."""
    title = "Test items of held-out classes beside the other test items"
    table = _new_table(title, None, "novelty by", "AUROC")
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
    table.add_column(first)  # may take two lines, so that no figure is cut
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _cell(score: Score) -> str:
    half = 50 * (score.high - score.low)
    return f"[bold]{100 * score.value:.1f}[/][dim]±{half:.{0 if half >= 9.95 else 1}f}[/]"
