"""The work behind ``bayestriplet evaluate`` and what ``figures`` shares with it."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bayestriplet.data.dataset import LabelledImages
from bayestriplet.data.progress import Progress
from bayestriplet.data.sources import absolute_data
from bayestriplet.data.splits import SPLITS
from bayestriplet.errors import InputError
from bayestriplet.evaluation.embeddings import Embedded, embed
from bayestriplet.evaluation.evaluate import Tell, evaluate, select_items
from bayestriplet.evaluation.probabilities import (
    Honesty,
    RunVectors,
    compare_ways,
    measure,
    novelty_aurocs,
)
from bayestriplet.evaluation.report import Scores
from bayestriplet.evaluation.run_data import open_with_novel
from bayestriplet.evaluation.run_folder import RunFolder
from bayestriplet.model.encoder import Encoder, load_encoder
from bayestriplet.model.onnx_export import fingerprint_of
from bayestriplet.retrieval.predictive import Predictive
from bayestriplet.training.loader import default_workers


@dataclass(frozen=True)
class Evaluation:
    """What was measured of a run; probabilities and novelty only where there are such."""

    title: str
    retrieval: dict[str, Scores]
    probabilities: dict[str, Honesty] | None = None
    novelty: dict[str, float] | None = None
    note: str = ""


class Evaluator:
    """A run that is measured, with its encoder."""

    def __init__(self, path: Path, skip_bad: bool, backbone: str | None, progress: Progress) -> None:
        self.run = RunFolder.open(path)
        self.config = self.run.read_config()
        self.encoder = load_encoder(self.run.model, trusted=backbone)
        self.skip_bad, self.progress = skip_bad, progress

    def evaluate(self, data: str | None, split: str, gallery: str | None) -> Evaluation:
        """Measure retrieval on some data and, on the run's own test items, probabilities and novelty."""
        name = absolute_data(data or self.config.data)
        images, novel = self._open(name)
        is_own = name == self.config.data and split == "test" and len(images.indices("val")) > 0
        predictive = open_predictive(self.run) if is_own and self.run.predictive.is_file() else None
        title, rows = self._measure_retrieval(name, images, split, gallery)
        if predictive is None:
            missing = f"No probabilities: {self.run.predictive} is missing; a new training writes it."
            return Evaluation(title, rows, note=missing if is_own else "")
        vectors = embed_run(self.encoder, images, self.progress)
        ways = compare_ways(vectors, len(self.encoder.info.classes), predictive.log_probabilities)
        seed, labels = self.config.seed, vectors.test.labels
        honesty = {way: measure(found, labels, seed) for way, found in ways.items()}
        told = None
        if novel is not None and len(novel.indices("test")):
            strange = embed(self.encoder, novel, novel.indices("test"), default_workers(novel))
            told = novelty_aurocs(strange, vectors, predictive.novelty_scores)
        return Evaluation(title, rows, honesty, told)

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
            among = select_items(self._open(absolute_data(gallery))[0], split, encoder)
        rows = evaluate(
            encoder,
            queries,
            among,
            workers=default_workers(images),
            seed=config.seed,
            name=config.method,
            tell=self.progress,
        )
        against = "" if among is None else f" against {len(among.indices):,} of {gallery}"
        return f"{len(queries.indices):,} {split} items of {images.name}{against}, in percent", rows

    def _open(self, name: str) -> tuple[LabelledImages, LabelledImages | None]:
        return open_with_novel(self.run, name, self.encoder.info.size, self.skip_bad, self.progress)


def open_predictive(run: RunFolder) -> Predictive:
    """Return the predictive of a run, checked to be of its model."""
    predictive = Predictive.load(run.predictive)
    if predictive.encoder != fingerprint_of(run.model):
        raise InputError(f"{run.predictive} belongs to another {run.model.name}: train again")
    return predictive


def embed_run(encoder: Encoder, images: LabelledImages, tell: Tell) -> RunVectors:
    """Embed the three splits of a run; held-out items of classes without training items are left out."""
    trained = np.unique(images.labels[images.indices("train")])
    parts = []
    for split in SPLITS:
        items = select_items(images, split, encoder)
        vectors = embed(
            encoder,
            images,
            items.indices,
            default_workers(images),
            lambda done, total, split=split: tell(f"Embedding {split}", done, total),  # type: ignore[misc]
        )
        known = np.isin(images.labels[items.indices], trained)
        parts.append(Embedded(vectors, items.labels).take(known))
    return RunVectors(*parts)
