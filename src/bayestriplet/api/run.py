"""A run from Python: encode, search, teach, measure and draw.

What measures needs torch, which is imported when that is asked for; what encodes, indexes and searches
never does.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayestriplet.config import TrainConfig
from bayestriplet.errors import StateError
from bayestriplet.report.answers import SearchResult
from bayestriplet.retrieval.encoder import OnnxEncoder
from bayestriplet.retrieval.encoding import encode_and_look, encode_images
from bayestriplet.retrieval.index import Index
from bayestriplet.retrieval.indexing import Change
from bayestriplet.retrieval.live import novelty_words
from bayestriplet.retrieval.predictions import Embedding, Predictions, embed_images, predict_images
from bayestriplet.retrieval.teaching import Lesson, Teacher
from bayestriplet.runs.folder import RunFolder
from bayestriplet.runs.predictive import Predictive, open_predictive
from bayestriplet.training.events import OnEvent, as_progress, ignore

if TYPE_CHECKING:
    from bayestriplet.report.results import EvaluationResult
    from bayestriplet.report.run_figures import DrawnFigures

FileName = str | Path


class Run:
    """A finished run: its encoder, its class distributions, its index.

    >>> run = bt.Run("runs/first")
    >>> run.classes
    ('0', '1', '2')
    """

    def __init__(self, path: FileName) -> None:
        self.folder = RunFolder.find(Path(path))
        self._encoder: OnnxEncoder | None = None

    def __repr__(self) -> str:
        return f"Run({str(self.folder.path)!r})"

    @property
    def path(self) -> Path:
        """The folder.

        >>> run.path.name
        'first'
        """
        return self.folder.path

    @property
    def config(self) -> TrainConfig:
        """Every option it was trained with.

        >>> run.config.method, run.config.dim
        ('bunca', 8)
        """
        return self.folder.read_config()

    @property
    def results(self) -> dict[str, Any]:
        """What training found: results.json.

        >>> run.results["status"], run.results["steps"]
        ('finished', 40)
        """
        return self.folder.read_results()

    @property
    def encoder(self) -> OnnxEncoder:
        """The encoder, opened when it is first used.

        >>> run.encoder.dim
        8
        """
        if self._encoder is None:
            self._encoder = OnnxEncoder.open(self.folder)
        return self._encoder

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes that it was trained on, then of those that it was taught.

        >>> run.classes
        ('0', '1', '2')
        """
        predictive = open_predictive(self.folder, self.encoder.fingerprint)
        return self.encoder.info.classes if predictive is None else predictive.classes

    def encode(self, images: Any, on_event: OnEvent = ignore) -> NDArray[np.float32]:
        """Return the vectors (N, D) of images, as the index holds them.

        Images are a path, a folder, a list of paths, uint8 arrays (H, W), (H, W, C) or (N, H, W, C),
        or opened Pillow images. A run on vectors takes arrays (F,) or (N, F), or vectors:FILE.

        >>> run.encode("query.png").shape
        (1, 8)
        >>> run.encode("photos").shape
        (60, 8)
        """
        return encode_images(self.encoder, images, as_progress(on_event))

    def class_probabilities(self, vectors: ArrayLike) -> NDArray[np.float64]:
        """Return the probability (N, K) of each of :attr:`classes` for vectors (N, D).

        >>> run.class_probabilities(run.encode("photos")).shape
        (60, 3)
        """
        return self._predictive().probabilities(vectors)

    def novelty(self, given: Any) -> NDArray[np.float64]:
        """Return the percentage (N,) of held-out items that are less novel than each of some images.

        Images are whatever :meth:`encode` takes. Of vectors (N, D) that it returned, novelty is known without
        how the images look.

        >>> run.novelty("query.png").shape
        (1,)
        """
        predictive = self._predictive()
        array = given if isinstance(given, np.ndarray) else None
        if self.encoder.info.inputs or (array is not None and array.dtype != np.uint8):
            return predictive.novelty(given)
        return predictive.novelty(*encode_and_look(self.encoder, given, predictive))

    @property
    def novelty_evidence(self) -> str:
        """What novelty rests on, where that is little: few validation images, no or a low AUROC; else empty.

        >>> run.novelty_evidence
        'by only 9 validation images, not measured on held-out classes'
        """
        return novelty_words(self._predictive(), "vector" if self.encoder.info.inputs else "image")[1]

    def teach(
        self, images: Any, labels: str | Sequence[str] | None = None, *, on_event: OnEvent = ignore
    ) -> Lesson:
        """Teach classes by examples, without training: probabilities and novelty know them at once.

        Images are whatever :meth:`encode` takes, with a label for each, or one for all. Without labels
        they are a folder, a manifest or vectors:FILE that has them. :meth:`forget` takes a class out again.

        >>> lesson = run.teach("new")  # a folder per class
        >>> run.classes
        ('0', '1', '2', 'three')
        >>> run.forget("three")
        5
        """
        teacher = Teacher(self.folder, self.encoder)
        if labels is None:
            return teacher.teach_set(str(images), progress=as_progress(on_event))
        vectors, looks = encode_and_look(self.encoder, images, teacher.trained, as_progress(on_event))
        names = [labels] * len(vectors) if isinstance(labels, str) else list(labels)
        return teacher.teach(vectors, names, looks=looks)

    def forget(self, name: str) -> int:
        """Take out what was taught of a class, never what was trained; return how many examples.

        >>> lesson = run.teach(["new/three/00.png", "new/three/01.png"], "three")
        >>> run.forget("three")
        2
        """
        return Teacher(self.folder, self.encoder).forget(name)

    def _predictive(self) -> Predictive:
        predictive = open_predictive(self.folder, self.encoder.fingerprint)
        if predictive is None:
            raise StateError(f"{self.folder.predictive} is missing: train again to have probabilities")
        return predictive

    def index(
        self, images: str, *, store: str | None = None,
        on_event: OnEvent = ignore, **options: Any,
    ) -> Change:  # fmt: skip
        """Make images searchable, or bring their set up to date: a folder, a manifest, or a named set.

        Options are those of :meth:`Index.update`: split, name, skip_bad, follow_links.

        >>> change = run.index("photos")
        >>> change.added, change.unchanged
        (0, 60)
        """
        opened = Index.open(self.path, store)
        change = opened.update(str(images), progress=as_progress(on_event), **options)
        opened.store.prepare(as_progress(on_event))
        return change

    def search(self, queries: Any, k: int = 10, *, store: str | None = None, **options: Any) -> SearchResult:
        """Return what is nearest to each query, and what their classes say about it.

        Queries are whatever :meth:`encode` takes, or vectors (N, D); options are those of
        :meth:`Index.search`: where, exclude_self, exclude_group.

        >>> (answer,) = run.search("query.png", k=3)
        >>> len(answer.neighbours), answer.neighbours[0].label
        (3, '2')
        """
        return SearchResult(tuple(Index.open(self.path, store).search(queries, k, **options)))

    def embed(
        self, images: str, *, skip_bad: bool = False, follow_links: bool = False, on_event: OnEvent = ignore
    ) -> Embedding:
        """Return the vectors of a folder, a manifest or a named set, with their ids, labels and groups.

        >>> run.embed("photos").vectors.shape
        (60, 8)
        """
        return embed_images(
            self.encoder, str(images), skip_bad=skip_bad, follow_links=follow_links,
            progress=as_progress(on_event),
        )  # fmt: skip

    def predict(
        self, images: str, *, k: int = 10, store: str | None = None, skip_bad: bool = False,
        follow_links: bool = False, on_event: OnEvent = ignore,
    ) -> Predictions:  # fmt: skip
        """Return class probabilities, novelty and the vote of the k nearest indexed items of all images.

        >>> len(run.predict("photos").ids)
        60
        """
        return predict_images(
            Index.open(self.path, store), str(images), k, skip_bad=skip_bad, follow_links=follow_links,
            progress=as_progress(on_event),
        )  # fmt: skip

    def evaluate(
        self, data: str | None = None, *, split: str = "test", gallery: str | None = None,
        split_by: str | None = None, skip_bad: bool = False, backbone: str | None = None,
        few_shot: bool = False, on_event: OnEvent = ignore,
    ) -> "EvaluationResult":  # fmt: skip
        """Measure retrieval, probabilities and novelty, as ``bayestriplet evaluate`` does.

        >>> found = run.evaluate()
        >>> 0 <= found.retrieval["bunca"]["recall@1"].value <= 1
        True
        """
        from bayestriplet.evaluation.evaluator import Evaluator
        from bayestriplet.report.results import EvaluationResult

        measured = Evaluator(self.path, skip_bad, backbone, as_progress(on_event), split_by)
        return EvaluationResult.of(measured.evaluate(data, split, gallery, few_shot))

    def figures(
        self, out: FileName | None = None, *, data: str | None = None, split: str = "test", seed: int = 0,
        skip_bad: bool = False, backbone: str | None = None, on_event: OnEvent = ignore,
    ) -> "DrawnFigures":  # fmt: skip
        """Draw the map, retrievals, curves, classes and reliability into a folder.

        >>> drawn = run.figures("figures")
        >>> sorted(drawn.paths)
        ['classes.png', 'curves.png', 'reliability.png', 'retrieval.png', 'umap.png']
        """
        from bayestriplet.evaluation.evaluator import Evaluator
        from bayestriplet.report.run_figures import draw_run_figures

        measured = Evaluator(self.path, skip_bad, backbone, as_progress(on_event))
        folder = self.path / "figures" if out is None else Path(out)
        return draw_run_figures(measured, folder, data=data, split=split, seed=seed)
