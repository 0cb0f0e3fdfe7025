"""Teaching, feature caches and downloads that are killed at random moments, then done again."""

import hashlib
import http.server
import random
import shutil
import sys
import threading
import time

from tests.chaos.commands import environment, kill_after, run, start

CONTENT = hashlib.sha256(b"download").digest() * 60_000  # about 2 MB
FETCH = """
import sys
from pathlib import Path
from bayestriplet.data.download import fetch, keep

keep(Path(sys.argv[2]), fetch(sys.argv[1]))
"""


def kill_teaching(folder, run_folder, kills, seed):
    """Kill ``teach``: a run was taught all or nothing; done again where it was nothing, it is the same."""
    from tests.data.pictures import make_folder

    pictures = make_folder(folder / "pictures", {"stripes": 40, "dots": 40}, shape=(8, 8))
    draw, ends, wrong = random.Random(seed), {"taught": 0, "nothing": 0}, 0

    def copied(name):
        ignored = shutil.ignore_patterns("index", "maps", "*.ckpt")
        return shutil.copytree(run_folder, folder / name, ignore=ignored)

    whole = copied("whole")
    began = time.monotonic()
    done = run("teach", whole, pictures, "--only-new")
    assert done.returncode == 0, done.stderr
    took = time.monotonic() - began
    (taught,) = (path.name for path in whole.iterdir() if path.name.startswith("taught"))
    for number in range(kills):
        own = copied(f"killed-{number}")
        kill_after(start("teach", own, pictures, "--only-new"), draw.uniform(0.5, 1.0) * took)
        kept = (own / taught).is_file()
        ends["taught" if kept else "nothing"] += 1
        if not kept:
            done = run("teach", own, pictures, "--only-new")
            assert done.returncode == 0, done.stderr
        wrong += (own / taught).read_bytes() != (whole / taught).read_bytes()
    return {"kills": kills, "ends": ends, "wrong": wrong}


def kill_features(folder, kills, seed):
    """Kill trainings while they compute features: what is kept in the end are those of an undisturbed one."""
    import torch

    from bayestriplet.model.backbone import build_features
    from tests.data.pictures import make_folder

    photos = make_folder(folder / "photos", dict.fromkeys("abc", 150), shape=(72, 80, 3))
    torch.manual_seed(0)
    torch.save(build_features("resnet18", 3, 1.0)[0].state_dict(), folder / "network.pth")
    draw = random.Random(seed)

    def arguments(out):
        return ("train", photos, "--backbone", "resnet18", "--weights", folder / "network.pth", "--freeze",
                "--size", "64", "--dim", "8", "--workers", "0", "--max-steps", "2", "--out", out)  # fmt: skip

    def cached(name):
        return {**environment(), "BAYESTRIPLET_DATA": str(folder / name)}

    done = run(*arguments(folder / "whole-run"), env=cached("whole"))
    assert done.returncode == 0, done.stderr
    resumed = 0
    for number in range(kills):
        process = start(*arguments(folder / f"run-{number}"), env=cached("killed"))
        _wait_for_features(folder / "killed", process)
        kill_after(process, draw.uniform(0, 0.3))
        resumed += any((folder / "killed").rglob("*.partial"))
    done = run(*arguments(folder / "last-run"), env=cached("killed"))
    assert done.returncode == 0, done.stderr
    digests = [_digests(folder / name) for name in ("whole", "killed")]
    return {"kills": kills, "half_done": resumed, "files": len(digests[0]), "equal": digests[0] == digests[1]}


def _wait_for_features(cache, process):
    while process.poll() is None and not any(cache.rglob("*.partial")):
        time.sleep(0.02)


def _digests(folder):
    """The SHA-256 of every file but locks, by its path."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix != ".lock"
    }


class Slow(http.server.BaseHTTPRequestHandler):
    """Sends two megabytes in a second or so."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        try:
            for start_of in range(0, len(CONTENT), len(CONTENT) // 20):
                self.wfile.write(CONTENT[start_of : start_of + len(CONTENT) // 20])
                time.sleep(0.02)
        except OSError:
            return

    def log_message(self, *_):
        return


def kill_downloads(folder, kills, seed):
    """Kill downloads: the file is not there or whole; fetched again, it is whole."""
    folder.mkdir(parents=True, exist_ok=True)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/file"
    draw, path, first = random.Random(seed), folder / "cache" / "file", (sys.executable, "-c", FETCH)
    ends, wrong = {"whole": 0, "nothing": 0}, 0
    try:
        began = time.monotonic()
        assert run(address, path, first=first).returncode == 0
        took = time.monotonic() - began
        for _ in range(kills):
            path.unlink(missing_ok=True)
            kill_after(start(address, path, first=first), draw.uniform(0.2, 1.05) * took)
            ends["whole" if path.is_file() else "nothing"] += 1
            wrong += path.is_file() and path.read_bytes() != CONTENT
        path.unlink(missing_ok=True)
        assert run(address, path, first=first).returncode == 0
        wrong += path.read_bytes() != CONTENT
    finally:
        server.shutdown()
        server.server_close()
    return {"kills": kills, "ends": ends, "wrong": wrong, "umask": oct(path.stat().st_mode & 0o777)}


def measure(folder, made, seed, kills=6):
    """All of it, as figures."""
    for name in ("teach", "features", "downloads"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    return {
        "teaching": kill_teaching(folder / "teach", made.run, kills, seed),
        "features": kill_features(folder / "features", kills, seed),
        "downloads": kill_downloads(folder / "downloads", 2 * kills, seed),
    }
