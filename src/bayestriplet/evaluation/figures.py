"""The figures of a run: a map, retrievals, curves, classes and reliability, as PNG files."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bayestriplet.config import TrainConfig
from bayestriplet.data.dataset import LabelledImages
from bayestriplet.data.progress import Progress
from bayestriplet.data.progress import report as tell
from bayestriplet.errors import InputError
from bayestriplet.evaluation.embeddings import embed
from bayestriplet.evaluation.evaluate import ItemSet, select_items
from bayestriplet.evaluation.figure_classes import (
    classes_figure,
    confusion,
    posterior_distances,
    read_posterior,
)
from bayestriplet.evaluation.figure_curves import curves_figure, read_curves
from bayestriplet.evaluation.figure_reliability import reliability_figure
from bayestriplet.evaluation.figure_retrieval import (
    MISSES,
    SHOWN,
    Retrieval,
    choose_queries,
    retrieval_figure,
)
from bayestriplet.evaluation.figure_style import (
    METHOD_COLOURS,
    import_drawing,
    make_folder,
    readable,
    save_figure,
)
from bayestriplet.evaluation.figure_umap import MOST_ITEMS, NEIGHBOURS, project, sample_evenly, umap_figure
from bayestriplet.evaluation.metrics import check_set, nearest_neighbours
from bayestriplet.evaluation.run_folder import RunFolder
from bayestriplet.model.encoder import load_encoder
from bayestriplet.posterior.posterior import ClassPosterior

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

__all__ = ["METHOD_COLOURS", "SHOWS", "EmbeddedItems", "draw_run_figures"]

SHOWS = {
    "umap.png": "UMAP of the embeddings, a colour and a name a class",
    "retrieval.png": "queries and their ten nearest neighbours, wrong ones framed and crossed",
    "curves.png": "loss, active triplets and validation Recall@1 over the steps",
    "classes.png": "confusion of nearest neighbours beside distances of the class posteriors",
    "reliability.png": "how often a confidence is right, and accuracy if only confident items are answered",
}


@dataclass(frozen=True)
class EmbeddedItems:
    """Items of a split with their embeddings and nearest neighbours."""

    items: ItemSet
    embeddings: NDArray[np.float32]  # (n, D)
    near: NDArray[np.int64]  # (n, k) rows of the items, nearest first
    names: list[str]  # of all labels
    about: str  # such as "test items of mnist"

    @property
    def recall(self) -> float:
        """Recall@1 in percent."""
        return float(100 * (self.items.labels[self.near[:, 0]] == self.items.labels).mean())


def draw_run_figures(
    run: RunFolder,
    images: LabelledImages,
    split: str,
    probabilities: "Callable[[NDArray[np.float32]], NDArray[np.float64]]",
    out: Path,
    seed: int,
    report: Progress | None = None,
    *,
    workers: int = 0,
    backbone: str | None = None,
) -> dict[str, Path]:
    """Write the figures of a run into ``out`` and return their paths by file name.

    ``probabilities`` gives those of the run's classes (n, K) for embeddings (n, D).
    Everything that is needed is read and checked before the first figure is drawn. A backbone
    that is code ("package:factory") runs only if the caller names it as ``backbone``.
    """
    _import_all(report)
    config, curves = run.read_config(), read_curves(run.metrics)
    encoder = load_encoder(run.model, trusted=backbone)
    posterior = read_posterior(run.posterior, len(encoder.info.classes))
    items = select_items(images, split, encoder)
    make_folder(out)
    embeddings = embed(
        encoder, images, items.indices, workers, lambda done, total: tell(report, "Embedding", done, total)
    )
    embedded = embedded_items(items, embeddings, encoder.info.classes, split)
    drawings: dict[str, Callable[[], Figure]] = {
        "umap.png": lambda: _draw_umap(embedded, seed),
        "retrieval.png": lambda: _draw_retrieval(embedded, seed),
        "curves.png": lambda: curves_figure(curves, _curves_title(config), METHOD_COLOURS[config.method]),
        "classes.png": lambda: _draw_classes(embedded, posterior),
        "reliability.png": lambda: reliability_figure(
            probabilities(embeddings), items.labels, embedded.about
        ),
    }
    return _write_all(drawings, out, report)


def _write_all(
    drawings: "dict[str, Callable[[], Figure]]", out: Path, report: Progress | None
) -> dict[str, Path]:
    """Draw and write one figure after the other."""
    for number, (name, draw) in enumerate(drawings.items()):
        tell(report, f"Drawing {name}", number, len(drawings))
        save_figure(draw(), out / name)
    return {name: out / name for name in drawings}


def _import_all(report: Progress | None) -> None:
    """Import what takes seconds, so that a missing package is told before any work."""
    tell(report, "Importing matplotlib and UMAP", 0, 0)
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
    return EmbeddedItems(items, embeddings, near, names, f"{split} items of {readable(images.name, 24)}")


def _draw_umap(embedded: EmbeddedItems, seed: int) -> "Figure":
    labels = embedded.items.labels
    rows = sample_evenly(labels, MOST_ITEMS, seed)
    part = f"{len(rows):,} of {len(labels):,} items, evenly sampled" if len(rows) < len(labels) else ""
    return umap_figure(
        project(embedded.embeddings[rows], seed),
        labels[rows],
        embedded.names,
        f"UMAP of {embedded.about}: Recall@1 {embedded.recall:.1f}%",
        f"{part or f'All {len(rows):,} items'}; {NEIGHBOURS} neighbours; names at the median of their class.",
    )


def _draw_retrieval(embedded: EmbeddedItems, seed: int) -> "Figure":
    items, names = embedded.items, embedded.names
    queries = choose_queries(items.labels, embedded.near[:, 0], seed)
    rows = []
    for query in queries.tolist():
        near = embedded.near[query]
        pixels = items.images.read(items.indices[[query, *near]])  # (1 + k, H, W, C)
        near_labels = [names[k] for k in items.labels[near]]
        rows.append(Retrieval(pixels[0], names[items.labels[query]], pixels[1:], near_labels))
    misses = min(MISSES, sum(row.near_labels[0] != row.label for row in rows))
    chosen = (
        f"{misses} of the {len(rows)} queries picked among those whose nearest neighbour is wrong."
        if misses
        else "Random queries."
    )
    return retrieval_figure(
        rows,
        f"Nearest neighbours among {embedded.about}",
        f"Thick frame, cross, name below: another class than the query's. {chosen}",
    )


def _curves_title(config: TrainConfig) -> str:
    source = readable(Path(config.data).name, 40)
    return f"Training {config.method.upper()} on {source}"


def _draw_classes(embedded: EmbeddedItems, posterior: ClassPosterior) -> "Figure":
    labels, number = embedded.items.labels, len(embedded.names)
    return classes_figure(
        confusion(labels, labels[embedded.near[:, 0]], number),
        posterior_distances(posterior, number),
        embedded.names,
        f"Classes that are close: {embedded.about}",
    )
