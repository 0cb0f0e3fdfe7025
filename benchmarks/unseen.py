"""Retrieval among classes never trained on: all methods and the controls of BUNCA, tuned alike.

omniglot: characters of the evaluation alphabets, after training on others from scratch. The file has arrays
train, val and test images and labels, as MedMNIST's files have, with classes of their own in each.
cub: bird species 100-199 of CUB-200-2011, after training a linear head on features of species 0-99, of which
every fifth validates. Options are searched where every second one does: 20 species are too easy to choose by.
The file has vectors (11788, 1280) and labels 0..199.
coarse: MNIST trained on parity and asked for digits, PathMNIST trained on groups of tissues and asked for
tissues. A training file names its classes by the coarse labels; those of validation and test items are the
fine ones. So the search chooses options by Recall@1 on fine labels of validation items, for all methods
alike, and a training sees coarse labels alone.

Options are searched on validation items with seed 0; the best four of every method are tried again with three
more seeds, and the best mean is measured on five other seeds. Intervals and p-values
resample test classes and seeds together, paired between methods; Holm's correction is over the differences
to the candidate. Runs that are there are not repeated. The figures land in benchmarks/results/unseen.json and
from there in docs/results.md.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from quality import subset_of
from rich.console import Console
from rich.markdown import Markdown
from searching import AGAIN, ROWS, Lines, Part, base_of, measure_method, save, search_options
from tables import fill_documents
from unseen_tables import part_table

from bayestriplet.atomic import replacing, write_text
from bayestriplet.config import TrainConfig
from bayestriplet.data.sources import absolute_data, open_data
from bayestriplet.data.splits import SPLITS
from bayestriplet.evaluation.evaluate import select_items
from bayestriplet.evaluation.evaluator import Evaluator
from bayestriplet.evaluation.neighbours import nearest_neighbours

RESULTS = Path(__file__).parent / "results" / "unseen.json"
CANDIDATE = "bunca"
SEEDS = tuple(range(60, 65))  # none of them was used while anything was chosen
STEPS, FAST_STEPS = 400, 50
OPTIONS: dict[str, dict[str, Any]] = {
    "omniglot": {"batch_size": 64},
    "cub": {"batch_size": 64, "dim": 128, "head": "linear", "width": 1.0},
    "parity": {},
    "tissues": {"batch_size": 45, "augment": False},
}
ONLY = {**{name: (name,) for name in OPTIONS}, "coarse": ("parity", "tissues")}
WHOLE = ("omniglot", "cub", "coarse")
PARITY = {"even": "02468", "odd": "13579"}
TISSUE_GROUPS = {
    "tumour": ("TUM", "STR"),
    "healthy": ("MUS", "NORM", "LYM"),
    "other": ("ADI", "BACK", "DEB", "MUC"),
}
TRAINED = 100  # species of CUB to train and validate on
VALIDATES, VALIDATES_IN_SEARCH = 5, 2  # of which every fifth, or second, validates
VALIDATION_ITEMS = 500  # a class of coarse data, at the most: more cost time and say little more
HITS = "hits.json"  # in a run's folder


def split_birds(path: Path, out: Path, every: int = VALIDATES) -> Path:
    """Write the features of CUB with the splits of their classes, and return the file."""
    file = out / ("cub-unseen.npz" if every == VALIDATES else "cub-search.npz")
    if not file.is_file():
        with np.load(path, allow_pickle=False) as found:
            vectors, labels = found["vectors"], found["labels"].astype(np.int64).reshape(-1)
            names = found["classes"] if "classes" in found.files else np.arange(labels.max() + 1).astype(str)
        validates = (labels < TRAINED) & (labels % every == every - 1)
        splits = np.where(labels >= TRAINED, "test", np.where(validates, "val", "train"))
        write_arrays(file, vectors=vectors, labels=labels, splits=splits, classes=names)
    return file


def coarsen(data: str, groups: dict[str, Any], file: Path) -> Path:
    """Write image data whose training items are labelled by groups of classes, and return the file.

    Labels of validation and test items are the classes themselves. They have other names than the
    groups, so that retrieval is measured by them.
    """
    if file.is_file():
        return file
    images = open_data(data)
    group_of = {name: number for number, names in enumerate(groups.values()) for name in names}
    coarse = np.array([group_of[name] for name in images.classes])  # (K,)
    arrays: dict[str, NDArray[Any]] = {"classes": np.array([*groups, *images.classes])}
    rng = np.random.default_rng(73690)
    for split in SPLITS:
        rows = images.indices(split)
        if split == "val":
            of_class = (rng.permutation(rows[images.labels[rows] == k]) for k in range(len(images.classes)))
            rows = np.sort(np.concatenate([items[:VALIDATION_ITEMS] for items in of_class]))
        labels = images.labels[rows]
        arrays[f"{split}_images"] = (
            images.read(rows).squeeze(-1) if images.channels == 1 else images.read(rows)
        )
        arrays[f"{split}_labels"] = coarse[labels] if split == "train" else labels + len(groups)
    write_arrays(file, **arrays)
    return file


def write_arrays(file: Path, **arrays: NDArray[Any]) -> None:
    """Write an .npz file completely or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with replacing(file) as partial, partial.open("wb") as target:
        np.savez(target, **arrays)


def sources(options: argparse.Namespace) -> dict[str, Callable[[], str]]:
    """Return what makes the data of every part that there are files for."""
    out = options.out
    known: dict[str, Callable[[], str]] = {
        "parity": lambda: str(coarsen("mnist", PARITY, out / "parity.npz")),
    }
    if options.omniglot:
        known["omniglot"] = lambda: str(options.omniglot)
    if options.cub:
        known["cub"] = lambda: f"vectors:{split_birds(options.cub, out)}"
    if options.pathmnist:
        known["tissues"] = lambda: str(
            coarsen(f"pathmnist:{subset_of(options.pathmnist, out)}", TISSUE_GROUPS, out / "tissues.npz")
        )
    return known


def count_hits(run: Path) -> dict[str, str]:
    """Return the items of every test class and those whose nearest other test item is of their class.

    Both are numbers with spaces, class by class; they are kept in the folder of the run.
    """
    kept = run / HITS
    if kept.is_file():
        return json.loads(kept.read_text(encoding="utf-8"))
    evaluator = Evaluator(run)
    images, _ = evaluator.open(evaluator.config.data)
    items = select_items(images, "test", evaluator.encoder)
    nearest = nearest_neighbours(evaluator.vectors(items), 1)[:, 0]
    _, numbers = np.unique(items.labels, return_inverse=True)
    counts = np.bincount(numbers), np.bincount(numbers, items.labels[nearest] == items.labels).astype(int)
    found = {name: " ".join(map(str, one)) for name, one in zip(("sizes", "hits"), counts, strict=True)}
    write_text(kept, json.dumps(found))
    return found


def measure_part(
    base: TrainConfig, method: str, seeds: tuple[int, ...], tune: bool, part: Part, out: Path, jobs: int,
    lines: Lines, search_data: str | None = None,
) -> None:  # fmt: skip
    """Search and measure a method in a part, with the hits of every run by test class.

    ``search_data`` are others to search on, such as another split of the training classes.
    """
    chosen: dict[str, Any] = {}
    if tune:
        other = base if search_data is None else base.model_copy(update={"data": search_data})
        folder = out if search_data is None else out.with_name(f"{out.name}-search")
        chosen = search_options(other, method, part, folder, jobs, lines, AGAIN)
    for seed, run in measure_method(base, method, chosen, seeds, part, out, jobs, lines).items():
        part["data"] = Path(part["settings"].pop("data", part["data"])).stem
        counts = count_hits(run)
        part["class sizes"] = counts["sizes"]
        part["methods"][method]["seeds"][seed]["hits"] = counts["hits"]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--omniglot", type=Path, help=".npz of images with classes of their own per split")
    parser.add_argument("--cub", type=Path, help=".npz of features of CUB-200-2011: vectors and labels")
    parser.add_argument("--pathmnist", type=Path, help="pathmnist.npz")
    parser.add_argument("--fast", action="store_true", help="two seeds, nothing searched, 50 steps")
    parser.add_argument("--only", choices=ONLY, nargs="+", default=WHOLE, help="some of it")
    parser.add_argument("--methods", choices=ROWS, nargs="+", default=ROWS, help="some of the rows")
    parser.add_argument("--out", type=Path, default=Path("runs/unseen"), help="folder of the runs")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    parser.add_argument("--results", type=Path, default=RESULTS, help="JSON to write")
    return parser.parse_args()


def main() -> None:
    options, console = parse(), Console()
    found: dict[str, Any] = {"candidate": CANDIDATE, "parts": {}}
    if options.results.is_file():  # what was measured before stays
        found |= json.loads(options.results.read_text(encoding="utf-8"))
    seeds, steps = (SEEDS[:2], FAST_STEPS) if options.fast else (SEEDS, STEPS)
    known, wide = sources(options), Console(width=max(console.width, 120))
    for name in (part for kind in options.only for part in ONLY[kind]):
        if name not in known:
            console.print(f"No file for {name}: it is left out.")
            continue
        console.rule(f"{name}, classes never trained on")
        base = base_of(absolute_data(known[name]()), steps, **OPTIONS[name])
        folder = options.out / name
        search_data = None
        if name == "cub":
            search_file = split_birds(options.cub, options.out, VALIDATES_IN_SEARCH)
            search_data = absolute_data(f"vectors:{search_file}")
        part, lines = found["parts"].setdefault(name, {}), Lines(console)
        for method in options.methods:
            measure_part(
                base, method, seeds, not options.fast, part, folder, options.jobs, lines, search_data
            )
            save(found, options.results)
        wide.print(Markdown(part_table(found["parts"][name], CANDIDATE)))
    if options.results == RESULTS:
        fill_documents()
    console.print(f"Figures: {options.results}")


if __name__ == "__main__":
    main()
