"""The search for a method's options: the same ladders for every method, climbed by validation Recall@1."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bayestriplet.config import TrainConfig
from bayestriplet.errors import InputError
from bayestriplet.methods import METHODS, TUNED
from bayestriplet.training.events import OnEvent
from bayestriplet.training.trials import Trial, run_trials

FINALISTS = 4  # options of a method that are tried again with more seeds
LEAST_RUNS = 10  # of a method, on the sphere and off it: three rates, two neighbours of its margin


def options_of(config: TrainConfig) -> dict[str, Any]:
    """Return the options that are searched, as far as a method has them."""
    return {name: getattr(config, name) for name in TUNED if getattr(config, name) is not None}


def begin(config: TrainConfig) -> TrainConfig:
    """Return the options that a method's search begins with."""
    starts = {name: ladder.start for name, ladder in METHODS[config.method].ladders.items()}
    return config.model_copy(update={**starts, "normalize": True})


@dataclass
class Search:
    """Finds options of several methods at once, so that no job waits for the last run of one of them."""

    folder: Path
    jobs: int
    on_event: OnEvent
    images: Path | None = None  # where decoded images are kept
    scores: dict[str, tuple[float, ...]] = field(default_factory=dict)
    tried: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # method by method, as JSON

    def best(self, configs: dict[str, TrainConfig]) -> dict[str, TrainConfig]:
        """Return each method's best options: rate, then margin or temperature; then both off the sphere.

        A method that exists on the sphere alone is left there. Batch-hard is also tried as its authors
        recommend it: off the sphere, with a soft margin. Where a loss has parameters of its own, their
        rate is searched from the best, and the others from there.
        """
        found = self._climb_both(configs)
        flat = self._climb_both(
            {m: _off_sphere(config) for m, config in found.items() if not METHODS[m].on_sphere}
        )
        soft = {
            method: config.model_copy(update={"margin": 0.0})
            for method, config in flat.items()
            if METHODS[method].soft_margin
        }
        soft = self._climb(soft, dict.fromkeys(soft, "lr"))
        best = {
            method: max((ways[method] for ways in (found, flat, soft) if method in ways), key=self._score)
            for method in configs
        }
        learning = {method: config for method, config in best.items() if METHODS[method].learned}
        return best | self._climb_both(self._climb(learning, dict.fromkeys(learning, "loss_rate")))

    def remember(self, config: TrainConfig, tried: list[dict[str, Any]]) -> None:
        """Take over what an earlier search of a method tried under the same other options."""
        for options in tried:
            one, percent = config.model_copy(update=_searched(options)), options["validation"]
            self.scores[Trial(one).name] = _worth(one, None if percent is None else percent / 100)
            self.tried.setdefault(config.method, []).append(dict(options))

    def final(
        self, configs: dict[str, TrainConfig], seeds: tuple[int, ...],
        in_full: Callable[[TrainConfig], TrainConfig],
    ) -> dict[str, TrainConfig]:  # fmt: skip
        """Return each method's best options by the mean over several seeds, of those best on the first.

        One seed is a noisy judge, and the best of many options by it is the luckiest as much as the best.
        ``in_full`` fills options in as the data of their seed ask for.
        """
        places = [
            (method, options, in_full(config.model_copy(update=_searched(options) | {"seed": seed})))
            for method, config in configs.items()
            for options in self._finalists(method)
            if "again" not in options
            for seed in seeds
        ]
        trials = [Trial(config) for _, _, config in places]
        results = run_trials(trials, self.folder, self.jobs, self.on_event, self.images, measure=False)
        for (_, options, _), found in zip(places, results, strict=True):
            options.setdefault("again", []).append(_percent(found))
        return {
            method: config.model_copy(update=_searched(max(self._finalists(method), key=_mean)))
            for method, config in configs.items()
        }

    def _finalists(self, method: str) -> list[dict[str, Any]]:
        """Return what was tried of a method with the highest recalls on the first seed, best first."""
        sound = [options for options in self.tried[method] if options["validation"] is not None]
        return sorted(sound, key=lambda options: -options["validation"])[:FINALISTS]

    def _climb_both(self, configs: dict[str, TrainConfig]) -> dict[str, TrainConfig]:
        """Climb the ladders of rate and margin or temperature in turn, until no neighbour is better."""
        while True:
            better = self._climb(configs, dict.fromkeys(configs, "lr"))
            better = self._climb(better, {method: METHODS[method].strength for method in configs})
            if better == configs:
                return configs
            configs = better

    def _climb(self, configs: dict[str, TrainConfig], options: dict[str, str]) -> dict[str, TrainConfig]:
        """Move each method along the ladder of an option to where neither neighbour is better."""
        while True:
            near = {method: self._near(config, options[method]) for method, config in configs.items()}
            is_new = self._measure([config for candidates in near.values() for config in candidates])
            better = {method: max(candidates, key=self._score) for method, candidates in near.items()}
            if better == configs and not is_new:
                return configs
            configs = better

    def _near(self, config: TrainConfig, name: str) -> list[TrainConfig]:
        """Return the options, the present ones first, so that ties stay, and those a rung higher and lower.

        Of margins and temperatures there are more, down to the first known to make a difference: where a
        method has collapsed, all large ones do the same, and what helps is far smaller.
        """
        ladder = METHODS[config.method].ladders[name].rungs
        rung = ladder.index(getattr(config, name))
        known, lower = self.scores.get(Trial(config).name), []
        for value in reversed(ladder[:rung]):
            lower.append(config.model_copy(update={name: value}))
            tie = known is not None and self.scores.get(Trial(lower[-1]).name) == known
            if name in ("lr", "loss_rate") or not tie or known == (1.0,):
                break
        higher = [config.model_copy(update={name: value}) for value in ladder[rung + 1 : rung + 2]]
        return [config, *lower, *higher]

    def _measure(self, configs: list[TrainConfig]) -> bool:
        """Train what was not trained yet; return whether there was any."""
        missing = [trial for trial in map(Trial, configs) if trial.name not in self.scores]
        results = run_trials(missing, self.folder, self.jobs, self.on_event, self.images, measure=False)
        if missing and all(found["validation_recall@1"] is None for found in results):
            raise InputError("there are no validation items to choose options by: use --no-tune")
        for trial, found in zip(missing, results, strict=True):
            recall = None if found["status"] == "diverged" else found["validation_recall@1"]
            self.scores[trial.name] = _worth(trial.config, recall)
            options = options_of(trial.config) | {"validation": _percent(found)}
            self.tried.setdefault(trial.config.method, []).append(options)
        return bool(missing)

    def _score(self, config: TrainConfig) -> tuple[float, ...]:
        return self.scores[Trial(config).name]


def _off_sphere(config: TrainConfig) -> TrainConfig:
    """Return the options that the search off the sphere begins with, from the best on it."""
    starts = {name: ladder.start_off_sphere for name, ladder in METHODS[config.method].ladders.items()}
    changes = {name: start for name, start in starts.items() if start is not None}
    return config.model_copy(update={**changes, "normalize": False})


def _searched(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options among what is known of a trial; those that its method does not have are None."""
    return {name: options.get(name) for name in TUNED}


def _worth(config: TrainConfig, recall: float | None) -> tuple[float, ...]:
    """Return what a search sorts runs by: the validation recall, None for a run that broke down.

    Of those, a lower rate, then a higher temperature, is nearer to a sound one. All are worse than
    any recall.
    """
    return (-(config.lr or 0.0), config.temperature or 0.0) if recall is None else (recall,)


def _percent(found: dict[str, Any]) -> float | None:
    """Return the validation recall of a run as it is kept, None for one that broke down."""
    return None if found["status"] == "diverged" else round(100 * found["validation_recall@1"], 2)


def _mean(options: dict[str, Any]) -> float:
    """Return the mean validation recall over all seeds; a run that broke down found nothing."""
    return float(np.mean([options["validation"], *(recall or 0.0 for recall in options["again"])]))
