"""What Python users get back: data that print as the commands' tables do."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from rich.console import RenderableType

from bayestriplet.atomic import write_text
from bayestriplet.evaluation.evaluator import Evaluation
from bayestriplet.evaluation.galleries import GalleryScores
from bayestriplet.evaluation.paired import Row, rows_of
from bayestriplet.report.answers import plain_console
from bayestriplet.report.methods_figures import draw_comparison
from bayestriplet.report.methods_table import MEASURED, cells, floor_cells, to_csv, to_markdown, to_rich
from bayestriplet.report.scores import few_shot_table, novelty_table, probability_table, score_table
from bayestriplet.runs.comparison_folder import ComparisonFolder


def as_text(parts: Sequence[RenderableType]) -> str:
    """Return tables and lines as plain text."""
    console = plain_console()
    with console.capture() as captured:
        for part in parts:
            is_line = isinstance(part, str)
            console.print(part, soft_wrap=is_line, markup=not is_line)
    return "\n".join(line.rstrip() for line in captured.get().rstrip().splitlines())


@dataclass(frozen=True)
class EvaluationResult(Evaluation):
    """What was measured of a run, printed as ``bayestriplet evaluate`` does."""

    @classmethod
    def of(cls, found: Evaluation) -> "EvaluationResult":
        """Return the same figures."""
        return cls(**{one.name: getattr(found, one.name) for one in fields(found)})

    def tables(self) -> list[RenderableType]:
        """Return a table for each thing that was measured, and why something was not."""
        parts: list[RenderableType] = [score_table(one) for one in (self.gallery, *self.galleries.values())]
        found = self.probability_scores
        if found.rows is not None:
            parts.append(probability_table(found.rows, found.resampled, found.units))
        parts += [] if self.novelty is None else [novelty_table(self.novelty)]
        parts += [] if self.few_shot is None else [few_shot_table(self.few_shot)]
        return [*_apart(parts), *self.notes]

    def to_json(self) -> dict[str, Any]:
        """Return all figures as plain values."""
        rows, first = self.probabilities, self.gallery.to_json()
        return {
            "retrieval": first.pop("rows"),
            "gallery": {"name": self.gallery.name, **first},
            "galleries": {name: one.to_json() for name, one in self.galleries.items()},
            "probabilities": None if rows is None else {way: asdict(row) for way, row in rows.items()},
            "novelty": self.novelty,
            "few_shot": None if self.few_shot is None else self.few_shot.to_json(),
            "note": self.note,
        }

    def __str__(self) -> str:
        return as_text(self.tables())


def training_tables(results: dict[str, Any]) -> list[RenderableType]:
    """Return the tables of what a training found for its test items, and why something was left out."""
    if results["test"] is None:
        return []
    first = {key: value for key, value in results["gallery"].items() if key != "name"}
    found = {results["gallery"]["name"]: {**first, "rows": results["test"]}, **results["galleries"]}
    tables = [score_table(GalleryScores.from_json(name, values)) for name, values in found.items()]
    return [*_apart(tables), *results["notes"]]


def _apart(tables: Sequence[RenderableType]) -> list[RenderableType]:
    """Return tables with an empty line between any two."""
    return [part for table in tables for part in ("", table)][1:]


@dataclass(frozen=True)
class ComparisonResult:
    """Methods on the same seeds, printed as ``bayestriplet compare`` does."""

    data: str
    rows: list[Row]
    floors: dict[str, dict[str, float]]
    """Recall in percent of raw pixels and of the untrained network."""
    settings: dict[str, Any]
    searched: dict[str, list[dict[str, Any]]]
    """What the search tried for every method, with its validation Recall@1."""

    @classmethod
    def of(cls, summary: dict[str, Any]) -> "ComparisonResult":
        """Return what a comparison's summary holds."""
        return cls(
            summary["data"], rows_of(summary), summary["floors"], summary["settings"],
            summary.get("searched", {}),
        )  # fmt: skip

    @property
    def seeds(self) -> int:
        """How many seeds every method was run on."""
        return len(self.rows[0].values["recall@1"])

    def cells(self) -> list[list[str]]:
        """Return the table's cells, the headings first."""
        return [*cells(self.rows, self.data), *floor_cells(self.floors)]

    def tables(self) -> list[RenderableType]:
        """Return the table and a line that says how to read it."""
        title = f"{self.data}: test recall in percent, {self.seeds} seed{'s' * (self.seeds > 1)}, best first"
        intervals = "± half of a 95% interval; 'to the best' is paired by seed."
        one = "One seed: no intervals."
        return [to_rich(self.cells(), title, MEASURED), intervals if self.seeds > 1 else one]

    def __str__(self) -> str:
        return as_text(self.tables())


def write_comparison(result: ComparisonResult, summary: dict[str, Any], out: Path) -> None:
    """Write the tables and plots of a comparison into its folder."""
    folder = ComparisonFolder(out)
    write_text(folder.markdown, f"{to_markdown(result.cells())}\n{MEASURED}.\n")
    write_text(folder.csv, to_csv(result.cells()))
    draw_comparison(summary, out)
