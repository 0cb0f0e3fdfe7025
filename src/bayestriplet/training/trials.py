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
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any

import torch

from bayestriplet.config import TrainConfig
from bayestriplet.errors import DataError, DivergenceError, InputError
from bayestriplet.runs.folder import RunFolder
from bayestriplet.training.events import OnEvent, TrialEvent
from bayestriplet.training.finishing import diverged
from bayestriplet.training.plan import open_images
from bayestriplet.training.run import TrainingRun
from bayestriplet.triplets.build import drawing_recipe

LEAST_DISK = 200_000_000  # bytes that have to be free before a run is begun
IMPORTED = ("bayestriplet.training.trials", "monai.networks.nets")
PATIENCE = 5.0  # seconds that runs may take to end when another one has failed


@dataclass(frozen=True)
class Trial:
    """A run to be made, with its options in full; its folder is named after everything that decides it.

    So a run that was made with another default, with another recipe of what BUT and BUNCA draw with, or
    with a head that began elsewhere is another run. What only says how it is made, not what comes of it, is
    no part of the name, nor is an option without a value, so that a later version with one option more still
    knows the run.
    """

    config: TrainConfig

    @property
    def name(self) -> str:
        """A readable name that is different for different options."""
        values = self.config.model_dump(exclude={"workers", "logger"}, exclude_none=True)
        values["drawing"] = drawing_recipe(self.config.method, self.config.recipe)
        if self.config.freeze and self.config.head == "linear":
            values["start"] = "principal components"  # earlier versions began at random
        text = json.dumps(values, sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        return f"{self.config.method}-seed{self.config.seed}-{digest}"


def run_trials(
    trials: list[Trial], folder: Path, jobs: int, on_event: OnEvent, images: Path | None = None,
    measure: bool = True,
) -> list[dict[str, Any]]:  # fmt: skip
    """Return the results of all trials, making those that are not there yet, ``jobs`` at a time.

    Decoded images are kept in the folder ``images`` and read from there by every run. A search goes by
    validation items, so its runs need not ``measure`` the test items; one that is wanted with them later is
    measured then.
    """
    results: dict[str, dict[str, Any]] = {}
    missing = []
    for trial in trials:
        found = read_finished(folder / trial.name)
        if found is None or (measure and found["status"] == "unmeasured"):
            missing.append(trial)
        else:
            results[trial.name] = found
            on_event(TrialEvent(trial.name, trial.config, found, was_there=True))
    if missing:
        _run_missing(missing, folder, jobs, on_event, results, images, measure)
    return [results[trial.name] for trial in trials]


def _run_missing(
    trials: list[Trial], folder: Path, jobs: int, on_event: OnEvent, results: dict[str, dict[str, Any]],
    images: Path | None, measure: bool,
) -> None:  # fmt: skip
    given = os.environ.get("OMP_NUM_THREADS", "")
    threads = int(given) if given.isdecimal() else max(1, (os.cpu_count() or 1) // jobs)
    started = threads, dict(os.environ)
    pool = ProcessPoolExecutor(jobs, mp_context=_context(), initializer=_prepare_worker, initargs=started)
    try:
        waiting, running = list(trials), dict[Future[None], Trial]()
        while waiting or running:
            while waiting and len(running) < jobs:
                trial = waiting.pop(0)
                check_disk(folder)
                on_event(TrialEvent(trial.name, trial.config))
                running[pool.submit(_run_one, trial.config, folder / trial.name, images, measure)] = trial
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                trial = running.pop(future)
                results[trial.name] = _result_of(future, folder / trial.name)
                on_event(TrialEvent(trial.name, trial.config, results[trial.name]))
    except BaseException:
        _end(pool)  # what went wrong is said at once, not after the runs under way
        raise
    pool.shutdown()


def _context() -> BaseContext:
    """Return how processes of runs begin: as forks of one that has the imports, which take some seconds."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(IMPORTED))
    return context


def _result_of(future: Future[None], path: Path) -> dict[str, Any]:
    """Return the results of a run that has ended in its process."""
    try:
        future.result()
    except BrokenProcessPool:
        raise InputError(
            f"{path} was killed, perhaps for want of memory; finished runs stay: go on with fewer jobs"
        ) from None
    found = read_finished(path)
    if found is None:
        raise InputError(f"{path} was stopped before it was finished")
    return found


def _end(pool: ProcessPoolExecutor) -> None:
    """End the runs under way: the same command goes on from their checkpoints."""
    processes = list((pool._processes or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.terminate()
    for process in processes:
        process.join(PATIENCE)
        if process.is_alive():
            process.kill()


def _prepare_worker(number: int, environment: dict[str, str]) -> None:
    """Use so many threads, and end when the comparison is killed, not hours later.

    The environment is that of the comparison now, not of when the first process was begun.
    """
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ.clear()
    os.environ.update(environment)
    os.environ["OMP_NUM_THREADS"] = str(number)
    torch.set_num_threads(number)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _run_one(config: TrainConfig, path: Path, images: Path | None, measure: bool) -> None:
    """Train in this process, going on with what an interrupted run left."""
    run = TrainingRun(config, path, images=open_images(config, cache=images))
    resume = path.exists()
    if resume:
        try:
            run.check_resume()
        except (InputError, DataError):
            shutil.rmtree(path)  # the leftovers cannot be gone on with: begin again
            resume = False
    try:
        run.fit(resume)
    except DivergenceError as error:
        RunFolder(path).path.mkdir(parents=True, exist_ok=True)  # also where it broke down at the first step
        RunFolder(path).write_config(run.config)
        RunFolder(path).write_results(diverged(run.config, str(error)))
    else:
        if run.outcome.stopped_by:
            raise InputError(f"{path} was stopped at step {run.outcome.steps}")
        run.finish(only_scores=True, measure=measure)


def read_finished(path: Path) -> dict[str, Any] | None:
    """Return the results of a run that came to its end, None where it is still to be made."""
    run = RunFolder(path)
    if not run.results.is_file():
        return None
    try:
        results = run.read_results()
    except InputError as error:
        raise InputError(f"{error}; delete {path} to repeat that run") from None
    return results if results["status"] in ("finished", "unmeasured", "diverged") else None


def check_disk(folder: Path) -> None:
    """Raise while there is still room to say so."""
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if free < LEAST_DISK:
        raise InputError(
            f"{folder} has {free // 1_000_000} MB of free disk; finished runs stay, make room and go on"
        )
