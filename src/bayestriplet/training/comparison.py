"""The comparison of methods: tuned alike on validation data, then run on several seeds."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bayestriplet.config import TrainConfig
from bayestriplet.data.dataset import LabelledImages
from bayestriplet.errors import InputError
from bayestriplet.evaluation.encoders import load_encoder
from bayestriplet.evaluation.evaluate import embedders, select_items
from bayestriplet.evaluation.features import with_features
from bayestriplet.evaluation.galleries import Gallery, measure_galleries
from bayestriplet.evaluation.paired import MEASURES, MORE
from bayestriplet.methods import LADDERS, TUNED
from bayestriplet.model.encoder import Encoder, HeadEncoder
from bayestriplet.runs.comparison_folder import ComparisonFolder
from bayestriplet.runs.lock import holding
from bayestriplet.runs.metrics import read_metrics
from bayestriplet.training.events import OnEvent, WarningEvent
from bayestriplet.training.onnx_start import settle_onnx
from bayestriplet.training.plan import open_images, resolve
from bayestriplet.training.trials import Trial, run_trials
from bayestriplet.training.tuning import LEAST_RUNS, Search, begin, options_of


@dataclass(frozen=True)
class Comparison:
    """What is compared: methods and seeds under one base of options.

    ``chosen`` are options of single methods found elsewhere, for a comparison without tuning. ``again``
    are more seeds for the best options of a search, which are then chosen by the mean over all of them.
    ``known`` is what an earlier search tried, as ``searched`` of its summary: it is not tried again.
    """

    base: TrainConfig
    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    tune: bool
    chosen: dict[str, dict[str, Any]] = field(default_factory=dict)
    again: tuple[int, ...] = ()
    known: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.tune and self.base.validate_every == 0:
            raise InputError("--validate-every 0 leaves nothing to choose options by: use --no-tune")

    def run(self, out: Path, jobs: int, on_event: OnEvent) -> dict[str, Any]:
        """Make all runs that are missing, write comparison.json and return what it holds."""
        with self._held(out, on_event) as (settled, folder):
            return settled._run(folder, jobs, on_event)

    def search(
        self, out: Path, jobs: int, on_event: OnEvent
    ) -> tuple[dict[str, dict[str, Any]], dict[str, list[dict[str, Any]]]]:
        """Return each method's best options and all that was tried; no test item is looked at."""
        with self._held(out, on_event) as (settled, folder):
            best, searched = settled._choose(folder, _Options(folder.images), jobs, on_event)
            return {method: options_of(config) for method, config in best.items()}, searched

    @contextmanager
    def _held(self, out: Path, on_event: OnEvent) -> Iterator[tuple["Comparison", ComparisonFolder]]:
        """Hold the folder for as long as runs are made in it; yield the comparison with a settled base."""
        base, note = settle_onnx(self.base)
        if base != self.base and note:
            on_event(WarningEvent(note, is_note=True))
        settled, folder = replace(self, base=base), ComparisonFolder(out)
        is_new = not folder.settings.is_file()
        folder.claim(settled._settings())
        try:
            with holding(out):
                yield settled, folder
        except BaseException:
            if is_new and not folder.runs.exists():  # nothing was trained: the folder is as before
                folder.abandon()
            raise

    def _run(self, folder: ComparisonFolder, jobs: int, on_event: OnEvent) -> dict[str, Any]:
        options = _Options(folder.images)
        chosen, searched = self._choose(folder, options, jobs, on_event)
        trials = [
            Trial(options.in_full(chosen[method].model_copy(update={"seed": seed})))
            for method in self.methods
            for seed in self.seeds
        ]
        results = run_trials(trials, folder.runs, jobs, on_event, folder.images)
        for trial, found in zip(trials, results, strict=True):
            if found["status"] == "diverged":
                raise InputError(f"{folder.run(trial.name).path} broke down: {found['reason']}")
        summary = self._summarise(folder, trials, results) | {"searched": searched}
        folder.write_summary(summary)
        shutil.rmtree(folder.images, ignore_errors=True)  # decoded for these runs alone
        return summary

    def _settings(self) -> dict[str, Any]:
        return self.base.model_dump(exclude={"method", "seed", *TUNED})

    def _choose(
        self, folder: ComparisonFolder, options: "_Options", jobs: int, on_event: OnEvent
    ) -> tuple[dict[str, TrainConfig], dict[str, list[dict[str, Any]]]]:
        """Return each method's options, and what was tried to find them, with its validation Recall@1.

        They are the best on the first seed or on several, given ones, or those of the recipe.
        """
        configs = {
            method: self.base.model_copy(
                update={"method": method, "seed": self.seeds[0], **self.chosen.get(method, {})}
            )
            for method in self.methods
        }
        if not self.tune:
            return configs, {}
        search = Search(folder.runs, jobs, on_event, folder.images)
        starts = {method: begin(options.in_full(config)) for method, config in configs.items()}
        for method, tried in self.known.items():
            search.remember(starts[method], tried)
        best = search.best(starts)
        if self.again:
            best = search.final(configs, self.again, options.in_full)
        tuned = {method: {name: getattr(one, name) for name in TUNED} for method, one in best.items()}
        return {method: configs[method].model_copy(update=tuned[method]) for method in best}, search.tried

    def _summarise(
        self, folder: ComparisonFolder, trials: list[Trial], results: list[dict[str, Any]]
    ) -> dict[str, Any]:
        methods: dict[str, Any] = {}
        for trial, found in zip(trials, results, strict=True):
            entry = methods.setdefault(trial.config.method, {"chosen": options_of(trial.config), "seeds": {}})
            scores = found["test"][trial.config.method]
            learning = read_metrics(folder.run(trial.name).metrics).validations
            entry["seeds"][str(trial.config.seed)] = {
                **{measure: 100 * scores[measure]["value"] for measure in (*MEASURES, *MORE)},
                "validation": learning[-1][2] if learning else None,
                "seconds": found["seconds"],
                "learning": learning,
                "run": trial.name,
            }
        return {
            "data": results[0]["data"], "settings": self._settings(), "tuned": self.tune,
            "ladders": {name: ladder.rungs for name, ladder in LADDERS.items()}, "methods": methods,
            "floors": _measure_floors(folder, trials[0]),
        }  # fmt: skip


def least_runs(methods: int, seeds: int, tune: bool) -> int:
    """Return how many runs a comparison takes; a search that has to go far takes more."""
    return methods * (
        seeds + (LEAST_RUNS - 1 if tune else 0)
    )  # the best of the search is the first seed's run


class _Options:
    """Fills options in as the data of their seed ask for; the data of a seed are opened once."""

    def __init__(self, images: Path) -> None:
        self.images = images
        self._frames: dict[int, LabelledImages] = {}

    def in_full(self, config: TrainConfig) -> TrainConfig:
        """Return every option with its value, but for the workers, which change nothing."""
        if config.seed not in self._frames:
            images = open_images(config, cache=self.images)
            paths = None if images.paths is None else ()  # labels and splits are enough
            self._frames[config.seed] = replace(images, pixels=None, paths=paths)
        full = resolve(config, self._frames[config.seed])
        return full.model_copy(update={"workers": config.workers})


def _measure_floors(folder: ComparisonFolder, trial: Trial) -> dict[str, dict[str, float]]:
    """Return the test recalls, in percent, of raw pixels and of what a run's network began as."""
    known = folder.read_floors(trial.name)
    if known is not None:
        return known
    config = trial.config
    images = open_images(config.model_copy(update={"label_noise": 0.0}), cache=folder.images)
    whole = load_encoder(folder.run(trial.name).model, trusted=config.backbone)
    encoder: Encoder | HeadEncoder = whole
    if config.freeze:  # what a head begins with are the features
        encoder, images = HeadEncoder(whole), with_features(whole, images, 1, images.default_workers())
    queries = select_items(images, "test", encoder)
    rows = embedders(encoder, name="trained", seed=config.seed, weights=config.weights)
    del rows["trained"]
    (found,) = measure_galleries(rows, [Gallery(queries)], queries.labels, config.seed)
    floors = {
        name: {measure: 100 * row[measure].value for measure in (*MEASURES, *MORE)}
        for name, row in found.rows.items()
    }
    folder.write_floors(trial.name, floors)
    return floors
