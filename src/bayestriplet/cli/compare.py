"""``bayestriplet compare``: methods beside each other."""

import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from bayestriplet.checks import check_seeds
from bayestriplet.cli.options import give_options, path_option, plain_option
from bayestriplet.cli.panels import COMPARISON
from bayestriplet.cli.progress import progress_bar
from bayestriplet.errors import InputError
from bayestriplet.methods import COMPARED, TUNED, check_methods


def compare(
    data: str | None, out: Path | None, methods: str | None, seeds: str | None, jobs: int | None,
    tune: bool | None, **given: Any,
) -> None:  # fmt: skip
    """Train and measure methods under one budget, tuned alike, on several seeds; a table and a plot."""
    names, numbers = parse_methods(methods or "all"), parse_seeds(seeds or "5")
    if jobs is not None and jobs < 1:
        raise InputError(f"--jobs must be at least 1; got {jobs}")
    if data is None:
        raise InputError("compare: data is missing: name the data to train on")
    if out is None:
        raise InputError(
            "--out is missing: name a folder for the comparison, such as --out comparisons/mnist"
        )
    with progress_bar():
        from bayestriplet.api import compare as compare_methods
        from bayestriplet.cli.live_table import LiveTable
    options = {"jobs": jobs or 1, "tune": tune is not False, **given}
    try:
        with LiveTable(names, len(numbers), options["tune"], options["jobs"]) as live:
            result = compare_methods(data, out=out, methods=names, seeds=numbers, on_event=live, **options)
    except KeyboardInterrupt:
        print("Stopped; finished runs stay, and the same command goes on.", file=sys.stderr)
        raise SystemExit(130) from None
    console = Console(soft_wrap=True)
    for part in result.tables():
        console.print(part, highlight=not isinstance(part, str))
    console.print(
        f"In [bold]{out}[/]: table.md, table.csv, recall.png, learning.png, comparison.json and every run.",
        highlight=False,
    )


def parse_methods(text: str) -> tuple[str, ...]:
    """Return the methods of a comma-separated list, or all but the controls."""
    return check_methods(COMPARED if text == "all" else (part.strip() for part in text.split(",")))


def parse_seeds(text: str) -> tuple[int, ...]:
    """Return the seeds 0 .. n - 1 of a number, or those of a comma-separated list."""
    try:
        numbers = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"--seeds must be a number of seeds or a list such as 0,1,2; got {text!r}") from None
    if "," in text:
        return check_seeds(numbers)
    if numbers[0] < 1:
        raise InputError(f"--seeds must be at least 1; got {text}")
    return tuple(range(numbers[0]))


give_options(
    compare,
    [
        path_option("out", "Folder of the comparison; one that was begun goes on."),
        plain_option(
            "methods", str, "Comma-separated, or all (default), which are all but the controls.", COMPARISON
        ),
        plain_option("seeds", str, "How many seeds, or a list such as 0,1,2. Default: 5.", COMPARISON),
        plain_option("jobs", int, "Runs at a time. Default: 1.", COMPARISON),
        plain_option(
            "tune/--no-tune",
            bool,
            "Choose learning rates, margin or temperature, and normalisation on validation data (default).",
            COMPARISON,
        ),
    ],
    without=("method", "seed", "unfreeze_from", *TUNED),
)
