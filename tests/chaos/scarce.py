"""No room, no rights, no memory: one line, a non-zero exit, and the last good state stays usable."""

import os
import shutil
import signal
import subprocess
import time

from tests.chaos.commands import BACKBONE, COMMAND, OPTIONS, environment, error_of, run
from tests.chaos.runs import Made, make_run

STEPS = ("--max-steps", "40", "--validate-every", "10")
ROOM = """
mount -t tmpfs -o size={size} tmpfs {folder} || exit 99
cp -r {source}/. {folder}/ || exit 98
{command}
code=$?
rm -f {folder}/filler
cp -r {folder}/. {kept}/
exit $code
"""


def can_mount():
    """Whether this machine lets a process have mounts of its own."""
    return subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode == 0


def inside(script):
    return subprocess.run(
        ["unshare", "-rm", "bash", "-c", script],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
    )


def in_small_room(folder, size, command, source):
    """Run a command in a small tmpfs with the content of a folder; return it, and what was left."""
    place, kept = folder / "small", folder / "kept"
    for path in (place, kept):
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
    script = ROOM.format(size=size, folder=place, source=source, kept=kept, command=command(place))
    return inside(script), kept


def shell(*words):
    return " ".join(f"'{word}'" for word in map(str, words))


def train_in_small_rooms(folder, sizes):
    """Train where the disk fills up sooner or later; what was kept goes on elsewhere."""
    out, empty = [], folder / "empty"
    empty.mkdir(parents=True, exist_ok=True)
    for size in sizes:

        def command(place):
            return shell(COMMAND, "train", "digits", *OPTIONS, *STEPS, "--out", place / "run")

        done, kept = in_small_room(folder, size, command, empty)
        if done.returncode == 0:
            out.append({"size": size, "line": "", "then": "it fits"})
            continue
        line = error_of(done)
        then = "nothing was kept"
        if (kept / "run" / "config.toml").is_file():
            again = run("train", "--resume", kept / "run", "--backbone", BACKBONE)
            assert again.returncode == 0, again.stderr
            then = "went on"
        out.append({"size": size, "line": line.rpartition("/")[2], "then": then})
    return out


def export_in_small_room(folder, made):
    """Export where the disk is full: the encoder that was there still searches."""

    def command(place):
        fill = f"cat /dev/zero > {place}/filler 2>/dev/null"
        return f"{fill}; {shell(COMMAND, 'export', place, '--backbone', BACKBONE)}"

    done, kept = in_small_room(folder, "3m", command, made.run)
    line = error_of(done)
    query = next(made.scans.rglob("1.png"))
    assert run("search", kept, query, "-k", "1").returncode == 0
    return line.rpartition("/")[2]


def read_only_script(made, *words):
    """Return what runs a command while the run is read-only."""
    mounted = f"mount --bind {made.run} {made.run} && mount -o remount,ro,bind {made.run}"
    return f"{mounted} && {shell(COMMAND, *words)}"


def read_only(made):
    """Write into folders that are read-only; searching needs no rights."""
    lines = {}
    for name, words in {
        "export": ("export", made.run, "--backbone", BACKBONE),
        "index": ("index", made.run, made.scans.parent / "other"),
        "train": ("train", "digits", *OPTIONS, "--out", made.run / "inner"),
    }.items():
        lines[name] = error_of(inside(read_only_script(made, *words))).rpartition(": ")[2]
    done = inside(read_only_script(made, "search", made.run, next(made.scans.rglob("1.png"))))
    assert done.returncode == 0, done.stderr
    return lines


def little_memory(folder, made, megabytes, names=("train", "search")):
    """Commands below a limit of addresses: they do their work, or say in one line that they cannot."""
    out = {}
    for limit in megabytes:
        for name, words in {
            "train": ("train", "digits", *OPTIONS, *STEPS, "--out", folder / f"memory-{limit}"),
            "search": ("search", made.run, next(made.scans.rglob("1.png"))),
        }.items():
            if name not in names:
                continue
            script = f"ulimit -v {limit * 1024}; exec {shell(COMMAND, *words)}"
            done = subprocess.run(
                ["bash", "-c", script],
                env=environment(),
                capture_output=True,
                text=True,
                timeout=300,
            )
            out[f"{name}, {limit} MB"] = "done" if done.returncode == 0 else error_of(done)[:100]
    return out


def children_of(pid):
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True).stdout
    return [int(one) for one in found.split()]


def disturb_training(folder, pictures, name, disturb):
    """Disturb a training that reads files in two processes, once it has a checkpoint, which stays usable."""
    from bayestriplet.runs.folder import RunFolder
    from bayestriplet.training.checkpoint import read_step

    out = folder / name
    length = ("--max-steps", "4000", "--validate-every", "20", "--patience", "0")
    arguments = ("train", pictures, *OPTIONS, *length, "--workers", "2", "--from-scratch", "--out", out)
    process = subprocess.Popen(
        [COMMAND, *map(str, arguments)], env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
    )  # fmt: skip
    end = time.monotonic() + 120
    while not (out / "last.ckpt").is_file() or not children_of(process.pid):
        assert time.monotonic() < end
        time.sleep(0.1)
    disturb(process)
    stderr = process.communicate(timeout=120)[1]
    line = error_of(subprocess.CompletedProcess((), process.returncode, "", stderr))
    assert read_step(RunFolder(out)) > 0
    return line.replace(str(folder), "")[:120]


def kill_worker(folder, pictures):
    """Kill a process that loads data."""
    return disturb_training(
        folder, pictures, "worker", lambda process: os.kill(children_of(process.pid)[0], signal.SIGKILL)
    )


def resume_read_only(run_folder):
    """Go on with a run on a disk that has become read-only: nothing beside the line, from no thread."""
    words = ("train", "--resume", run_folder, "--backbone", BACKBONE)
    script = read_only_script(Made(run_folder, None), *words)
    return error_of(inside(script)).rpartition(": ")[2]


def lose_image(folder, pictures):
    """Remove an image while a training reads the files anew in every epoch."""
    lost = next((pictures / "cat").glob("*.png"))
    content = lost.read_bytes()
    found = disturb_training(folder, pictures, "lost", lambda _: lost.unlink())
    lost.write_bytes(content)
    return found


def measure(folder, seed, sizes=("60k", "100k", "130k", "150k", "170k"), megabytes=(1500, 4000)):
    """All of it, as figures."""
    del seed
    from tests.data.pictures import make_folder

    made = make_run(folder / "made")
    pictures = folder / "pictures"
    make_folder(pictures, {"cat": 20, "dog": 20, "horse": 20})
    make_folder(made.scans.parent / "other", {"cat": 2, "dog": 2})
    out = {"mounts": can_mount()}
    if out["mounts"]:
        out["small_disks"] = train_in_small_rooms(folder, sizes)
        out["export_on_a_full_disk"] = export_in_small_room(folder, made)
        out["read_only"] = read_only(made)
    out["little_memory"] = little_memory(folder, made, megabytes)
    out["killed_worker"] = kill_worker(folder, pictures)
    if out["mounts"]:
        out["read_only"]["resume"] = resume_read_only(folder / "worker")
    out["vanished_image"] = lose_image(folder, pictures)
    return out
