"""Recall@1 of all nine methods on real data: the paper's setting, and a map of harder regimes.

``make reproduce`` runs it whole (hours, goes on where it was stopped), ``make reproduce-fast`` a short
version of the same shape. Every method gets the same data order, variations, network, budget and
search; options are chosen on validation data in the two main settings, on a seed of their own, and the
regimes take them from there. As these may suit a regime badly, the others are also measured with a lower
learning rate in each; and as varied images may suit some methods more than others, PathMNIST is also
searched and measured with them. Three controls of BUNCA stand beside the nine methods.
What the file of results holds already is neither searched nor measured again.
The figures land in benchmarks/results/quality.json and from there in docs/results.md and docs/experiments.md.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markdown import Markdown
from searching import CONTROLS, ROWS, Lines, base_of, chosen_in, measure_method, save, search_options
from tables import fill_documents, quality_tables

from bayestriplet.config import TrainConfig
from bayestriplet.data.sources import absolute_data, open_data
from bayestriplet.evaluation.embeddings import raw_pixels
from bayestriplet.evaluation.metrics import recall_at_k
from bayestriplet.methods import METHODS as KNOWN
from bayestriplet.methods import RATE
from bayestriplet.triplets.build import drawing_recipe

RESULTS = Path(__file__).parent / "results" / "quality.json"
OURS = ("bunca", "but")
# The seeds that are measured. The settings were decided before; earlier recipes were measured on them, too.
FIRST_SEED = {"mnist": 20, "pathmnist": 30}
RECIPES = {name.upper(): drawing_recipe(name, "default") for name in ("but", "bunca")}  # of runs of today
# Before BUNCA handed over. Tables that were not measured since are of these; docs/experiments.md says which.
EARLIER = RECIPES | {"BUNCA": RECIPES["BUT"] | {"spread": 0.8}}
# Five items of every class in a batch, as in the paper: 50 on MNIST, which is the default. PathMNIST's
# tiles used to be varied, so that is measured too.
MAIN: dict[str, dict[str, Any]] = {"mnist": {}, "pathmnist": {"batch_size": 45, "augment": False}}
OTHER_WAY: dict[str, dict[str, Any]] = {"pathmnist": {"batch_size": 45}}
PARTS = ("main", "curves", "splits", "regimes", "other-way")  # the others need the figures of "main"
SUBSET = {"train": 1500, "val": 200}  # items per class of PathMNIST's
# Where class distributions should help: few matches in a batch, few or wrong labels, classes in turn.
REGIMES: dict[str, dict[str, Any]] = {
    "one item per class in a batch": {"batches": "one-per-class", "batch_size": 10},
    "batches of 10": {"batch_size": 10},
    "random batches of 20": {"batches": "random", "batch_size": 20},
    "classes in sequence": {"batches": "sequential"},
    "imbalance 1:50": {"imbalance": 50.0, "batches": "random"},
    "10 items per class": {"per_class": 10},
    "50 items per class": {"per_class": 50},
    "30% wrong labels": {"label_noise": 0.3},
}


def subset_of(path: Path, folder: Path) -> Path:
    """Return a PathMNIST file with 1,500 items per class to train and 200 to validate on.

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


def a_rung_lower(chosen: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the same options with the next lower learning rate that is searched."""
    rates = RATE.rungs
    return {
        method: options | {"lr": rates[max(0, rates.index(options["lr"]) - 1)]}
        for method, options in chosen.items()
    }


def best_of(main: dict[str, Any], batches: str) -> tuple[str, ...]:
    """Return BUT, BUNCA and the two baselines best on a main setting's validation items.

    With one item per class in a batch, miners of the batch find no positive at all, so that of those
    none can be trained.
    """
    validation = {
        method: np.mean([seed["validation"] for seed in entry["seeds"].values()])
        for method, entry in main["methods"].items()
        if method not in (*OURS, *CONTROLS)
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--pathmnist", type=Path, help="pathmnist.npz; without it only MNIST is used")
    parser.add_argument("--fast", action="store_true", help="a short version, under 20 minutes on 2 cores")
    parser.add_argument("--only", choices=PARTS, nargs="+", default=PARTS, help="some of it")
    parser.add_argument(
        "--methods", choices=ROWS, nargs="+", default=ROWS, help="some rows of the main tables"
    )
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
    number = 2 if options.fast else 5
    seeds = {name: tuple(range(first, first + number)) for name, first in FIRST_SEED.items()}
    found: dict[str, Any] = {"main": {}, "regimes": {}, "lower rate": {}, "other way": {}}
    if options.results.is_file():  # what was measured before stays
        found |= json.loads(options.results.read_text(encoding="utf-8"))
    if "main" not in options.only and not data.keys() <= found["main"].keys():
        raise SystemExit(f"{options.results} has no figures of the main settings yet: run --only main first")

    def measure(
        kind: str, title: str, base: TrainConfig, methods: tuple[str, ...], seeds: tuple[int, ...],
        chosen: dict[str, dict[str, Any]] | None, folder: str, curves: bool = False,
    ) -> None:  # fmt: skip
        """Measure methods of a part, with options that are given or searched, and save after each."""
        part = found.setdefault(kind, {}) if not title else found.setdefault(kind, {}).setdefault(title, {})
        out = options.out / folder
        for method in methods:
            if chosen is None:
                best = search_options(base, method, part, out, options.jobs, lines)
            else:
                best = chosen.get(method, {})
            measure_method(base, method, best, seeds, part, out, options.jobs, lines, curves)
            save(found, options.results)

    for name, source in data.items() if "main" in options.only else ():
        console.rule(f"{name}, the paper's setting")
        few = {"per_class": 500} if options.fast else {}
        base = base_of(source, steps, **MAIN[name], **few)
        measure("main", name, base, tuple(options.methods), seeds[name], {} if options.fast else None, name)
    if "pathmnist" in data and "curves" in options.only:
        console.rule("pathmnist, learning curves")
        base = base_of(data["pathmnist"], steps, **MAIN["pathmnist"], validate_every=steps // 8)
        main_table = found["main"]["pathmnist"]
        methods = best_of(main_table, base.batches)
        measure("curves", "", base, methods, seeds["pathmnist"], chosen_in(main_table), "curves", True)
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
        measure("regimes", title, base, (*methods, *CONTROLS), seeds["mnist"], chosen, f"regime-{folder}")
        slower = a_rung_lower(chosen)
        measure("lower rate", title, base, others, seeds["mnist"], slower, f"lower-rate-{folder}")
    for name in OTHER_WAY.keys() & data.keys() if "other-way" in options.only and not options.fast else ():
        console.rule(f"{name}, images varied the other way")
        base = base_of(data[name], steps, **OTHER_WAY[name])
        measure("other way", name, base, ROWS, seeds[name], None, f"{name}-other-way")
    wide = Console(width=max(console.width, 120))  # a table that is cut says nothing
    for title, table in quality_tables(found).items():
        wide.rule(title)
        wide.print(Markdown(table))
    if options.results == RESULTS:
        fill_documents()
    console.print(f"Figures: {options.results}")


if __name__ == "__main__":
    main()
