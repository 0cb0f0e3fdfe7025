"""A run that is measured: retrieval, and on its own test items probabilities and novelty."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bayestriplet.data.dataset import LabelledImages
from bayestriplet.data.progress import Progress
from bayestriplet.data.sources import absolute_data
from bayestriplet.data.splits import SPLITS
from bayestriplet.evaluation.bootstrap import Scores
from bayestriplet.evaluation.embeddings import Embedded, embed
from bayestriplet.evaluation.encoders import load_encoder
from bayestriplet.evaluation.evaluate import evaluate, select_items
from bayestriplet.evaluation.features import with_features
from bayestriplet.evaluation.probabilities import Honesty, RunVectors, compare_ways, measure, novelty_aurocs
from bayestriplet.model.encoder import Encoder, HeadEncoder
from bayestriplet.runs.encoder_files import fingerprint_of
from bayestriplet.runs.folder import RunFolder
from bayestriplet.runs.predictive import Predictive, open_predictive
from bayestriplet.runs.splits import open_with_novel

UNTRAINED = "none of the {split} items is of a class that was trained on"


@dataclass(frozen=True)
class Evaluation:
    """What was measured of a run; probabilities and novelty only where there are such."""

    title: str
    retrieval: dict[str, Scores]
    probabilities: dict[str, Honesty] | None = None
    novelty: dict[str, float] | None = None
    note: str = ""
    """Why something was left out."""


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
    ) -> None:
        self.run = RunFolder.open(path)
        self.config = self.run.read_config()
        whole = load_encoder(self.run.model, trusted=backbone)
        self.whole = whole
        self.encoder: Encoder | HeadEncoder = HeadEncoder(whole) if self.config.freeze else whole
        self.skip_bad, self.progress = skip_bad, progress

    def evaluate(
        self, data: str | None = None, split: str = "test", gallery: str | None = None
    ) -> Evaluation:
        """Measure retrieval on some data and, on the run's own test items, probabilities and novelty."""
        name = absolute_data(data or self.config.data)
        images, novel = self.open(name)
        is_own = name == self.config.data and split == "test" and len(images.indices("val")) > 0
        predictive = self.open_predictive() if is_own else None
        title, rows = self._measure_retrieval(name, images, split, gallery)
        if predictive is None:
            missing = f"No probabilities: {self.run.predictive} is missing; a new training writes it."
            return Evaluation(title, rows, note=missing if is_own else "")
        vectors = self.embed_splits(images)
        for held_out, items in (("test", vectors.test), ("validation", vectors.val)):
            if not len(items.labels):
                note = f"No probabilities: {UNTRAINED.format(split=held_out)}."
                return Evaluation(title, rows, note=note)
        ways = compare_ways(vectors, len(self.encoder.info.classes), predictive.log_probabilities)
        honesty = {way: measure(found, vectors.test.labels, self.config.seed) for way, found in ways.items()}
        return Evaluation(title, rows, honesty, self._measure_novelty(novel, vectors, predictive))

    def open(self, name: str) -> tuple[LabelledImages, LabelledImages | None]:
        """Return data as the run needs them, and the items of classes held out of training apart.

        For a run with a frozen network they are read as its features, which are computed once.
        """
        images, novel = open_with_novel(self.run, name, self.encoder.info, self.skip_bad, self.progress)
        if not self.config.freeze:
            return images, novel
        parts = [
            None if one is None else with_features(self.whole, one, 1, one.default_workers(), self.progress)
            for one in (images, novel)
        ]
        return parts[0] or images, parts[1]

    def open_predictive(self) -> Predictive | None:
        """Return what the run says of new items, or None where it keeps nothing."""
        return open_predictive(self.run, fingerprint_of(self.run.model))

    def _measure_retrieval(
        self, name: str, images: LabelledImages, split: str, gallery: str | None
    ) -> tuple[str, dict[str, Scores]]:
        """Return a title and the scores of a split of some data."""
        encoder, config = self.encoder, self.config
        queries = select_items(images, split, encoder)
        among = None
        if gallery in SPLITS:
            among = select_items(images, gallery, encoder) if gallery != split else None
        elif gallery is not None and absolute_data(gallery) != name:  # the same items would find themselves
            among = select_items(self.open(absolute_data(gallery))[0], split, encoder)
        rows = evaluate(
            encoder,
            queries,
            among,
            workers=images.default_workers(),
            seed=config.seed,
            name=config.method,
            weights=config.weights,
            progress=self.progress,
        )
        against = "" if among is None else f" against {len(among.indices):,} of {gallery}"
        return f"{len(queries.indices):,} {split} items of {images.name}{against}, in percent", rows

    def embed_splits(self, images: LabelledImages) -> RunVectors:
        """Embed the three splits of the run, but for held-out items of classes without training items."""
        trained = np.unique(images.labels[images.indices("train")])
        parts = []
        for split in SPLITS:
            items = select_items(images, split, self.encoder)
            vectors = embed(
                self.encoder, images, items.indices, images.default_workers(), self.progress,
                f"Embedding {split}",
            )  # fmt: skip
            known = np.isin(images.labels[items.indices], trained)
            parts.append(Embedded(vectors, items.labels).take(known))
        return RunVectors(*parts)

    def _measure_novelty(
        self, novel: LabelledImages | None, vectors: RunVectors, predictive: Predictive
    ) -> dict[str, float] | None:
        """Return how well test items of classes held out of training are distinguished from the others."""
        if novel is None or not len(novel.indices("test")):
            return None
        strange = embed(self.encoder, novel, novel.indices("test"), novel.default_workers(), self.progress)
        return novelty_aurocs(strange, vectors, predictive.novelty_scores)
