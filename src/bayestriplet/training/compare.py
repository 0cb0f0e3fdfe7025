"""The comparison of methods: tuned alike on validation data, then run on several seeds."""

import csv
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bayestriplet.config import TrainConfig
from bayestriplet.errors import InputError
from bayestriplet.evaluation.comparison import MEASURES, cells, floor_cells, rows_of, to_csv, to_markdown
from bayestriplet.evaluation.figure_comparison import draw_comparison
from bayestriplet.evaluation.figure_style import import_drawing
from bayestriplet.evaluation.run_folder import RunFolder, write_whole
from bayestriplet.training.trials import Trial, Watcher, run_trials
from bayestriplet.training.tuning import LADDERS, LEAST_RUNS, TUNED, Search, begin, options_of

FORMAT = 1


@dataclass(frozen=True)
class Comparison:
    """What is compared: methods and seeds under one base of options.

    ``chosen`` are options of single methods found elsewhere, for a comparison without tuning.
    """

    base: TrainConfig
    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    tune: bool
    chosen: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.tune and self.base.validate_every == 0:
            raise InputError("--validate-every 0 leaves nothing to choose options by: use --no-tune")

    def run(self, out: Path, jobs: int, watcher: Watcher) -> dict[str, Any]:
        """Make all runs that are missing and write comparison.json, tables and plots."""
        import_drawing("matplotlib.figure")  # better now than after hours of runs
        self._claim(out)
        chosen, searched = self._choose(out / "runs", jobs, watcher)
        trials = [
            Trial(chosen[method].model_copy(update={"seed": seed}))
            for method in self.methods
            for seed in self.seeds
        ]
        results = run_trials(trials, out / "runs", jobs, watcher)
        for trial, found in zip(trials, results, strict=True):
            if found["status"] == "diverged":
                raise InputError(f"{out / 'runs' / trial.name} broke down: {found['reason']}")
        summary = self._summarise(out, trials, results) | {"searched": searched}
        write_whole(
            out / "comparison.json", lambda path: path.write_text(json.dumps(summary, indent=1) + "\n")
        )
        table = [*cells(rows_of(summary), summary["data"]), *floor_cells(summary["floors"])]
        write_whole(out / "table.md", lambda path: path.write_text(to_markdown(table), encoding="utf-8"))
        write_whole(out / "table.csv", lambda path: path.write_text(to_csv(table), encoding="utf-8"))
        draw_comparison(summary, out)
        return summary

    def least_runs(self) -> int:
        """Return how many runs a comparison takes; a search that has to go far takes more."""
        tuning = LEAST_RUNS - 1 if self.tune else 0  # the best of the search is the first seed's run
        return len(self.methods) * (len(self.seeds) + tuning)

    def _claim(self, out: Path) -> None:
        """Write down what the folder is for, or refuse one that is for something else."""
        mine = self.base.model_dump(exclude={"method", "seed", *TUNED})
        path = out / "settings.json"
        if path.is_file():
            try:
                before = json.loads(path.read_text(encoding="utf-8"))
            except ValueError as error:
                raise InputError(f"{path} cannot be read: {error}") from None
            different = [name for name, value in mine.items() if before.get(name) != value]
            if different:
                name = different[0]
                raise InputError(
                    f"{out} holds a comparison with {name} {before.get(name)!r}, not {mine[name]!r}: "
                    "choose another --out"
                )
            return
        if out.exists() and any(out.iterdir()):
            raise InputError(f"{out} is not empty and holds no comparison: choose another --out")
        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{out} cannot be used for a comparison: {error.strerror}") from None
        write_whole(path, lambda p: p.write_text(json.dumps(mine, indent=1) + "\n", encoding="utf-8"))

    def _choose(
        self, folder: Path, jobs: int, watcher: Watcher
    ) -> tuple[dict[str, TrainConfig], dict[str, list[dict[str, Any]]]]:
        """Return each method's options, and what was tried to find them, with its validation Recall@1.

        They are the best on the first seed, given ones, or those of the recipe.
        """
        configs = {
            method: self.base.model_copy(
                update={"method": method, "seed": self.seeds[0], **self.chosen.get(method, {})}
            )
            for method in self.methods
        }
        if not self.tune:
            return configs, {}
        search = Search(folder, jobs, watcher)
        best = search.best({method: begin(config) for method, config in configs.items()})
        return best, search.tried

    def _summarise(self, out: Path, trials: list[Trial], results: list[dict[str, Any]]) -> dict[str, Any]:
        methods: dict[str, Any] = {}
        for trial, found in zip(trials, results, strict=True):
            config = RunFolder(out / "runs" / trial.name).read_config()  # with the recipe's values
            entry = methods.setdefault(
                trial.config.method,
                {"chosen": options_of(config), "seeds": {}},
            )
            scores = found["test"][trial.config.method]
            learning = learning_curve(RunFolder(out / "runs" / trial.name))
            entry["seeds"][str(trial.config.seed)] = {
                **{measure: 100 * scores[measure]["value"] for measure in MEASURES},
                "validation": learning[-1][2] if learning else None,
                "seconds": found["seconds"],
                "learning": learning,
            }
        settings = self.base.model_dump(exclude={"method", "seed", *TUNED})
        return {
            "format": FORMAT, "data": results[0]["data"], "settings": settings, "tuned": self.tune,
            "ladders": LADDERS, "methods": methods, "floors": self._floors(out, trials[0]),
        }  # fmt: skip

    def _floors(self, out: Path, trial: Trial) -> dict[str, dict[str, float]]:
        """Return the test recalls, in percent, of raw pixels and a run's untrained network, measured once."""
        path = out / "floors.json"
        known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        if known.get("run") == trial.name:
            floors: dict[str, dict[str, float]] = known["floors"]
            return floors
        from bayestriplet.data.regimes import hold_out
        from bayestriplet.data.sources import open_data
        from bayestriplet.evaluation.evaluate import evaluate, select_items
        from bayestriplet.model.encoder import load_encoder

        config = trial.config
        images = open_data(config.data, seed=config.seed, size=config.size, skip_bad=config.skip_bad)
        if config.without is not None:
            images, _ = hold_out(images, config.without)
        encoder = load_encoder(RunFolder(out / "runs" / trial.name).model, trusted=config.backbone)
        scores = evaluate(encoder, select_items(images, "test", encoder), seed=config.seed)
        floors = {
            name: {measure: 100 * scores[name][measure].value for measure in MEASURES}
            for name in ("untrained", "raw pixels")
        }
        kept = json.dumps({"run": trial.name, "floors": floors}, indent=1)
        write_whole(path, lambda p: p.write_text(kept + "\n", encoding="utf-8"))
        return floors


def learning_curve(run: RunFolder) -> list[tuple[int, float, float]]:
    """Return (step, seconds, validation Recall@1 in percent) of every validation of a run."""
    with run.metrics.open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["recall@1"]]
    return [(int(row["step"]), float(row["seconds"]), 100 * float(row["recall@1"])) for row in rows]
