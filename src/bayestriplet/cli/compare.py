"""``bayestriplet compare``: methods beside each other."""

import sys
from pathlib import Path
from typing import Any, get_args

from bayestriplet.checks import nearest
from bayestriplet.cli.options import give_options, path_option, plain_option
from bayestriplet.cli.progress import progress_bar
from bayestriplet.config import Method, make_config
from bayestriplet.errors import InputError

# What compare chooses itself: no options of it. Written out, as training.tuning takes long to import.
TUNED = ("method", "seed", "lr", "margin", "temperature", "loss_rate", "normalize")


def compare(
    data: str | None, out: Path | None, methods: str | None, seeds: str | None, jobs: int | None,
    tune: bool | None, **given: Any,
) -> None:  # fmt: skip
    """Train and measure methods under one budget, tuned alike, on several seeds; a table and a plot."""
    from bayestriplet.data.sources import absolute_data

    names, numbers = parse_methods(methods or "all"), parse_seeds(seeds or "5")
    if jobs is not None and jobs < 1:
        raise InputError(f"--jobs must be at least 1; got {jobs}")
    if out is None:
        raise InputError(
            "--out is missing: name a folder for the comparison, such as --out comparisons/mnist"
        )
    values = {name: value for name, value in {"data": data, **given}.items() if value is not None}
    if "data" in values:
        values["data"] = absolute_data(values["data"])
    base = make_config(values, "compare")
    with progress_bar():
        from bayestriplet.cli.comparison import LiveTable, show_comparison
        from bayestriplet.training.compare import Comparison
    comparison = Comparison(base, names, numbers, tune is not False)
    number = f"{comparison.least_runs()} runs{' or more' if comparison.tune else ''}"
    print(f"{number}, {jobs or 1} at a time; those that are there are not repeated.")
    try:
        with LiveTable(names, numbers) as live:
            summary = comparison.run(out, jobs or 1, live)
    except KeyboardInterrupt:
        print("Stopped; finished runs stay, and the same command goes on.", file=sys.stderr)
        raise SystemExit(130) from None
    show_comparison(out, summary)


def parse_methods(text: str) -> tuple[str, ...]:
    """Return the methods of a comma-separated list, or all nine."""
    known = get_args(Method)
    if text == "all":
        return known
    names = tuple(part.strip() for part in text.split(","))
    for name in names:
        if name not in known:
            raise InputError(
                f"--methods: there is no method {name!r}{nearest(name, known)}; known: {', '.join(known)}"
            )
    if len(set(names)) < len(names):
        raise InputError(f"--methods names a method twice: {text}")
    return names


def parse_seeds(text: str) -> tuple[int, ...]:
    """Return the seeds 0 .. n - 1 of a number, or those of a comma-separated list."""
    try:
        numbers = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"--seeds must be a number of seeds or a list such as 0,1,2; got {text!r}") from None
    if "," not in text:
        if numbers[0] < 1:
            raise InputError(f"--seeds must be at least 1; got {text}")
        return tuple(range(numbers[0]))
    if min(numbers) < 0:
        raise InputError(f"--seeds must not be negative; got {text}")
    if len(set(numbers)) < len(numbers):
        raise InputError(f"--seeds names a seed twice: {text}")
    return numbers


give_options(
    compare,
    [
        path_option("out", "Folder of the comparison; one that was begun goes on."),
        plain_option("methods", str, "Comma-separated, or all (default)."),
        plain_option("seeds", str, "How many seeds, or a list such as 0,1,2. Default: 5."),
        plain_option("jobs", int, "Runs at a time. Default: 1."),
        plain_option(
            "tune/--no-tune",
            bool,
            "Choose learning rates, margin or temperature, and normalisation on validation data (default).",
        ),
    ],
    without=TUNED,
)
