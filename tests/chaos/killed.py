"""Commands that are killed at random moments, and what is there when they are run again."""

import csv
import json
import random
import shutil
import signal
import sys
import time
from pathlib import Path

from tests.chaos import killed_files
from tests.chaos.commands import OPTIONS, kill_after, run, start

LENGTH = ("--max-steps", "240", "--validate-every", "30")
EQUAL = ("model.safetensors", "posterior.safetensors", "predictive.safetensors")
NOTHING = "holds no run to resume"
INSIDE = """
import os, signal, sys
from pathlib import Path

number, place = int(sys.argv.pop(1)), sys.argv.pop(1)
replace, write = Path.replace, Path.touch
def die(self, target):
    global number
    if Path(target).name == "last.ckpt":
        number -= 1
        if number == 0 and place == "before":
            os.truncate(self, os.path.getsize(self) // 2)
            os.killpg(0, signal.SIGKILL)
    replace(self, target)
    if number == 0 and Path(target).name == "last.ckpt":
        os.killpg(0, signal.SIGKILL)
Path.replace = die
from bayestriplet.cli.app import main
main()
"""


def metrics_but_times(run_folder):
    with (run_folder / "metrics.csv").open() as file:
        return [{name: row[name] for name in row if name != "seconds"} for row in csv.DictReader(file)]


def different_from(whole, other):
    """The names of what differs between two finished runs."""
    out = [name for name in EQUAL if (whole / name).read_bytes() != (other / name).read_bytes()]
    if metrics_but_times(whole) != metrics_but_times(other):
        out.append("metrics.csv")
    one, two = (json.loads((path / "results.json").read_text()) for path in (whole, other))
    out += [name for name in ("steps", "best_step", "test", "status") if one[name] != two[name]]
    return out


def train(out, devices):
    return ("train", "digits", *OPTIONS, *LENGTH, "--devices", devices, "--out", out)


def finish(out, devices):
    """Go on with a killed training until it is finished; return how: resumed, or begun again."""
    done = run("train", "--resume", out, "--backbone", OPTIONS[1])
    if done.returncode == 0:
        return "resumed"
    if "has finished its" in done.stderr:
        return "was finished"
    lines = done.stderr.strip().splitlines()
    assert done.returncode == 1, done.stderr
    assert len(lines) == 1, done.stderr
    assert NOTHING in lines[0], done.stderr
    done = run(*train(out, devices))
    assert done.returncode == 0, done.stderr
    return "nothing was kept, begun again"


def kill_trainings(folder, kills, devices, seed):
    """Kill trainings at random moments, in the first second and inside a checkpoint's write."""
    draw, whole = random.Random(seed), folder / f"whole-{devices}"
    began = time.monotonic()
    done = run(*train(whole, devices))
    assert done.returncode == 0, done.stderr
    took, ends, unequal, killed = time.monotonic() - began, {}, [], 0
    for number in range(3 * kills):
        out = folder / f"killed-{devices}-{number}"
        kind = ("anywhere", "training", "inside", "first second")[number % 4]
        if kind == "inside":
            first = (sys.executable, "-c", INSIDE, draw.randint(1, 9), draw.choice(("before", "after")))
            process, moment = start(*train(out, devices), first=first), 120
        else:
            process = start(*train(out, devices))
            if kind == "training":
                wait_for(out / "config.toml", process)
            moment = draw.uniform(0, {"anywhere": took, "training": took / 2, "first second": 1.0}[kind])
        if kill_after(process, moment) or process.returncode == -signal.SIGKILL:
            killed += 1
            how = finish(out, devices)
            ends[how] = ends.get(how, 0) + 1
            if found := different_from(whole, out):
                unequal.append({"kind": kind, "moment": round(moment, 2), "different": found})
        shutil.rmtree(out, ignore_errors=True)
        if killed == kills:
            break
    return {"kills": killed, "processes": devices, "ends": ends, "unequal": unequal}


def wait_for(path, process):
    while not path.exists() and process.poll() is None:
        time.sleep(0.02)


def kill_indexers(folder, run_folder, scans, kills, seed):
    """Kill indexers of a growing folder: the index is the old or the new one, then the new one."""
    from bayestriplet.retrieval.index import Index
    from tests.service.servers import save_scan

    draw, own = random.Random(seed), folder / "indexed"
    shutil.copytree(run_folder, own, ignore=shutil.ignore_patterns("index", "maps", "*.ckpt"))
    began = time.monotonic()
    assert run("index", own, scans).returncode == 0
    took, wrong = time.monotonic() - began, 0
    for number in range(kills):
        before = sorted(one.id for one in Index.open(own).store.items())
        save_scan(1000 + number, scans / "0" / f"new-{number}.png")
        kill_after(start("index", own, scans), draw.uniform(0, took))
        between = sorted(one.id for one in Index.open(own).store.items())
        assert run("index", own, scans).returncode == 0
        after = sorted(one.id for one in Index.open(own).store.items())
        expected = sorted(f"{scans.name}/{path.relative_to(scans)}" for path in scans.rglob("*.png"))
        wrong += not (between in (before, expected) and after == expected)
    return {"kills": kills, "wrong": wrong}


def kill_comparisons(folder, kills, seed):
    """Kill comparisons: the table at the end is that of an undisturbed one, and no run is made twice."""
    draw = random.Random(seed)

    def arguments(out):
        return ("compare", "digits", "--methods", "but,bh", "--seeds", "0,1", "--no-tune", *OPTIONS[:4],
                "--max-steps", "20", "--validate-every", "10", "--jobs", "1", "--out", out)  # fmt: skip

    began = time.monotonic()
    done = run(*arguments(folder / "whole"))
    assert done.returncode == 0, done.stderr
    took = time.monotonic() - began
    out = folder / "killed"
    for _ in range(kills):
        kill_after(start(*arguments(out)), draw.uniform(0.2, 0.9) * took)
    done = run(*arguments(out))
    assert done.returncode == 0, done.stderr
    tables = [_scores(folder / name) for name in ("whole", "killed")]
    runs = [sorted(path.name for path in (folder / name / "runs").iterdir()) for name in ("whole", "killed")]
    return {"kills": kills, "tables_equal": tables[0] == tables[1], "runs_equal": runs[0] == runs[1]}


def _scores(folder):
    """What every run has found, without its times."""
    found = {}
    for path in sorted(Path(folder / "runs").iterdir()):
        results = json.loads((path / "results.json").read_text())
        found[path.name] = {name: results[name] for name in ("steps", "best_step", "test", "status")}
    return found


def measure(folder, seed, kills=20, indexers=6, comparisons=3):
    """All of it, as figures."""
    from tests.chaos.runs import make_run

    made = make_run(folder / "made")
    two = max(1, kills // 4)
    trainings = [kill_trainings(folder, kills - two, 1, seed), kill_trainings(folder, two, 2, seed + 1)]
    return {
        "trainings": trainings,
        "trainings_killed": sum(one["kills"] for one in trainings),
        "trainings_equal": sum(one["kills"] - len(one["unequal"]) for one in trainings),
        "indexers": kill_indexers(folder / "index", made.run, made.scans, indexers, seed),
        "comparisons": kill_comparisons(folder / "compare", comparisons, seed),
        **killed_files.measure(folder / "files", made, seed),
    }
