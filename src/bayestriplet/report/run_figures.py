"""The figures of a run: a map, retrievals, curves, classes and reliability, as PNG files."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bayestriplet.config import TrainConfig
from bayestriplet.data.progress import Progress, report
from bayestriplet.data.sources import absolute_data
from bayestriplet.errors import InputError
from bayestriplet.evaluation.arrays import check_set
from bayestriplet.evaluation.calibration import Judged
from bayestriplet.evaluation.classes import confusion, most_confused, open_posterior, posterior_distances
from bayestriplet.evaluation.embeddings import embed
from bayestriplet.evaluation.evaluate import ItemSet, select_items
from bayestriplet.evaluation.evaluator import UNTRAINED, Evaluator
from bayestriplet.evaluation.neighbours import nearest_neighbours
from bayestriplet.posterior.posterior import ClassPosterior
from bayestriplet.report.classes_figure import classes_figure
from bayestriplet.report.curves_figure import curves_figure
from bayestriplet.report.figure import save_figure
from bayestriplet.report.projection import MOST_ITEMS, neighbours_of, project, sample_evenly
from bayestriplet.report.reliability_figure import reliability_figure
from bayestriplet.report.retrieval_figure import (
    MISSES,
    SHOWN,
    Retrieval,
    choose_queries,
    retrieval_figure,
)
from bayestriplet.report.style import METHOD_COLOURS, import_drawing, make_folder
from bayestriplet.report.text import readable_or
from bayestriplet.report.umap_figure import umap_figure
from bayestriplet.runs.metrics import Curves, read_metrics
from bayestriplet.runs.predictive import Predictive

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

MOST_CLASSES = 30  # in classes.png
SHOWS = {
    "umap.png": "UMAP of the embeddings, in the colours of the classes, with their names",
    "retrieval.png": "queries and their ten nearest neighbours, wrong ones framed and crossed",
    "curves.png": "loss and validation Recall@1 over the steps, and active triplets where there are some",
    "classes.png": "confusion of nearest neighbours beside distances of the class posteriors",
    "reliability.png": "how often a confidence is right, and accuracy if only confident items are answered",
}
NO_PICTURES = "No retrieval.png: the items are vectors, which have no pictures."


@dataclass(frozen=True)
class EmbeddedItems:
    """Items of a split with their embeddings and nearest neighbours."""

    items: ItemSet
    embeddings: NDArray[np.float32]  # (n, D)
    near: NDArray[np.int64]  # (n, k) rows of the items, nearest first
    names: list[str]  # of all labels
    about: str  # such as "test items of mnist"

    @property
    def gallery(self) -> str:
        """Among which items neighbours are looked for, as a sentence."""
        return f"Gallery: the other {len(self.near) - 1:,} {self.items.words}."

    @property
    def recall(self) -> float:
        """Recall@1 in percent."""
        return float(100 * (self.items.labels[self.near[:, 0]] == self.items.labels).mean())


@dataclass(frozen=True)
class DrawnFigures:
    """The files that were drawn, by name, and why others were not."""

    paths: dict[str, Path]
    note: str = ""

    def __str__(self) -> str:
        lines = [f"{path}: {SHOWS[name]}" for name, path in self.paths.items()]
        return "\n".join([*lines, *([self.note] if self.note else [])])


def draw_run_figures(
    measured: Evaluator, out: Path, *, data: str | None = None, split: str = "test", seed: int = 0
) -> DrawnFigures:
    """Write the figures of a run into ``out``.

    Everything that is needed is read and checked before the first figure is drawn.
    """
    run, encoder, progress = measured.run, measured.encoder, measured.progress
    _import_all(progress)
    config, curves = run.read_config(), _read_curves(run.metrics)
    images, _ = measured.open(absolute_data(data or config.data))
    posterior, predictive = open_posterior(run), measured.open_predictive()
    items = select_items(images, split, encoder)
    make_folder(out)
    embeddings = embed(encoder, images, items.indices, images.default_workers(), progress)
    embedded = embedded_items(items, embeddings, encoder.info.classes, split)
    drawings: dict[str, Callable[[], Figure]] = {
        "umap.png": lambda: _draw_umap(embedded, seed),
        "retrieval.png": lambda: _draw_retrieval(embedded, seed),
        "curves.png": lambda: curves_figure(curves, _curves_title(config), METHOD_COLOURS[config.method]),
        "classes.png": lambda: _draw_classes(embedded, posterior),
    }
    if images.length:
        del drawings["retrieval.png"]
    note = f"No reliability.png: {UNTRAINED.format(split=split)}."
    if predictive is None:
        note = f"No reliability.png: {run.predictive} is missing; a new training writes it."
    elif (known := _of_trained_classes(embedded, predictive)).any():
        note, labels = "", items.labels[known]
        way, classes = predictive.log_probabilities, len(predictive.classes)
        judged = Judged.by(way, embeddings[known], labels, classes)
        drawings["reliability.png"] = lambda: reliability_figure(judged, embedded.about)
    note = "\n".join(filter(None, [NO_PICTURES if images.length else "", note]))
    return DrawnFigures(_write_all(drawings, out, progress), note)


def _read_curves(path: Path) -> Curves:
    curves = read_metrics(path)
    if np.isnan(curves.loss).all():
        raise InputError(f"{path} holds no steps: go on with `bayestriplet train --resume {path.parent}`")
    return curves


def _of_trained_classes(embedded: "EmbeddedItems", predictive: Predictive) -> NDArray[np.bool_]:
    """Return which items (n,) are of classes that have a probability."""
    trained = np.flatnonzero(np.isfinite(predictive.log_prior))
    return np.isin(embedded.items.labels, trained)


def _write_all(
    drawings: "dict[str, Callable[[], Figure]]", out: Path, progress: Progress | None
) -> dict[str, Path]:
    """Draw and write one figure after the other."""
    for number, (name, draw) in enumerate(drawings.items()):
        report(progress, f"Drawing {name}", number, len(drawings))
        save_figure(draw(), out / name)
    return {name: out / name for name in drawings}


def _import_all(progress: Progress | None) -> None:
    """Import what takes seconds, so that a missing package is an error before any work."""
    report(progress, "Importing matplotlib and UMAP", 0, 0)
    for module in ("matplotlib.figure", "umap"):
        import_drawing(module)


def embedded_items(
    items: ItemSet, embeddings: NDArray[np.float32], classes: tuple[str, ...], split: str
) -> EmbeddedItems:
    """Return the items with their nearest neighbours among themselves; ``classes`` are the run's."""
    check_set(embeddings, items.labels, "embeddings", "labels")
    images, number = items.images, len(items.indices)
    if number < 3:
        raise InputError(f"figures need at least 3 items; {images.name} has {number} in split {split!r}")
    near = nearest_neighbours(embeddings, min(SHOWN, number - 1))
    names = [*classes, *(name for name in images.classes if name not in classes)]
    return EmbeddedItems(items, embeddings, near, names, f"{split} items of {_name_data(images.name)}")


def _draw_umap(embedded: EmbeddedItems, seed: int) -> "Figure":
    labels = embedded.items.labels
    rows = sample_evenly(labels, MOST_ITEMS, seed)
    part = f"{len(rows):,} of {len(labels):,}" if len(rows) < len(labels) else f"All {len(rows):,}"
    even = ", evenly sampled" if len(rows) < len(labels) else ""
    return umap_figure(
        project(embedded.embeddings[rows], seed),
        labels[rows],
        embedded.names,
        f"UMAP of {embedded.about}: Recall@1 {embedded.recall:.1f}%",
        f"{part} items{even}; {neighbours_of(len(rows))} neighbours. {embedded.gallery}",
    )


def _draw_retrieval(embedded: EmbeddedItems, seed: int) -> "Figure":
    items = embedded.items
    queries = choose_queries(items.labels, embedded.near[:, 0], seed)
    rows = []
    for query in queries.tolist():
        near = embedded.near[query]
        pixels = items.images.as_images().read(items.indices[[query, *near]])  # (1 + k, H, W, C)
        near_labels = items.labels[near].tolist()
        rows.append(Retrieval(pixels[0], int(items.labels[query]), pixels[1:], near_labels))
    misses = min(MISSES, sum(row.near_labels[0] != row.label for row in rows))
    chosen = (
        f"{misses} of the {len(rows)} queries picked among those whose nearest neighbour is wrong."
        if misses
        else "Random queries."
    )
    return retrieval_figure(
        rows,
        embedded.names,
        f"Nearest neighbours among {embedded.about}",
        f"{embedded.gallery} Thick frame, cross, name below: another class than the query's. {chosen}",
    )


def _curves_title(config: TrainConfig) -> str:
    return f"Training {config.method.upper()} on {_name_data(Path(config.data).name)}"


def _name_data(name: str) -> str:
    return readable_or(name, "the data set", 40)


def _draw_classes(embedded: EmbeddedItems, posterior: ClassPosterior) -> "Figure":
    labels, number = embedded.items.labels, len(embedded.names)
    nearest = labels[embedded.near[:, 0]]
    chosen = most_confused(labels, nearest, number, MOST_CLASSES)
    some = f"the {len(chosen)} most confused of {number:,}, " if len(chosen) < number else ""
    return classes_figure(
        confusion(labels, nearest, chosen),
        posterior_distances(posterior, chosen),
        [embedded.names[k] for k in chosen],
        f"Classes that are close: {some}{embedded.about}",
    )
