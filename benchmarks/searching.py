"""Options of methods searched alike, and measured on seeds of their own: what the comparisons here share.

What a file of results holds is kept: tries of a search are not repeated, and a method that was measured with
the same options and recipe is not measured again. So a long comparison can go on from its file alone.
"""

import json
from pathlib import Path
from typing import Any

from rich.console import Console

from bayestriplet.atomic import write_text
from bayestriplet.config import TrainConfig
from bayestriplet.methods import METHODS as KNOWN
from bayestriplet.training.comparison import Comparison
from bayestriplet.training.events import Event, TrialEvent
from bayestriplet.triplets.build import drawing_recipe

METHODS = ("bunca", "but", "proxy-nca", "ba", "nca", "dws", "bsh", "ep", "bh")
CONTROLS = tuple(name for name, method in KNOWN.items() if method.control)
ROWS = (*METHODS, *CONTROLS)
TUNING_SEED = 0
AGAIN = 1, 2, 3  # more seeds for the best options of a search, where one is too noisy a judge

Part = dict[str, Any]  # a table of methods, as a file of results holds it


class Lines:
    """Prints a line a run, with the number of those that are there."""

    def __init__(self, console: Console) -> None:
        self.console, self.number = console, 0

    def __call__(self, event: Event) -> None:
        if isinstance(event, TrialEvent) and event.results is not None:
            self.number += 1
            if not event.was_there:
                self.console.print(f"{self.number:4d}  {event}", highlight=False)


def base_of(data: str, steps: int, **options: Any) -> TrainConfig:
    fixed = {"data": data, "width": 0.25, "max_steps": steps, "validate_every": steps, "patience": 0}
    return TrainConfig.model_validate(fixed | options)


def recipe_of(method: str) -> dict[str, Any]:
    """Return what a method draws with by default, as JSON gives it back; nothing for those that draw none."""
    return json.loads(json.dumps(drawing_recipe(method, "default")))


def is_of_today(entry: dict[str, Any], method: str) -> bool:
    """Return whether the figures of a method were measured with what it draws with now."""
    return entry.get("recipe", {}) == recipe_of(method)


def chosen_in(part: Part) -> dict[str, dict[str, Any]]:
    """Return the options that a part chose for each method."""
    return {method: entry["chosen"] for method, entry in part["methods"].items()}


def search_options(
    base: TrainConfig, method: str, part: Part, out: Path, jobs: int, lines: Lines,
    again: tuple[int, ...] = (),
) -> dict[str, Any]:  # fmt: skip
    """Return a method's best options on validation items, and keep in the part what was tried."""
    searched, measured = part.setdefault("searched", {}), part.get("methods", {})
    if method in measured and not is_of_today(measured[method], method):
        searched.pop(method, None)  # tries of another recipe
    known = {method: searched[method]} if method in searched else {}
    search = Comparison(base, (method,), (TUNING_SEED,), tune=True, again=again, known=known)
    chosen, tried = search.search(out, jobs, lines)
    searched[method] = tried[method]
    return chosen[method]


def measure_method(
    base: TrainConfig, method: str, chosen: dict[str, Any], seeds: tuple[int, ...], part: Part, out: Path,
    jobs: int, lines: Lines, curves: bool = False,
) -> dict[str, Path]:  # fmt: skip
    """Measure a method in a part, unless the part has its figures; return the runs made, by seed."""
    entry = part.setdefault("methods", {}).get(method)
    asked = {str(seed) for seed in seeds}
    if entry and is_of_today(entry, method) and entry["chosen"] == chosen and entry["seeds"].keys() == asked:
        return {}
    summary = Comparison(base, (method,), seeds, False, {method: chosen}).run(out, jobs, lines)
    runs = {
        seed: out / "runs" / scores["run"] for seed, scores in summary["methods"][method]["seeds"].items()
    }
    kept = without_paths(summary, curves)
    new = kept.pop("methods")[method] | {"recipe": recipe_of(method)}
    floors = part.get("floors", kept["floors"])  # of the first method, as it is the same network for all
    part |= {name: value for name, value in kept.items() if name != "searched"} | {"floors": floors}
    part["methods"][method] = new
    return runs


def without_paths(summary: dict[str, Any], curves: bool = False) -> Part:
    """Return what is worth keeping of a comparison: figures and options, not where files were."""
    left_out = ("run",) if curves else ("run", "learning")
    settings = {name: value for name, value in summary["settings"].items() if value is not None}
    settings["data"] = summary["data"]
    methods = {
        method: {
            "chosen": entry["chosen"],
            "seeds": {
                seed: {
                    name: round(value, 2) if isinstance(value, float) else value
                    for name, value in scores.items()
                    if name not in left_out
                }
                for seed, scores in entry["seeds"].items()
            },
        }
        for method, entry in summary["methods"].items()
    }
    floors = {
        name: {measure: round(value, 2) for measure, value in scores.items()}
        for name, scores in summary["floors"].items()
    }
    return {**summary, "settings": settings, "methods": methods, "floors": floors}


def save(found: dict[str, Any], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(found, indent=1) + "\n")
