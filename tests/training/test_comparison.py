import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from pydantic import create_model

import bayestriplet as bt
from bayestriplet import BUT, recall_at_k
from bayestriplet.config import TrainConfig, make_config
from bayestriplet.data import images
from bayestriplet.data.regimes import hold_out
from bayestriplet.data.sources import open_data
from bayestriplet.errors import DataError, InputError
from bayestriplet.training import plan, trials
from bayestriplet.training.comparison import Comparison, least_runs
from bayestriplet.training.events import TrialEvent
from bayestriplet.training.plan import open_images, resolve
from bayestriplet.training.trials import Trial, run_trials
from tests.data.pictures import make_folder

NETWORK = {"backbone": "tests.training.networks:small", "dim": 8}
BASE = {"data": "digits", "max_steps": 6, "validate_every": 3, "augment": False, **NETWORK}


class Silent:
    def __init__(self):
        self.made, self.known = [], []

    def __call__(self, event):
        if isinstance(event, TrialEvent) and event.results is not None:
            (self.known if event.was_there else self.made).append(event.name)


def base(**options):
    return make_config(BASE | options, "test")


def full(**options):
    config = base(**options)
    return resolve(config, open_images(config))


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch):
    """Runs are made here instead of in a process each, which takes seconds to start."""

    def here(missing, folder, jobs, on_event, results, images, measure):
        for trial in missing:
            trials.check_disk(folder)
            trials._run_one(trial.config, folder / trial.name, images, measure)
            results[trial.name] = trials.read_finished(folder / trial.name)
            on_event(TrialEvent(trial.name, trial.config, results[trial.name]))

    monkeypatch.setattr(trials, "_run_missing", here)


def test_a_comparison_writes_its_tables_and_is_never_repeated(tmp_path):
    comparison, first, second = Comparison(base(), ("but", "nca"), (0, 1), tune=False), Silent(), Silent()
    summary = comparison.run(tmp_path / "out", 1, first)
    assert len(first.made) == 4
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {
        "settings.json",
        "comparison.json",
        "floors.json",
        "runs",
    }
    assert json.loads((tmp_path / "out" / "comparison.json").read_text())["methods"].keys() == {"but", "nca"}
    seed = summary["methods"]["but"]["seeds"]["1"]
    assert (seed["learning"][-1][0], seed["learning"][-1][2]) == (6, seed["validation"])
    assert set(summary["floors"]) == {"untrained", "raw pixels"}
    assert comparison.run(tmp_path / "out", 1, second)["methods"] == summary["methods"]
    assert (second.made, len(second.known)) == ([], 4)


def test_an_interrupted_run_is_gone_on_with_and_a_half_written_one_made_again(tmp_path):
    trial, watcher = Trial(full()), Silent()
    run_trials([trial], tmp_path, 1, watcher)
    whole = trials.read_finished(tmp_path / trial.name)
    (tmp_path / trial.name / "results.json").unlink()
    shutil.copy(tmp_path / trial.name / "last.ckpt", tmp_path / "kept")
    (tmp_path / trial.name / "last.ckpt").write_bytes(b"half")
    run_trials([trial], tmp_path, 1, watcher)
    again = trials.read_finished(tmp_path / trial.name)
    assert again["test"] == whole["test"]
    shutil.rmtree(tmp_path / trial.name)
    (tmp_path / trial.name).mkdir()
    (tmp_path / trial.name / "config.toml").write_text("data = 'dig")
    run_trials([trial], tmp_path, 1, watcher)
    assert trials.read_finished(tmp_path / trial.name)["test"] == whole["test"]


def test_a_broken_result_is_named_and_the_other_runs_stay(tmp_path):
    first, second = Trial(full()), Trial(full(seed=1))
    run_trials([first, second], tmp_path, 1, Silent())
    (tmp_path / first.name / "results.json").write_text("{")
    with pytest.raises(InputError, match=f"delete .*{first.name} to repeat that run"):
        run_trials([first, second], tmp_path, 1, Silent())
    assert trials.read_finished(tmp_path / second.name)["status"] == "finished"


def test_a_folder_of_another_comparison_is_refused(tmp_path):
    Comparison(base(), ("but",), (0,), tune=False).run(tmp_path / "out", 1, Silent())
    with pytest.raises(InputError, match="holds a comparison with max_steps 6, not 7: choose another --out"):
        Comparison(base(max_steps=7), ("but",), (0,), tune=False).run(tmp_path / "out", 1, Silent())
    with pytest.raises(InputError, match=r"holds a comparison with data 'digits', not 'mnist'"):
        Comparison(base(data="mnist"), ("but",), (0,), tune=False).run(tmp_path / "out", 1, Silent())
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("")
    with pytest.raises(InputError, match="is not empty and holds no comparison"):
        Comparison(base(), ("but",), (0,), tune=False).run(tmp_path / "other", 1, Silent())


def test_no_free_disk_is_one_line_before_a_run_begins(tmp_path, monkeypatch):
    monkeypatch.setattr(trials, "LEAST_DISK", 10**18)
    with pytest.raises(InputError, match="MB of free disk; finished runs stay"):
        run_trials([Trial(full())], tmp_path, 1, Silent())


def test_different_options_have_different_folders():
    names = {Trial(full(**options)).name for options in ({}, {"seed": 1}, {"lr": 0.1}, {"method": "bh"})}
    assert len(names) == 4
    assert Trial(full()).name == Trial(full()).name


def test_a_run_made_with_another_recipe_is_another_run(monkeypatch):
    before = {method: Trial(full(method=method)).name for method in ("but", "bunca", "bh")}
    monkeypatch.setitem(BUT.sampling["default"], "noise", 0.7)
    after = {method: Trial(full(method=method)).name for method in before}
    assert [method for method in before if before[method] != after[method]] == ["but"]


def test_a_run_made_before_an_option_existed_is_still_known():
    config = full(lr=0.1)
    longer = create_model("Longer", __base__=TrainConfig, another=(float | None, None))
    assert Trial(longer(**config.model_dump())).name == Trial(config).name
    assert Trial(longer(**config.model_dump(), another=2.0)).name != Trial(config).name


def test_a_run_made_with_another_default_is_another_run(monkeypatch):
    before = Trial(full(validate_every=None, max_steps=None)).name
    assert Trial(full(validate_every=None, max_steps=None)).name == before
    monkeypatch.setattr(plan, "LEAST_INTERVAL", 70)
    assert Trial(full(validate_every=None, max_steps=None)).name != before


def test_what_changes_nothing_about_a_run_is_no_part_of_its_name():
    assert Trial(full(workers=2, logger="csv")).name == Trial(full()).name


def test_options_chosen_elsewhere_are_used_without_tuning(tmp_path):
    chosen = {"but": {"margin": 0.4, "lr": 2e-3}}
    comparison = Comparison(base(), ("but", "ba"), (0,), tune=False, chosen=chosen)
    summary = comparison.run(tmp_path / "out", 1, Silent())
    assert summary["methods"]["but"]["chosen"] == {"lr": 2e-3, "margin": 0.4, "normalize": True}
    assert summary["methods"]["ba"]["chosen"] == {"lr": 5e-3, "margin": 0.2, "normalize": True}


def test_without_tuning_a_recipe_is_followed(tmp_path):
    comparison = Comparison(base(recipe="paper"), ("bunca",), (0,), tune=False)
    chosen = comparison.run(tmp_path / "out", 1, Silent())["methods"]["bunca"]["chosen"]
    assert chosen == {"lr": 1e-5, "temperature": 1.0, "normalize": False}


def test_nothing_is_tuned_without_validations(tmp_path):
    with pytest.raises(InputError, match="--validate-every 0 leaves nothing to choose options by"):
        Comparison(base(validate_every=0), ("but",), (0,), tune=True).run(tmp_path / "out", 1, Silent())
    assert not (tmp_path / "out").exists()
    summary = Comparison(base(validate_every=0), ("but",), (0,), False).run(tmp_path / "out", 1, Silent())
    assert summary["methods"]["but"]["seeds"]["0"]["validation"] is None


def test_floors_are_those_of_the_first_seed_whatever_was_compared_in_the_folder_before(tmp_path):
    Comparison(base(), ("but",), (0,), tune=False).run(tmp_path / "used", 1, Silent())
    comparison = Comparison(base(), ("but",), (1,), tune=False)
    used, new = (comparison.run(tmp_path / folder, 1, Silent()) for folder in ("used", "new"))
    assert used["floors"] == new["floors"]


def test_floors_are_measured_on_the_items_that_methods_are(tmp_path):
    comparison = Comparison(base(without="3,5,8"), ("but",), (0,), tune=False)
    floors = comparison.run(tmp_path / "out", 1, Silent())["floors"]
    images, _ = hold_out(open_data("digits", seed=0), "3,5,8")
    test = images.indices("test")
    pixels = images.read(test).reshape(len(test), -1).astype("float32")
    assert floors["raw pixels"]["recall@1"] == pytest.approx(
        100 * recall_at_k(pixels, images.labels[test], (1,))[1]
    )


def test_options_that_break_down_are_the_worst_of_a_search_and_not_repeated(tmp_path):
    trial, watcher = Trial(full(method="proxy-nca", normalize=False, lr=1e30)), Silent()
    for _ in range(2):
        (found,) = run_trials([trial], tmp_path, 1, watcher)
        assert (found["status"], found["validation_recall@1"]) == ("diverged", 0.0)
    assert (watcher.made, watcher.known) == ([trial.name], [trial.name])
    comparison = Comparison(base(), ("proxy-nca",), (0,), False, {"proxy-nca": {"lr": 1e30}})
    with pytest.raises(InputError, match=r"proxy-nca-seed0-.* broke down: .* try a lower --lr"):
        comparison.run(tmp_path / "out", 1, watcher)


KILLED = """
from pathlib import Path
from bayestriplet.config import make_config
from bayestriplet.training.trials import Trial, run_trials

if __name__ == "__main__":
    config = make_config({"data": "digits", "max_steps": 1_000_000, "width": 0.25}, "test")
    run_trials([Trial(config)], Path("runs"), 1, lambda event: None)
"""


DYING = """
import os
import signal

def factory(channels, dim):
    os.kill(os.getpid(), signal.SIGKILL)  # as the system does when memory runs out
"""


def test_a_run_that_the_system_kills_is_told_in_one_line(tmp_path):
    (tmp_path / "dying.py").write_text(DYING)
    arguments = (
        "compare digits --methods but --seeds 1 --no-tune --max-steps 2 --backbone dying:factory --out o"
    )
    command = [Path(sys.executable).with_name("bayestriplet"), *arguments.split()]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert found.returncode == 1
    assert "was killed, perhaps for want of memory" in found.stderr
    assert "Traceback" not in found.stderr


def test_the_runs_of_a_comparison_that_is_killed_end_with_it(tmp_path):
    (tmp_path / "long.py").write_text(KILLED)
    process = subprocess.Popen([sys.executable, "long.py"], cwd=tmp_path)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    try:
        wait_until(lambda: list(tmp_path.glob("runs/*/metrics.csv")), 180)
        workers = [Path(f"/proc/{number}") for number in children.read_text().split()]
        assert workers
    finally:
        process.kill()
        process.wait()
    wait_until(lambda: not any(worker.exists() for worker in workers), 60)


FAILING = """
from pathlib import Path
from bayestriplet.config import make_config
from bayestriplet.training.trials import Trial, run_trials

if __name__ == "__main__":
    long = {"data": "digits", "backbone": "tests.training.networks:small", "max_steps": 10_000_000}
    broken = {**long, "backbone": "tests.training.networks:broken_after_a_while"}
    trials = [Trial(make_config(values, "test")) for values in (long, broken)]
    run_trials(trials, Path("runs"), 2, lambda event: None)
"""


def test_an_error_of_one_run_ends_those_under_way(tmp_path):
    (tmp_path / "failing.py").write_text(FAILING)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "failing.py"], cwd=tmp_path, stderr=subprocess.PIPE, text=True, env=environment
    )
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    wait_until(lambda: list(tmp_path.glob("runs/*/metrics.csv")), 180)
    workers = [Path(f"/proc/{number}") for number in children.read_text().split()]
    _, errors = process.communicate(timeout=120)  # not the hours that the other run would take
    assert "must return a torch module; got str" in errors
    wait_until(lambda: not any(worker.exists() for worker in workers), 60)


def test_images_in_files_are_decoded_once_for_all_runs(tmp_path, monkeypatch):
    folder = make_folder(tmp_path / "photos", {"a": 10, "b": 10}, shape=(8, 8))
    decoded = []
    original = images._load

    def count(file, *rest, **more):
        decoded.append(file)
        return original(file, *rest, **more)

    monkeypatch.setattr(images, "_load", count)
    config = base(data=str(folder), batch_size=4, workers=0, size=8)
    Comparison(config, ("but", "nca"), (0, 1), tune=False).run(tmp_path / "out", 1, Silent())
    assert len(decoded) <= 40  # once to look at each, once to keep it; not in each of four runs
    assert not (tmp_path / "out" / "images").exists()


def wait_until(condition, seconds):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.1)


def test_the_least_number_of_runs_is_known_before(tmp_path):
    comparison, watcher = Comparison(base(max_steps=1), ("but", "nca"), (0, 1), tune=True), Silent()
    comparison.run(tmp_path / "out", 1, watcher)
    assert len(watcher.made) >= least_runs(2, 2, tune=True) == 22
    assert least_runs(2, 2, tune=False) == 4
    twice = [name for name in set(watcher.made) if watcher.made.count(name) > 1]
    assert sorted(name.split("-seed0")[0] for name in twice) == ["but", "nca"]  # the best of the searches


def test_the_best_run_of_a_search_is_measured_later_and_not_trained_again(tmp_path):
    base_run = base(max_steps=3)
    Comparison(base_run, ("nca",), (0,), tune=True).run(tmp_path / "out", 1, Silent())
    found = {
        path: json.loads((path / "results.json").read_text())
        for path in (tmp_path / "out" / "runs").iterdir()
    }
    (best,) = (path for path, results in found.items() if results["status"] == "finished")
    assert {results["status"] for results in found.values()} == {"finished", "unmeasured"}
    assert [results["test"] is None for path, results in found.items() if path != best] == [True] * (
        len(found) - 1
    )
    assert found[best]["test"]["nca"]["recall@1"]["value"] > 0
    steps = [line.split(",")[0] for line in (best / "metrics.csv").read_text().splitlines()[1:]]
    assert len(steps) == len(set(steps))


def test_data_that_cannot_be_read_leave_no_folder_behind(tmp_path):
    np.savez(tmp_path / "bad.npz", vectors=np.full((20, 3), np.nan), labels=np.arange(20) % 2)
    with pytest.raises(DataError, match="NaN"):
        bt.compare(f"vectors:{tmp_path / 'bad.npz'}", out=tmp_path / "out", methods=["but"], tune=False)
    assert not (tmp_path / "out").exists()
