"""A run that is measured: retrieval, and on its own test items probabilities and novelty."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bayestriplet.data.dataset import LabelledImages
from bayestriplet.data.progress import Progress, report
from bayestriplet.data.sources import absolute_data
from bayestriplet.data.splits import SPLITS
from bayestriplet.evaluation.appearance_fit import look_at_rows
from bayestriplet.evaluation.bootstrap import Scores
from bayestriplet.evaluation.calibration import Judged, auroc
from bayestriplet.evaluation.embeddings import Embedded, embed
from bayestriplet.evaluation.encoders import load_encoder
from bayestriplet.evaluation.evaluate import ItemSet, Vectors, embed_with, embedders, remember, select_items
from bayestriplet.evaluation.features import with_features
from bayestriplet.evaluation.few_shot import FewShot, check_few_shot, measure_few_shot
from bayestriplet.evaluation.galleries import (
    GalleryScores,
    choose_clusters,
    list_galleries,
    measure_galleries,
)
from bayestriplet.evaluation.probabilities import Honesty, RunVectors, compare_ways, measure, novelty_aurocs
from bayestriplet.model.encoder import Encoder, HeadEncoder
from bayestriplet.runs.encoder_files import fingerprint_of
from bayestriplet.runs.folder import RunFolder
from bayestriplet.runs.predictive import Predictive, open_predictive
from bayestriplet.runs.splits import open_with_novel, read_splits

UNTRAINED = "none of the {split} items is of a class that was trained on"
TRAINED_ON = (
    "Few-shot accuracy includes classes that were trained on: for new ones, train with --split-by class."
)
NO_NOVEL = "No novelty: no test item is of a class that was held out with --without ({names})."


@dataclass(frozen=True)
class ProbabilityScores:
    """What probabilities of the test items are worth, and novelty; each only where there is such."""

    rows: dict[str, Honesty] | None = None
    resampled: str = "queries"
    """What the intervals resample: queries or groups."""
    units: int = 0
    """How many of these there are."""
    novelty: dict[str, float] | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Evaluation:
    """What was measured of a run; probabilities and novelty only where there are such."""

    gallery: GalleryScores
    """Of the gallery that was asked for: among the queries, where none was."""
    galleries: dict[str, GalleryScores]
    """Of the others, by their names."""
    probability_scores: ProbabilityScores = field(default_factory=ProbabilityScores)
    notes: tuple[str, ...] = ()
    """Why something was left out, a line each."""
    few_shot: FewShot | None = None
    """Accuracy in few-shot episodes, where it was asked for."""

    @property
    def title(self) -> str:
        """Queries and gallery in words."""
        return self.gallery.title

    @property
    def retrieval(self) -> dict[str, Scores]:
        """The scores in the gallery that was asked for."""
        return self.gallery.rows

    @property
    def probabilities(self) -> dict[str, Honesty] | None:
        """What each way to class probabilities is worth."""
        return self.probability_scores.rows

    @property
    def novelty(self) -> dict[str, float] | None:
        """How well items of classes held out of training are distinguished from the others."""
        return self.probability_scores.novelty

    @property
    def note(self) -> str:
        """Why something was left out, as one text."""
        return "\n".join(self.notes)


class Evaluator:
    """A run with its encoder.

    A backbone that is code ("package:factory") runs only if it is named as ``backbone``.
    """

    def __init__(
        self,
        path: Path,
        skip_bad: bool = False,
        backbone: str | None = None,
        progress: Progress | None = None,
        split_by: str | None = None,
    ) -> None:
        self.run = RunFolder.open(path)
        self.config = self.run.read_config()
        whole = load_encoder(self.run.model, trusted=backbone)
        self.whole = whole
        self.encoder: Encoder | HeadEncoder = HeadEncoder(whole) if self.config.freeze else whole
        self.skip_bad, self.progress, self.split_by = skip_bad, progress, split_by
        self.vectors = remember(
            lambda items: embed_with(self.encoder, items.images.default_workers(), progress)(items)
        )

    def evaluate(
        self,
        data: str | None = None,
        split: str = "test",
        gallery: str | None = None,
        few_shot: bool = False,
    ) -> Evaluation:
        """Measure retrieval on some data and, on the run's own test items, probabilities and novelty.

        With ``few_shot`` also how well items of new classes are known by a few examples.
        """
        name = absolute_data(data or self.config.data)
        images, novel = self.open(name)
        has_own = name == self.config.data and split == "test" and len(images.indices("val")) > 0
        predictive = self.open_predictive() if has_own else None
        queries = select_items(images, split, self.encoder)
        if few_shot:
            check_few_shot(queries)
        rows = self._embedders(images, keep=few_shot)
        (first, *others), notes = self._measure_retrieval(name, queries, gallery, rows)
        found = self._measure_probabilities(images, novel, predictive) if has_own else ProbabilityScores()
        shots = measure_few_shot(rows, queries, self.progress) if few_shot else None
        notes = [*notes, *found.notes, *([] if shots is None else shots.notes)]
        trained = self._trained(images if name == self.config.data else None)
        if shots is not None and np.isin(queries.labels, trained).any():
            notes.append(TRAINED_ON)
        return Evaluation(first, {one.name: one for one in others}, found, tuple(notes), shots)

    def open(self, name: str) -> tuple[LabelledImages, LabelledImages | None]:
        """Return data as the run needs them, and the items of classes held out of training apart.

        For a run with a frozen network they are read as its features, which are computed once.
        """
        images, novel = open_with_novel(
            self.run, name, self.encoder.info, self.skip_bad, self.progress, self.split_by
        )
        if not self.config.freeze:
            return images, novel
        parts = [
            None if one is None else with_features(self.whole, one, 1, one.default_workers(), self.progress)
            for one in (images, novel)
        ]
        return parts[0] or images, parts[1]

    def open_predictive(self) -> Predictive | None:
        """Return what the run says of new items, or None where it keeps nothing."""
        return open_predictive(self.run, fingerprint_of(self.run.model), taught=False)

    def _embedders(self, images: LabelledImages, keep: bool) -> dict[str, Vectors]:
        """Return what embeds items: the run's network and its floors, whose vectors are held to ``keep``."""
        encoder, config = self.encoder, self.config
        rows = embedders(
            encoder, workers=images.default_workers(), seed=config.seed, name=config.method,
            weights=config.weights, begun=config.unfreeze_from, progress=self.progress,
        )  # fmt: skip
        return {name: remember(row) if keep else row for name, row in rows.items()} | {
            config.method: self.vectors
        }

    def _measure_retrieval(
        self, name: str, queries: ItemSet, gallery: str | None, rows: dict[str, Vectors]
    ) -> tuple[list[GalleryScores], list[str]]:
        """Return the scores of some items of some data in every gallery, and why others are left out.

        The run's own held-out items are also looked for in its training items.
        """
        images, split, training = queries.images, queries.split, None
        is_own = name == self.config.data
        if is_own and split in ("val", "test"):
            training = select_items(images, "train", self.encoder)
        galleries, notes = list_galleries(queries, self._asked(name, images, split, gallery), training)
        trained = self._trained(images if is_own else None)
        return measure_galleries(rows, galleries, trained, self.config.seed, self.progress), notes

    def _asked(self, name: str, images: LabelledImages, split: str, gallery: str | None) -> ItemSet | None:
        """Return the items that a gallery names, None for the queries themselves."""
        if gallery in SPLITS:
            return select_items(images, gallery, self.encoder) if gallery != split else None
        if gallery is None or absolute_data(gallery) == name:  # the same items would find themselves
            return None
        return select_items(self.open(absolute_data(gallery))[0], split, self.encoder)

    def _trained(self, images: LabelledImages | None) -> NDArray[np.int64]:
        """Return the labels with training items: of the run's own images, else as they were written down."""
        if images is not None:
            return np.unique(images.labels[images.indices("train")])
        names = {one.label for one in read_splits(self.run).values() if one.split == "train"}
        return np.array([k for k, one in enumerate(self.encoder.info.classes) if one in names], np.int64)

    def embed_splits(self, images: LabelledImages) -> RunVectors:
        """Embed the three splits of the run, but for held-out items of classes without training items."""
        trained = np.unique(images.labels[images.indices("train")])
        parts = []
        for split in SPLITS:
            items = select_items(images, split, self.encoder)
            known = np.isin(images.labels[items.indices], trained)
            parts.append(Embedded(self.vectors(items), items.labels, items.groups).take(known))
        return RunVectors(*parts)

    def _measure_probabilities(
        self, images: LabelledImages, novel: LabelledImages | None, predictive: Predictive | None
    ) -> ProbabilityScores:
        """Return what probabilities and novelty are worth on the run's test items, or why they are not."""
        what = "probabilities" if novel is None else "probabilities and no novelty"
        if predictive is None:
            text = f"No {what}: {self.run.predictive} is missing; a new training writes it."
            return ProbabilityScores(notes=(text,))
        vectors = self.embed_splits(images)
        for held_out, items in (("test", vectors.test), ("validation", vectors.val)):
            if not len(items.labels):
                return ProbabilityScores(notes=(f"No {what}: {UNTRAINED.format(split=held_out)}.",))
        report(self.progress, "Comparing probabilities", 0, 0)
        classes, test, labels = len(self.encoder.info.classes), vectors.test.vectors, vectors.test.labels
        ways = compare_ways(vectors, classes, predictive.log_probabilities)
        resampled, units, clusters = choose_clusters(labels, vectors.test.groups, labels)
        judged = {name: Judged.by(way, test, labels, classes) for name, way in ways.items()}
        honesty = {name: measure(found, self.config.seed, clusters) for name, found in judged.items()}
        novelty = self._measure_novelty(images, novel, vectors, predictive)
        notes = (NO_NOVEL.format(names=self.config.without),) if novel is not None and novelty is None else ()
        return ProbabilityScores(honesty, resampled, units, novelty, notes)

    def _measure_novelty(
        self,
        images: LabelledImages,
        novel: LabelledImages | None,
        vectors: RunVectors,
        predictive: Predictive,
    ) -> dict[str, float] | None:
        """Return how well test items of classes held out of training are distinguished from the others."""
        if novel is None or not len(novel.indices("test")):
            return None
        strange = embed(self.encoder, novel, novel.indices("test"), novel.default_workers(), self.progress)
        found = novelty_aurocs(strange, vectors, predictive.novelty_scores)
        if (appearance := predictive.appearance) is None:
            return found
        rows = images.indices("test")
        rows = rows[np.isin(images.labels[rows], images.labels[images.indices("train")])]
        parts = ((strange, novel, novel.indices("test")), (vectors.test.vectors, images, rows))
        looked = (predictive.novelty_scores(x, look_at_rows(appearance, of, own, self.progress))
                  for x, of, own in parts)  # fmt: skip
        return found | {"posterior": auroc(*looked)}
