"""Where neighbours are looked for: among the queries, in the training items, in other groups only."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayestriplet.data.progress import Progress
from bayestriplet.evaluation.bootstrap import Scores, number_clusters, scores_from_json, scores_to_json
from bayestriplet.evaluation.evaluate import ItemSet, Vectors, remember
from bayestriplet.evaluation.metrics import count_matches, retrieval_scores
from bayestriplet.evaluation.neighbours import OwnGroups

OTHER_GROUPS = ", other groups only"


@dataclass(frozen=True)
class Gallery:
    """Queries, and the items among which their neighbours are looked for."""

    queries: ItemSet
    items: ItemSet | None = None
    """None: the queries themselves, each without itself."""
    others_only: bool = False
    """Whether items of the query's own group are left out, and queries without a match in another group."""

    @property
    def name(self) -> str:
        """What it is called, such as "against the training items, other groups only"."""
        others = OTHER_GROUPS if self.others_only else ""
        if self.items is None:
            return f"among the {self.queries.words}{others}"
        is_own = self.items.images is self.queries.images
        return f"against the {self.items.words}{'' if is_own else f' of {self.items.images.name}'}{others}"

    @property
    def own(self) -> OwnGroups:
        """The groups of queries and items."""
        among = self.queries if self.items is None else self.items
        return OwnGroups.of(self.queries.groups, among.groups)

    def matches(self) -> NDArray[np.int64]:
        """Return how many relevant items (n,) there are for each query."""
        among = self.queries if self.items is None else self.items
        own = self.own if self.others_only else None
        return count_matches(self.queries.labels, among.labels, own, self.items is None)


@dataclass(frozen=True)
class GalleryScores:
    """What was found in one gallery, for the network and its floors."""

    name: str
    title: str
    queries: int
    """How many were measured."""
    items: int
    dropped: int
    """Queries left out, as no other group has an item of their class."""
    unmatched: int
    """Queries without an item of their class, each a miss."""
    resampled: str
    """What the intervals resample: queries, groups or classes."""
    units: int
    """How many of these there are."""
    rows: dict[str, Scores]

    def to_json(self) -> dict[str, Any]:
        """Return everything but the name as plain values."""
        values = asdict(self) | {"rows": scores_to_json(self.rows)}
        return {key: value for key, value in values.items() if key != "name"}

    @classmethod
    def from_json(cls, name: str, values: dict[str, Any]) -> "GalleryScores":
        """Return what :meth:`to_json` wrote."""
        return cls(name=name, **values | {"rows": scores_from_json(values["rows"])})


def list_galleries(
    queries: ItemSet, asked: ItemSet | None = None, training: ItemSet | None = None
) -> tuple[list[Gallery], list[str]]:
    """Return the galleries to measure, the one that was asked for first, and why others are left out.

    The others are the queries themselves and the ``training`` items. Each is followed by the same with
    other groups only, where it has items of a query's own group.
    """
    plain, notes = [asked, *([] if asked is None else [None])], []
    is_asked = asked is not None and training is not None and _is_same(asked, training)
    if training is not None and not is_asked:
        if np.isin(queries.labels, training.labels).any():
            plain.append(training)
        else:
            notes.append(
                f"Not measured against the training items: none of the {queries.words} is of a class that "
                "was trained on."
            )
    found = []
    for items in plain:
        found.append(Gallery(queries, items))
        others = Gallery(queries, items, others_only=True)
        if not has_own_groups(others):
            continue
        if (others.matches() > 0).any():
            found.append(others)
        else:
            notes.append(f"Not measured {others.name}: no query has an item of its class in another group.")
    return found, notes


def _is_same(one: ItemSet, other: ItemSet) -> bool:
    return one.images is other.images and one.split == other.split


def has_own_groups(gallery: Gallery) -> bool:
    """Whether a query has another item of its own group in the gallery."""
    return bool((gallery.own.sizes() > (gallery.items is None)).any())


def measure_galleries(
    embedders: dict[str, Vectors],
    galleries: Sequence[Gallery],
    trained: NDArray[np.int64],
    seed: int = 0,
    progress: Progress | None = None,
) -> list[GalleryScores]:
    """Return the scores of every embedder in every gallery; ``trained`` are the labels with training items.

    Every embedder sees every set of items once, and only one embedder's floors are held at a time.
    """
    frames = [_frame(gallery, trained) for gallery in galleries]
    for row, vectors in embedders.items():
        vectors = remember(vectors)
        for gallery, (frame, clusters) in zip(galleries, frames, strict=True):
            what = f"Searching {(gallery.items or gallery.queries).words}, {row}"
            frame.rows[row] = _score(gallery, vectors, clusters, seed, progress, what)
    return [frame for frame, _ in frames]


def _frame(gallery: Gallery, trained: NDArray[np.int64]) -> tuple[GalleryScores, NDArray[Any] | None]:
    """Return all but the scores of a gallery, and what its intervals resample (n,)."""
    queries, items = gallery.queries, gallery.items or gallery.queries
    missing = gallery.matches() == 0
    dropped = int(missing.sum()) if gallery.others_only else 0
    kept = ~missing if gallery.others_only else np.ones(len(missing), dtype=bool)
    resampled, units, clusters = choose_clusters(queries.labels, queries.groups, trained, kept)
    frame = GalleryScores(
        gallery.name, _title(gallery, int(kept.sum())), int(kept.sum()), len(items.labels), dropped,
        int(missing.sum()) - dropped, resampled, units, {},
    )  # fmt: skip
    return frame, clusters


def _title(gallery: Gallery, number: int) -> str:
    """Return queries and gallery in words, with their numbers."""
    queries, items = gallery.queries, gallery.items
    about = f"{number:,} {queries.words} of {queries.images.name}"
    grouped = bool((queries.groups != "").any())
    others = OTHER_GROUPS if gallery.others_only or (grouped and not has_own_groups(gallery)) else ""
    if items is None:
        return f"{about} among the {queries.words}{others}"
    source = "" if items.images is queries.images else f" of {items.images.name}"
    return f"{about} against {len(items.labels):,} {items.words}{source}{others}"


def choose_clusters(
    labels: NDArray[np.int64],
    groups: NDArray[np.str_] | None,
    trained: NDArray[np.int64],
    kept: NDArray[np.bool_] | None = None,
) -> tuple[str, int, NDArray[Any] | None]:
    """Return what intervals resample, how many of these there are, and each query's (n,), None for itself.

    They are classes where some were not trained on, for another draw of classes is then what a figure is
    about; else groups, where queries have any. Of a single one nothing can be said: queries are resampled.
    """
    kept = np.ones(len(labels), dtype=bool) if kept is None else kept
    choices: list[tuple[str, NDArray[Any]]] = []
    if not np.isin(labels, trained).all():
        choices.append(("classes", labels))
    if groups is not None and (groups != "").any():
        choices.append(("groups", groups))
    for what, clusters in choices:
        number = int(number_clusters(clusters[kept]).max(initial=-1)) + 1
        if number > 1:
            return what, number, clusters
    return "queries", int(kept.sum()), None


def _score(
    gallery: Gallery, vectors: Vectors, clusters: NDArray[Any] | None, seed: int,
    progress: Progress | None, what: str,
) -> Scores:  # fmt: skip
    queries, items, others = gallery.queries, gallery.items, gallery.others_only
    number = np.arange(len(queries.labels))
    return retrieval_scores(
        vectors(queries),
        queries.labels,
        gallery=None if items is None else vectors(items),
        gallery_labels=None if items is None else items.labels,
        groups=queries.groups if others else None,
        gallery_groups=items.groups if others and items is not None else None,
        clusters=number if clusters is None else clusters,
        seed=seed,
        progress=progress,
        what=what,
    )
