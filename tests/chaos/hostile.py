"""Files that were damaged at random, through every door that reads them.

    python -m tests.chaos.hostile FOLDER ADDRESS SEED FIRST COUNT

is one process that opens damaged files and prints a line for each; one that hangs or breaks ends the process,
and :func:`measure` starts the next one behind it.
"""

import json
import resource
import shutil
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np

from tests.chaos.commands import environment
from tests.chaos.doors import Doors, WrongAnswerError, prepare
from tests.service.servers import Server

SECONDS = 5  # that a file may take
MOST_MEGABYTES = 2000  # of a process
PANICS = ("panicked at", "Traceback (most recent call last)")
EVENTS = ("os.system", "subprocess.Popen", "os.exec", "os.posix_spawn", "socket.connect")


def mutate(content, draw):
    """Return a file with some bytes changed, cut off, repeated, moved or put in."""
    out = bytearray(content)
    for _ in range(int(draw.integers(1, 4))):
        if not out:
            break
        place, length = int(draw.integers(len(out))), int(draw.integers(1, 65))
        kind = draw.integers(7)
        if kind == 0:
            out[place] ^= 1 << int(draw.integers(8))
        elif kind == 1:
            del out[place:]
        elif kind == 2:
            del out[place : place + length]
        elif kind == 3:
            out[place : place + length] = draw.bytes(length)
        elif kind == 4:
            out[place:place] = out[place : place + length]
        elif kind == 5:
            out[place : place + 8] = b"\xff" * 8
        else:
            out[place : place + length] = bytes(length)
    return bytes(out)


def damage(content, draw):
    """Return another content than this one."""
    while (found := mutate(content, draw)) == content:
        pass
    return found


def open_damaged(folder, address, seed, first, count):
    """Open so many damaged files and print what became of each."""
    from bayestriplet.errors import BayesTripletError

    warnings.simplefilter("ignore")
    doors = Doors(folder, address)
    rows = doors.list()
    shares = np.array([row[1] for row in rows], float)
    originals, ran = {row[2]: row[2].read_bytes() for row in rows}, []
    for name, _, path, _, door in rows:  # which also says what is right
        try:  # a door that refuses the file as it was would prove nothing
            door(path)
        except Exception as error:
            raise AssertionError(f"{name} does not open the undamaged file: {error}") from error
    for number in range(first, first + count):
        draw = np.random.default_rng((seed, number))
        name, _, path, has_sum, door = rows[draw.choice(len(rows), p=shares / shares.sum())]
        content = damage(originals[path], draw)
        print(json.dumps({"number": number, "door": name, "what": "begun"}), flush=True)
        path.write_bytes(content)
        if not ran:
            sys.addaudithook(lambda event, _: ran.append(event) if event in EVENTS else None)
            ran.append("watching")
        before = len(ran)
        signal.setitimer(signal.ITIMER_REAL, 12 * SECONDS if name == "Milvus" else SECONDS)
        try:
            door(path)
            what = "believed" if has_sum else "opened"
        except WrongAnswerError as error:
            what = f"wrong answer: {error}"[:300]
        except BayesTripletError as error:
            what = "refused" if "\n" not in str(error) else "several lines"
        except BaseException as error:
            what = f"traceback: {type(error).__name__}: {error}"[:300]
        signal.setitimer(signal.ITIMER_REAL, 0)
        if len(ran) > before and not name.startswith(("service", "Milvus")):  # which ask other processes
            what = f"ran {ran[before]}"
        path.write_bytes(originals[path])
        kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        peak = max(resource.getrusage(kind).ru_maxrss for kind in kinds) // 1024
        print(json.dumps({"number": number, "door": name, "what": what, "megabytes": peak}), flush=True)


def measure(folder, seed, mutations=5000, made=None):
    """Damaged files in processes of their own, and a server; what they made of them, as figures."""
    from tests.chaos.runs import make_run

    folder.mkdir(exist_ok=True)
    made = made or make_run(folder / "made")
    prepare(folder, made)
    server = Server(shutil.copytree(made.run, folder / "served"))
    found = {"counts": {}, "doors": {}, "defects": [], "peak": 0, "panics": 0}
    first = 0
    try:
        while first < mutations:
            first = _go_on(
                found, folder, made, (server.address.removeprefix("http://"), seed, first, mutations)
            )
        assert server.is_running
        found["peak"] = max(found["peak"], most_memory_of(server.process.pid))
    finally:
        server.stop()
    return {
        "mutations": mutations, "found": found["counts"], "peak_megabytes": found["peak"],
        "panics_on_stderr": found["panics"], "defects": found["defects"][:50],
        "doors": dict(sorted(found["doors"].items())),
    }  # fmt: skip


def _go_on(found, folder, made, about):
    """Open damaged files in one process, as long as it lives; return the number of the next one."""
    address, seed, first, mutations = about
    command = [sys.executable, "-m", "tests.chaos.hostile", folder, address, seed, first, mutations - first]
    done = subprocess.run([*map(str, command)], env=environment(), capture_output=True, text=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    ended = [one for one in lines if one["what"] != "begun"]
    for one in ended:
        _count(found, one, one["what"].split(":")[0])
        found["peak"] = max(found["peak"], one["megabytes"])
    found["panics"] += sum(done.stderr.count(words) for words in PANICS)
    if not lines:
        raise AssertionError(done.stderr[-3000:])
    if len(lines) > 2 * len(ended):  # the last one has ended its process
        kind = "hang" if done.returncode == -signal.SIGALRM else f"ended by {-done.returncode}"
        _count(found, {**lines[-1], "what": kind}, kind)
        for name in ("run", "old", "images", "data", "kept", "milvus.db"):
            shutil.rmtree(folder / name, ignore_errors=True)
        prepare(folder, made)
    return lines[-1]["number"] + 1


def _count(found, one, kind):
    for counts in (found["counts"], found["doors"].setdefault(one["door"], {})):
        counts[kind] = counts.get(kind, 0) + 1
    if kind not in ("opened", "refused"):
        found["defects"].append(one)


def most_memory_of(pid):
    """Megabytes that a process has held at most."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) // 1024


if __name__ == "__main__":
    open_damaged(Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:]))
