"""Two at once: a line that names who holds a folder, or the right result; a dead holder holds nothing."""

import json
import os
import signal
import subprocess
import time

from tests.chaos.commands import COMMAND, OPTIONS, environment, run

LONG = ("--max-steps", "3000", "--validate-every", "50", "--patience", "0")


def start(*arguments):
    return subprocess.Popen(
        [COMMAND, *map(str, arguments)], env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
    )  # fmt: skip


def wait_for(path, seconds=60):
    end = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < end, path
        time.sleep(0.05)


def end(process):
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def two_trainings(folder):
    """A second training, and a second --resume, of a folder in which one is under way; then it is killed."""
    out = folder / "run"
    first = start("train", "digits", *OPTIONS, *LONG, "--out", out)
    wait_for(out / "last.ckpt")
    holder = f"process {json.loads((out / '.lock').read_text())['pid']}"
    found = [
        run("train", "--resume", out, "--backbone", OPTIONS[1]).stderr,
        run("train", "digits", *OPTIONS, "--out", out).stderr,
    ]
    assert first.poll() is None
    end(first)
    rows = (out / "metrics.csv").read_text().splitlines()
    again = start("train", "--resume", out, "--backbone", OPTIONS[1])
    time.sleep(6)
    taken_over = again.poll() is None or again.returncode == 0
    if again.poll() is None:
        end(again)
    steps = [row.partition(",")[0] for row in rows[1:]]
    return {
        "named": holder in found[0] and "is in use by" in found[0],
        "refused": "is not empty" in found[1] or "is in use by" in found[1],
        "rows_twice": len(steps) - len(set(steps)), "taken_over": taken_over,
    }  # fmt: skip


def two_comparisons(folder):
    """Two comparisons into one folder: one is refused, the other finishes."""
    arguments = ("compare", "digits", "--methods", "but,bh", "--seeds", "0,1", "--no-tune", *OPTIONS[:4],
                 "--max-steps", "20", "--validate-every", "10", "--out", folder / "compared")  # fmt: skip
    both = [start(*arguments) for _ in range(2)]
    said = [process.communicate(timeout=300)[1] for process in both]
    codes = sorted(process.returncode for process in both)
    refused = [text for process, text in zip(both, said, strict=True) if process.returncode]
    named = bool(refused) and all("is in use by process" in text for text in refused)
    return {"codes": codes, "named": named, "said": [] if named else [text[-400:] for text in refused]}


def two_indexers(made, rounds):
    """Two indexers at once: one may be refused; afterwards every item is there once."""
    from bayestriplet.retrieval.index import Index
    from tests.service.servers import save_scan

    wrong, refused = 0, 0
    for number in range(rounds):
        save_scan(700 + number, made.scans / "1" / f"both-{number}.png")
        both = [start("index", made.run, made.scans) for _ in range(2)]
        for process in both:
            said = process.communicate(timeout=120)[1]
            if process.returncode:
                refused += 1
                wrong += "is being changed by another process" not in said and "run it again" not in said
        ids = [one.id for one in Index.open(made.run).store.items()]
        wrong += len(ids) != len(set(ids)) or len(ids) != len(list(made.scans.rglob("*.png")))
    return {"rounds": rounds, "refused": refused, "wrong": wrong}


def measure(folder, seed, rounds=4):
    """All of it, as figures; an indexer beside a server is measured with the load."""
    del seed
    from tests.chaos.runs import make_run

    made = make_run(folder / "made")
    return {
        "trainings": two_trainings(folder),
        "comparisons": [two_comparisons(folder / str(number)) for number in range(rounds)],
        "indexers": two_indexers(made, rounds),
    }
