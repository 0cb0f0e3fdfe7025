"""Single runs of a comparison, each in a process and a folder of its own, never repeated."""

import hashlib
import json
import multiprocessing
import os
import shutil
import threading
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from bayestriplet.config import TrainConfig
from bayestriplet.errors import DataError, DivergenceError, InputError
from bayestriplet.evaluation.run_folder import RunFolder

LEAST_DISK = 200_000_000  # bytes that have to be free before a run is begun


@dataclass(frozen=True)
class Trial:
    """A run to be made; its folder is named after everything that decides it.

    Options at their defaults are left out of the name, so that a later version with one option
    more still knows the run. What a recipe of BUT and BUNCA draws with is part of it: a run made with
    another recipe is another run.
    """

    config: TrainConfig

    @property
    def name(self) -> str:
        """A readable name that is different for different options."""
        values = self.config.model_dump(exclude_defaults=True)
        if self.config.method in ("but", "bunca"):
            from bayestriplet.triplets.criteria import BUNCA, BUT  # takes a second, with torch

            values["drawing"] = {"but": BUT, "bunca": BUNCA}[self.config.method].sampling[self.config.recipe]
        text = json.dumps(values, sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        return f"{self.config.method}-seed{self.config.seed}-{digest}"


class Watcher(Protocol):
    """Told about every run."""

    def started(self, trial: Trial) -> None: ...
    def finished(self, trial: Trial, results: dict[str, Any], was_there: bool) -> None: ...


def run_trials(trials: list[Trial], folder: Path, jobs: int, watcher: Watcher) -> list[dict[str, Any]]:
    """Return the results of all trials, making those that are not there yet, ``jobs`` at a time."""
    results: dict[str, dict[str, Any]] = {}
    missing = []
    for trial in trials:
        found = read_finished(folder / trial.name)
        if found is None:
            missing.append(trial)
        else:
            results[trial.name] = found
            watcher.finished(trial, found, was_there=True)
    if missing:
        _run_missing(missing, folder, jobs, watcher, results)
    return [results[trial.name] for trial in trials]


def _run_missing(
    trials: list[Trial], folder: Path, jobs: int, watcher: Watcher, results: dict[str, dict[str, Any]]
) -> None:
    given = os.environ.get("OMP_NUM_THREADS", "")
    threads = int(given) if given.isdecimal() else max(1, (os.cpu_count() or 1) // jobs)
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_prepare_worker, initargs=(threads,))
    try:
        waiting, running = list(trials), dict[Future[None], Trial]()
        while waiting or running:
            while waiting and len(running) < jobs:
                trial = waiting.pop(0)
                check_disk(folder)
                watcher.started(trial)
                running[pool.submit(_run_one, trial.config, folder / trial.name)] = trial
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                trial = running.pop(future)
                try:
                    future.result()
                except BrokenProcessPool:
                    raise InputError(
                        f"{folder / trial.name} was killed, perhaps for want of memory; finished runs stay: "
                        "go on with fewer jobs"
                    ) from None
                found = read_finished(folder / trial.name)
                if found is None:
                    raise InputError(f"{folder / trial.name} was stopped before it was finished")
                results[trial.name] = found
                watcher.finished(trial, found, was_there=False)
    except BaseException:
        pool.shutdown(wait=False)  # what went wrong is said at once, not after the runs under way
        raise
    pool.shutdown()


def _prepare_worker(number: int) -> None:
    """Use so many threads, and end when the comparison is killed, not hours later."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ["OMP_NUM_THREADS"] = str(number)
    import torch

    torch.set_num_threads(number)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _run_one(config: TrainConfig, path: Path) -> None:
    """Train in this process, going on with what an interrupted run left."""
    from rich.console import Console

    from bayestriplet.training.run import TrainingRun

    resume = path.exists() and RunFolder(path).checkpoint.is_file()
    if path.exists() and not resume:
        shutil.rmtree(path)
    run = TrainingRun(config, path, Console(quiet=True))
    if resume:
        try:
            run.check_resume()
        except (InputError, DataError):
            shutil.rmtree(path)  # the leftovers cannot be gone on with: begin again
            resume = False
    try:
        run.fit(resume)
    except DivergenceError as error:
        _note_divergence(config, path, error)
    else:
        run.finish(only_scores=True)


def _note_divergence(config: TrainConfig, path: Path, error: DivergenceError) -> None:
    """Leave word that these options cannot be trained with: in a search they are the worst."""
    shutil.rmtree(path, ignore_errors=True)
    run = RunFolder.create(path)
    run.write_config(config)
    run.write_results(
        {"method": config.method, "seed": config.seed, "status": "diverged", "reason": str(error),
         "validation_recall@1": 0.0, "test": None}
    )  # fmt: skip


def read_finished(path: Path) -> dict[str, Any] | None:
    """Return the results of a run that came to its end, None where it is still to be made."""
    run = RunFolder(path)
    if not run.results.is_file():
        return None
    try:
        results = run.read_results()
    except InputError as error:
        raise InputError(f"{error}; delete {path} to repeat that run") from None
    return results if results["status"] in ("finished", "diverged") else None


def check_disk(folder: Path) -> None:
    """Raise while there is still room to say so."""
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if free < LEAST_DISK:
        raise InputError(
            f"{folder} has {free // 1_000_000} MB of free disk; finished runs stay, make room and go on"
        )
