"""Training, measuring and searching from Python: the engine of the commands, without a console.

What trains and measures needs torch, which is imported when that is asked for; what encodes, indexes and
searches never does.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayestriplet.checks import check_seeds, check_whole
from bayestriplet.config import TrainConfig, make_config, read_toml
from bayestriplet.data.sources import absolute_data
from bayestriplet.errors import InputError, StateError
from bayestriplet.methods import COMPARED, check_methods
from bayestriplet.report.answers import SearchResult
from bayestriplet.retrieval.encoder import OnnxEncoder
from bayestriplet.retrieval.encoding import encode_and_look, encode_images
from bayestriplet.retrieval.index import Index
from bayestriplet.retrieval.indexing import Change
from bayestriplet.retrieval.predictions import Embedding, Predictions, embed_images, predict_images
from bayestriplet.retrieval.teaching import Lesson, Teacher
from bayestriplet.runs.folder import RunFolder, check_begun, check_free
from bayestriplet.runs.predictive import Predictive, open_predictive
from bayestriplet.runs.unfreezing import with_frozen_run
from bayestriplet.training.events import OnEvent, as_progress, ignore

if TYPE_CHECKING:
    from bayestriplet.report.results import ComparisonResult, EvaluationResult
    from bayestriplet.report.run_figures import DrawnFigures

FileName = str | Path


def train(
    data: str | None = None,
    *,
    out: FileName | None = None,
    config: FileName | None = None,
    resume: FileName | None = None,
    on_event: OnEvent = ignore,
    **options: Any,
) -> "Run":
    """Train an encoder on labelled images, measure it on the test split, and return its run.

    Args:
        data: mnist, digits, pathmnist:FILE.npz, crc:FOLDER, vectors:FILE, a folder, or a CSV manifest.
        out: the folder of the run, new or empty.
        config: a TOML file with any of the options; those given here win.
        resume: the folder of a run that was stopped, to go on with it; a backbone that is code,
            package:factory, is run only if it is given here again.
        on_event: called with every step, validation, phase and warning; ``print`` will do.
        **options: every option of ``bayestriplet train``, with underscores: method="bunca", max_steps=500.

    With ``devices`` above 1 the script is started once per process, as Lightning does; only the first
    returns.

    """
    checked, folder = _check_training(data, out, config, resume, options)
    from bayestriplet.training.processes import sharing_failures
    from bayestriplet.training.run import TrainingRun

    with sharing_failures():
        training = TrainingRun(checked, folder, on_event)
        training.fit(resume=resume is not None)
    if not training.is_first:
        raise SystemExit(0)  # this process was started to help with the training
    training.finish()
    return Run(folder)


def _check_training(
    data: str | None, out: FileName | None, config: FileName | None, resume: FileName | None,
    options: Mapping[str, Any],
) -> tuple[TrainConfig, Path]:  # fmt: skip
    """Return the options and the folder of a training, checked before anything heavy is imported."""
    values = {name: value for name, value in {"data": data, **options}.items() if value is not None}
    source: Path | None = None
    if "data" in values:
        values["data"] = absolute_data(str(values["data"]))
    if resume is not None:
        if out is not None or config is not None:
            raise InputError("--resume takes out and options from the run: do not give --out or --config")
        check_begun(Path(resume))
        out, source = resume, Path(resume) / "config.toml"
    elif config is not None:
        source = Path(config)
    given = set(values)
    if source is not None:
        values = read_toml(source) | values
    if "unfreeze_from" in values and resume is None:
        values = with_frozen_run(values, given)
    checked = make_config(values, str(source or "train"))
    if checked.is_code and "backbone" not in given:  # a file names it
        raise InputError(
            f"{source or checked.unfreeze_from} needs the backbone {checked.backbone!r}, which is code: "
            f"give --backbone {checked.backbone} to run it"
        )
    if out is None:
        raise InputError("--out is missing: name a folder for the run, such as --out runs/first")
    if resume is None and "LOCAL_RANK" not in os.environ:
        check_free(Path(out))  # before any image is read; a further process finds what the first has begun
    return checked, Path(out)


def compare(
    data: str,
    *,
    out: FileName,
    methods: Sequence[str] | None = None,
    seeds: int | Sequence[int] = 5,
    jobs: int = 1,
    tune: bool = True,
    on_event: OnEvent = ignore,
    **options: Any,
) -> "ComparisonResult":
    """Train and measure methods under one budget, tuned alike, on several seeds; write tables and plots.

    ``seeds`` is how many, or which. Other options are those of :func:`train`, but for what is tuned.
    Runs that are in ``out`` already are not repeated.
    """
    names = check_methods(COMPARED if methods is None else methods)
    numbers = check_seeds(range(check_whole("seeds", seeds, 1)) if isinstance(seeds, int) else seeds)
    values = {name: value for name, value in options.items() if value is not None}
    base = make_config({"data": absolute_data(data), **values}, "compare")
    if base.unfreeze_from is not None:
        raise InputError("compare begins every run alike: unfreeze_from is an option of train alone")
    from bayestriplet.report.results import ComparisonResult, write_comparison
    from bayestriplet.report.style import import_drawing
    from bayestriplet.training.comparison import Comparison

    import_drawing("matplotlib.figure")  # better now than after hours of runs
    summary = Comparison(base, names, numbers, tune).run(Path(out), jobs, on_event)
    result = ComparisonResult.of(summary)
    write_comparison(result, summary, Path(out))
    return result


class Run:
    """A finished run: its encoder, its class distributions, its index.

    >>> run = Run("runs/first")  # doctest: +SKIP
    >>> run.search("a.png", k=5)  # doctest: +SKIP
    """

    def __init__(self, path: FileName) -> None:
        self.folder = RunFolder.find(Path(path))
        self._encoder: OnnxEncoder | None = None

    def __repr__(self) -> str:
        return f"Run({str(self.folder.path)!r})"

    @property
    def path(self) -> Path:
        """The folder."""
        return self.folder.path

    @property
    def config(self) -> TrainConfig:
        """Every option it was trained with."""
        return self.folder.read_config()

    @property
    def results(self) -> dict[str, Any]:
        """What training found: results.json."""
        return self.folder.read_results()

    @property
    def encoder(self) -> OnnxEncoder:
        """The encoder, opened when it is first used."""
        if self._encoder is None:
            self._encoder = OnnxEncoder.open(self.folder)
        return self._encoder

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes that it was trained on, then of those that it was taught."""
        predictive = open_predictive(self.folder, self.encoder.fingerprint)
        return self.encoder.info.classes if predictive is None else predictive.classes

    def encode(self, images: Any, on_event: OnEvent = ignore) -> NDArray[np.float32]:
        """Return the vectors (N, D) of images, as the index holds them.

        Images are a path, a folder, a list of paths, uint8 arrays (H, W), (H, W, C) or (N, H, W, C),
        or opened Pillow images. A run on vectors takes arrays (F,) or (N, F), or vectors:FILE.
        """
        return encode_images(self.encoder, images, as_progress(on_event))

    def class_probabilities(self, vectors: ArrayLike) -> NDArray[np.float64]:
        """Return the probability (N, K) of each of :attr:`classes` for vectors (N, D)."""
        return self._predictive().probabilities(vectors)

    def novelty(self, given: Any) -> NDArray[np.float64]:
        """Return the percentage (N,) of held-out items that are less novel than each of some images.

        Images are whatever :meth:`encode` takes. Of vectors (N, D) that it returned, novelty is known without
        how the images look.
        """
        predictive = self._predictive()
        array = given if isinstance(given, np.ndarray) else None
        if self.encoder.info.inputs or (array is not None and array.dtype != np.uint8):
            return predictive.novelty(given)
        return predictive.novelty(*encode_and_look(self.encoder, given, predictive))

    def teach(
        self, images: Any, labels: str | Sequence[str] | None = None, *, on_event: OnEvent = ignore
    ) -> Lesson:
        """Teach classes by examples, without training: probabilities and novelty know them at once.

        Images are whatever :meth:`encode` takes, with a label for each, or one for all. Without labels
        they are a folder, a manifest or vectors:FILE that has them. :meth:`forget` takes a class out again.
        """
        teacher = Teacher(self.folder, self.encoder)
        if labels is None:
            return teacher.teach_set(str(images), progress=as_progress(on_event))
        vectors, looks = encode_and_look(self.encoder, images, teacher.trained, as_progress(on_event))
        names = [labels] * len(vectors) if isinstance(labels, str) else list(labels)
        return teacher.teach(vectors, names, looks=looks)

    def forget(self, name: str) -> int:
        """Take out what was taught of a class, never what was trained; return how many examples."""
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
        """
        opened = Index.open(self.path, store)
        change = opened.update(str(images), progress=as_progress(on_event), **options)
        opened.store.prepare(as_progress(on_event))
        return change

    def search(self, queries: Any, k: int = 10, *, store: str | None = None, **options: Any) -> SearchResult:
        """Return what is nearest to each query, and what their classes say about it.

        Queries are whatever :meth:`encode` takes, or vectors (N, D); options are those of
        :meth:`Index.search`: where, exclude_self, exclude_group.
        """
        return SearchResult(tuple(Index.open(self.path, store).search(queries, k, **options)))

    def embed(
        self, images: str, *, skip_bad: bool = False, follow_links: bool = False, on_event: OnEvent = ignore
    ) -> Embedding:
        """Return the vectors of a folder, a manifest or a named set, with their ids, labels and groups."""
        return embed_images(
            self.encoder, str(images), skip_bad=skip_bad, follow_links=follow_links,
            progress=as_progress(on_event),
        )  # fmt: skip

    def predict(
        self, images: str, *, k: int = 10, store: str | None = None, skip_bad: bool = False,
        follow_links: bool = False, on_event: OnEvent = ignore,
    ) -> Predictions:  # fmt: skip
        """Return class probabilities, novelty and the vote of the k nearest indexed items of all images."""
        return predict_images(
            Index.open(self.path, store), str(images), k, skip_bad=skip_bad, follow_links=follow_links,
            progress=as_progress(on_event),
        )  # fmt: skip

    def evaluate(
        self, data: str | None = None, *, split: str = "test", gallery: str | None = None,
        split_by: str | None = None, skip_bad: bool = False, backbone: str | None = None,
        few_shot: bool = False, on_event: OnEvent = ignore,
    ) -> "EvaluationResult":  # fmt: skip
        """Measure retrieval, probabilities and novelty, as ``bayestriplet evaluate`` does."""
        from bayestriplet.evaluation.evaluator import Evaluator
        from bayestriplet.report.results import EvaluationResult

        measured = Evaluator(self.path, skip_bad, backbone, as_progress(on_event), split_by)
        return EvaluationResult.of(measured.evaluate(data, split, gallery, few_shot))

    def figures(
        self, out: FileName | None = None, *, data: str | None = None, split: str = "test", seed: int = 0,
        skip_bad: bool = False, backbone: str | None = None, on_event: OnEvent = ignore,
    ) -> "DrawnFigures":  # fmt: skip
        """Draw the map, retrievals, curves, classes and reliability into a folder."""
        from bayestriplet.evaluation.evaluator import Evaluator
        from bayestriplet.report.run_figures import draw_run_figures

        measured = Evaluator(self.path, skip_bad, backbone, as_progress(on_event))
        folder = self.path / "figures" if out is None else Path(out)
        return draw_run_figures(measured, folder, data=data, split=split, seed=seed)
