"""Recall@1 of all nine methods on real data: the paper's setting, and a map of harder regimes.

``make reproduce`` runs it whole (hours, goes on where it was stopped), ``make reproduce-fast`` a short
version of the same shape. Every method gets the same data order, variations, network, budget and
search; options are chosen on validation data in the two main settings, on a seed of their own, and the
regimes take them from there. As these may suit a regime badly, the others are also measured with a lower
learning rate in each; and as varied images may suit some methods more than others, PathMNIST is also
searched and measured with them.
The figures land in benchmarks/results/quality.json and from there in docs/results.md.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markdown import Markdown
from tables import fill_documents, quality_tables

import bayestriplet as bt
from bayestriplet.atomic import write_text
from bayestriplet.config import TrainConfig
from bayestriplet.data.sources import absolute_data, open_data
from bayestriplet.evaluation.embeddings import raw_pixels
from bayestriplet.evaluation.metrics import recall_at_k
from bayestriplet.methods import METHODS as KNOWN
from bayestriplet.methods import RATE
from bayestriplet.training.comparison import Comparison
from bayestriplet.training.events import Event, TrialEvent

RESULTS = Path(__file__).parent / "results" / "quality.json"
METHODS = ("bunca", "but", "proxy-nca", "ba", "nca", "dws", "bsh", "ep", "bh")
OURS = ("bunca", "but")
TUNING_SEED = 0
# The seeds that are measured. None had been used on its set when the recipe and the settings were decided.
FIRST_SEED = {"mnist": 20, "pathmnist": 30}
RECIPES = {cls.__name__: cls.sampling["default"] for cls in (bt.BUT, bt.BUNCA)}  # runs of others are no good
# Before BUNCA handed over. Tables that were not measured since are of these; docs/results.md says which.
EARLIER = RECIPES | {"BUNCA": RECIPES["BUT"] | {"spread": 0.8}}
# Five items of every class in a batch, as in the paper: 50 on MNIST, which is the default. PathMNIST's
# tiles used to be varied, so that is measured too.
MAIN: dict[str, dict[str, Any]] = {"mnist": {}, "pathmnist": {"batch_size": 45, "augment": False}}
OTHER_WAY: dict[str, dict[str, Any]] = {"pathmnist": {"batch_size": 45}}
PARTS = ("main", "curves", "splits", "regimes", "other-way")  # the others need the figures of "main"
SUBSET = {"train": 1500, "val": 200}  # items a class of PathMNIST's
# Where class distributions should help: few matches in a batch, few or wrong labels, classes in turn.
REGIMES: dict[str, dict[str, Any]] = {
    "one item a class in a batch": {"batches": "one-per-class", "batch_size": 10},
    "batches of 10": {"batch_size": 10},
    "random batches of 20": {"batches": "random", "batch_size": 20},
    "classes in sequence": {"batches": "sequential"},
    "imbalance 1:50": {"imbalance": 50.0, "batches": "random"},
    "10 items a class": {"per_class": 10},
    "50 items a class": {"per_class": 50},
    "30% wrong labels": {"label_noise": 0.3},
}


class Lines:
    """Prints a line a run, with the number of those that are there."""

    def __init__(self, console: Console) -> None:
        self.console, self.number = console, 0

    def __call__(self, event: Event) -> None:
        if isinstance(event, TrialEvent) and event.results is not None:
            self.number += 1
            if not event.was_there:
                self.console.print(f"{self.number:4d}  {event}", highlight=False)


def subset_of(path: Path, folder: Path) -> Path:
    """Return a PathMNIST file with 1,500 items a class to train and 200 to validate on.

    Made from the official file by one fixed generator; a file of that size already is returned.
    """
    with np.load(path, allow_pickle=False) as file:
        if len(file["train_labels"]) <= 9 * SUBSET["train"]:
            return path
        arrays = {name: file[name] for name in file.files}
    rng = np.random.default_rng(73690)
    for split, number in SUBSET.items():
        labels = arrays[f"{split}_labels"].squeeze()
        rows = [rng.choice(np.flatnonzero(labels == k), number, replace=False) for k in range(9)]
        kept = np.sort(np.concatenate(rows))
        for kind in ("images", "labels"):
            arrays[f"{split}_{kind}"] = arrays[f"{split}_{kind}"][kept]
    folder.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(folder / "pathmnist-subset.npz", **arrays)
    return folder / "pathmnist-subset.npz"


def base_of(data: str, steps: int, **options: Any) -> TrainConfig:
    fixed = {"data": data, "width": 0.25, "max_steps": steps, "validate_every": steps, "patience": 0}
    return TrainConfig.model_validate(fixed | options)


def without_paths(summary: dict[str, Any], curves: bool = False) -> dict[str, Any]:
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


def chosen_in(main: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the options that a main setting chose for each method."""
    return {method: entry["chosen"] for method, entry in main["methods"].items()}


def a_rung_lower(chosen: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the same options with the next lower learning rate that is searched."""
    rates = RATE.rungs
    return {
        method: options | {"lr": rates[max(0, rates.index(options["lr"]) - 1)]}
        for method, options in chosen.items()
    }


def best_of(main: dict[str, Any], batches: str) -> tuple[str, ...]:
    """Return BUT, BUNCA and the two baselines best on a main setting's validation items.

    With one item a class in a batch, miners of the batch find no positive at all, so that of those
    none can be trained.
    """
    validation = {
        method: np.mean([seed["validation"] for seed in entry["seeds"].values()])
        for method, entry in main["methods"].items()
        if method not in OURS
    }
    ranked = sorted(validation, key=lambda method: -validation[method])[:2]
    alone = batches == "one-per-class"
    return (*OURS, *[method for method in ranked if not (alone and KNOWN[method].needs_positives)])


def alike_in_splits(data: str) -> dict[str, float]:
    """Return Recall@1 of raw pixels among as many PathMNIST tiles a class of every split.

    It tells how alike the tiles of a class are before any network sees them.
    """
    images, found = open_data(data), {}
    for split in ("train", "val", "test"):
        rng, rows = np.random.default_rng(73690), images.indices(split)
        labels = images.labels[rows]
        of_class = [np.flatnonzero(labels == k) for k in range(len(images.classes))]
        kept = np.concatenate([rng.choice(items, SUBSET["val"], replace=False) for items in of_class])
        vectors = raw_pixels(images, rows[kept], 0)
        found[split] = round(100 * recall_at_k(vectors, labels[kept], (1,))[1], 2)
    return found


def search_and_measure(
    base: TrainConfig, seeds: tuple[int, ...], out: Path, jobs: int, lines: Lines,
    methods: tuple[str, ...] = METHODS, tune: bool = True, search_data: str | None = None,
    again: tuple[int, ...] = (),
) -> dict[str, Any]:  # fmt: skip
    """Search options of methods by validation items, measure them on seeds of their own.

    ``search_data`` are others to search on, such as another split of the training classes. ``again`` are
    more seeds of the search, for the best options of every method.
    """
    chosen, searched = {}, {}
    if tune:
        other = base if search_data is None else base.model_copy(update={"data": search_data})
        folder = out if search_data is None else out.with_name(f"{out.name}-search")
        best = Comparison(other, methods, (TUNING_SEED,), tune=True, again=again).run(folder, jobs, lines)
        chosen, searched = chosen_in(best), best["searched"]
    return Comparison(base, methods, seeds, False, chosen).run(out, jobs, lines) | {"searched": searched}


def runs_in(summary: dict[str, Any], out: Path) -> Iterator[tuple[str, str, Path]]:
    """Yield method, seed and folder of every run that was measured."""
    for method, entry in summary["methods"].items():
        for seed, scores in entry["seeds"].items():
            yield method, seed, out / "runs" / scores["run"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--pathmnist", type=Path, help="pathmnist.npz; without it only MNIST is used")
    parser.add_argument("--fast", action="store_true", help="a short version, under 20 minutes on 2 cores")
    parser.add_argument("--only", choices=PARTS, nargs="+", default=PARTS, help="some of it")
    parser.add_argument("--out", type=Path, default=Path("runs/quality"), help="folder of the runs")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    parser.add_argument("--results", type=Path, default=RESULTS, help="JSON to write")
    options = parser.parse_args()
    console = Console()
    lines = Lines(console)
    data = {"mnist": "mnist"}
    if options.pathmnist:
        path = subset_of(options.pathmnist, options.out)
        data["pathmnist"] = absolute_data(f"pathmnist:{path}")
    else:
        console.print("No --pathmnist: the colorectal-cancer half is left out.")
    steps, regime_steps = (100, 100) if options.fast else (800, 400)
    number, regime_number = (2, 2) if options.fast else (5, 10)
    seeds = {name: tuple(range(first, first + number)) for name, first in FIRST_SEED.items()}
    regime_seeds = tuple(range(FIRST_SEED["mnist"], FIRST_SEED["mnist"] + regime_number))
    found: dict[str, Any] = {"main": {}, "regimes": {}, "lower rate": {}, "other way": {}}
    if options.results.is_file():  # what is not measured this time stays
        found |= json.loads(options.results.read_text(encoding="utf-8"))
    if found.setdefault("recipes", RECIPES) != RECIPES:
        raise SystemExit(f"{options.results} holds figures of another recipe: choose other --results")
    if "main" not in options.only and not data.keys() <= found["main"].keys():
        raise SystemExit(f"{options.results} has no figures of the main settings yet: run --only main first")
    for name, source in data.items() if "main" in options.only else ():
        console.rule(f"{name}, the paper's setting")
        few = {"per_class": 500} if options.fast else {}
        base = base_of(source, steps, **MAIN[name], **few)
        if options.fast:
            comparison = Comparison(base, METHODS, seeds[name], False)
            summary = comparison.run(options.out / name, options.jobs, lines)
        else:
            summary = search_and_measure(base, seeds[name], options.out / name, options.jobs, lines)
        found["main"][name] = without_paths(summary)
        save(found, options.results)
    if "pathmnist" in data and "curves" in options.only:
        console.rule("pathmnist, learning curves")
        base = base_of(data["pathmnist"], steps, **MAIN["pathmnist"], validate_every=steps // 8)
        main_table = found["main"]["pathmnist"]
        methods = best_of(main_table, base.batches)
        comparison = Comparison(base, methods, seeds["pathmnist"], False, chosen_in(main_table))
        curves = comparison.run(options.out / "curves", options.jobs, lines)
        found["curves"] = without_paths(curves, curves=True)
        save(found, options.results)
    if "pathmnist" in data and "splits" in options.only:
        found["raw pixels"] = alike_in_splits(data["pathmnist"])
        save(found, options.results)
    winners = found["main"]["mnist"]
    chosen = chosen_in(winners)
    for title, regime in REGIMES.items() if "regimes" in options.only else ():
        console.rule(f"mnist, {title}")
        folder = title.replace(" ", "-").replace(":", "-").replace("%", "")
        base = base_of("mnist", regime_steps, validate_every=0, **regime)
        methods = best_of(winners, base.batches)
        others = tuple(method for method in methods if method not in OURS)
        measured = Comparison(base, methods, regime_seeds, False, chosen)
        slower = Comparison(base, others, regime_seeds, False, a_rung_lower(chosen))
        for kind, name, comparison in (("regimes", "regime", measured), ("lower rate", "lower-rate", slower)):
            summary = comparison.run(options.out / f"{name}-{folder}", options.jobs, lines)
            found[kind][title] = without_paths(summary)
        save(found, options.results)
    for name in OTHER_WAY.keys() & data.keys() if "other-way" in options.only and not options.fast else ():
        console.rule(f"{name}, images varied the other way")
        base, folder = base_of(data[name], steps, **OTHER_WAY[name]), options.out / f"{name}-other-way"
        measured = search_and_measure(base, seeds[name], folder, options.jobs, lines)
        found["other way"][name] = without_paths(measured)
        save(found, options.results)
    wide = Console(width=max(console.width, 120))  # a table that is cut says nothing
    for title, table in quality_tables(found).items():
        wide.rule(title)
        wide.print(Markdown(table))
    if options.results == RESULTS:
        fill_documents()
    console.print(f"Figures: {options.results}")


def save(found: dict[str, Any], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
