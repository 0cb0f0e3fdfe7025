"""Files that were damaged at random, through every door that reads them.

    python -m tests.chaos.hostile FOLDER SEED FIRST COUNT

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

from tests.chaos.commands import BACKBONE, environment, run

SECONDS = 5  # that a file may take
MOST_MEGABYTES = 2000  # of a process
FORMATS = {".png": "PNG", ".jpg": "JPEG", ".tif": "TIFF", ".bmp": "BMP", ".webp": "WEBP", ".jp2": "JPEG2000"}
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


REFUSED = 7
MILVUS = """
import sys
import numpy as np
from bayestriplet.errors import BayesTripletError
from bayestriplet.retrieval.index import Index
try:
    Index.open(*{place}).search(np.zeros((1, 8), np.float32), 3)
except BayesTripletError as error:
    print(error)
    sys.exit(7)
"""


class Doors:
    """What opens files, by a name; each returns, or raises an error of the library."""

    def __init__(self, folder):
        self.folder, self.run = folder, folder / "run"
        self.decoders = None

    def list(self):
        """Every door: its share, the file that is damaged, whether a checksum tells, and what opens it.

        A further file of a run is one more row.
        """
        from bayestriplet.evaluation.encoders import load_encoder
        from bayestriplet.retrieval.encoder import OnnxEncoder
        from bayestriplet.runs.folder import RunFolder
        from bayestriplet.runs.metrics import read_metrics
        from bayestriplet.runs.posterior import read_posterior
        from bayestriplet.runs.predictive import Predictive
        from bayestriplet.runs.splits import read_splits
        from bayestriplet.training.checkpoint import read_step

        files = {
            "config.toml": lambda run: RunFolder(run).read_config(),
            "splits.csv": lambda run: read_splits(RunFolder(run)),
            "metrics.csv": lambda run: read_metrics(run / "metrics.csv"),
            "results.json": lambda run: RunFolder(run).read_results(),
            "model.safetensors": lambda run: load_encoder(run / "model.safetensors", trusted=BACKBONE),
            "posterior.safetensors": lambda run: read_posterior(run / "posterior.safetensors"),
            "predictive.safetensors": lambda run: Predictive.load(run / "predictive.safetensors"),
            "encoder.onnx": OnnxEncoder.open,
            "last.ckpt": lambda run: read_step(RunFolder(run)),
        }
        rows = []
        for name, read in files.items():
            rows.append(
                (f"{name}, with checksums", 3, self.folder / "run" / name, True, self.of(read, "run"))
            )
            rows.append((f"{name}, without", 2, self.folder / "old" / name, False, self.of(read, "old")))
        for name, read in self.of_data().items():
            rows.append((name, 2, self.folder / "data" / name, False, read))
        for path in sorted((self.folder / "images").iterdir()):
            rows.append((f"data check {path.suffix}", 4, path, False, self.check))
            rows.append((f"search {path.suffix}", 2, path, False, self.search))
            rows.append((f"service {path.suffix}", 2, path, False, self.serve))
        rows += [
            (f"LanceDB {path.suffix}", 1, path, path.suffix in (".lance", ".manifest"), self.index)
            for path in sorted((self.folder / "old" / "index" / "items.lance").rglob("*"))
            if path.is_file()
        ]
        rows += [
            ("Milvus", 0.05, path, False, self.milvus)
            for path in sorted((self.folder / "milvus.db").rglob("*"))
            if path.is_file() and path.stat().st_size
        ]
        return rows

    def of(self, read, name):
        return lambda _: read(self.folder / name)

    def of_data(self):
        from bayestriplet.config import make_config, read_toml
        from bayestriplet.data.sources import list_vector_data, open_data

        return {
            "images.npz": lambda path: open_data(f"pathmnist:{path}"),
            "vectors.npz": lambda path: list_vector_data(f"vectors:{path}"),
            "vectors.parquet": lambda path: list_vector_data(f"vectors:{path}"),
            "images.csv": lambda path: open_data(str(path)),
            "train.toml": lambda path: make_config(read_toml(path), str(path)),
        }

    def check(self, path):
        from bayestriplet.data.images import problem

        problem(path)

    def search(self, path):
        from bayestriplet.retrieval.encoder import OnnxEncoder
        from bayestriplet.retrieval.queries import read_files

        read_files(OnnxEncoder.open(self.run), [path])

    def serve(self, path):
        from bayestriplet.retrieval.encoder import OnnxEncoder
        from bayestriplet.service.decoding import Decoders

        self.decoders = self.decoders or Decoders(1)
        self.decoders.decode(path.read_bytes(), OnnxEncoder.open(self.run).info)

    def index(self, _):
        from bayestriplet.retrieval.index import Index

        shutil.rmtree(self.folder / "old" / "index" / "snapshot", ignore_errors=True)
        Index.open(self.folder / "old").search(np.zeros((1, 8), np.float32), 3)

    def milvus(self, _):
        from bayestriplet.errors import InputError

        # A process of its own: the server of Milvus Lite keeps what it has read.
        place = repr([str(self.run), str(self.folder / "milvus.db")])
        done = subprocess.run(
            [sys.executable, "-c", MILVUS.format(place=place)], env=environment(), capture_output=True,
            text=True, timeout=60,
        )  # fmt: skip
        if done.returncode == REFUSED:
            raise InputError(done.stdout.strip())
        if done.returncode:
            raise RuntimeError(done.stderr[-250:])


def prepare(folder, made):
    """Write a whole file of every kind."""
    from PIL import Image

    from bayestriplet.data.sources import open_data
    from tests.data.pictures import noise
    from tests.data.vector_samples import write_npz

    for name in ("run", "old"):
        shutil.copytree(made.run, folder / name)
    (folder / "old" / "checksums.json").unlink()
    done = run("index", folder / "run", made.scans, "--store", folder / "milvus.db")
    assert done.returncode == 0, done.stderr
    (folder / "images").mkdir()
    for suffix, kind in FORMATS.items():
        image = Image.fromarray(noise(48, 48, 3))
        image.save(folder / "images" / f"image{suffix}", kind)
    data = folder / "data"
    data.mkdir()
    digits = open_data("digits", size=28)
    pixels = np.repeat(digits.read(np.arange(60)), 3, axis=-1)[..., :3]
    arrays = {}
    for split in ("train", "val", "test"):
        arrays |= {f"{split}_images": pixels, f"{split}_labels": np.arange(60)[:, None] % 9}
    np.savez(data / "images.npz", **arrays)
    write_npz(data / "vectors.npz", 10)
    _write_parquet(data / "vectors.parquet")
    rows = [f"../images/image{suffix},{label}" for suffix, label in zip(FORMATS, "ababab", strict=True)]
    (data / "images.csv").write_text("path,label\n" + "\n".join(rows) + "\n")
    shutil.copy(made.run / "config.toml", data / "train.toml")


def _write_parquet(path):
    import pyarrow
    from pyarrow import parquet

    vectors = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
    columns = {"vectors": list(vectors), "labels": ["a", "b"] * 20}
    parquet.write_table(pyarrow.table(columns), path)


def open_damaged(folder, seed, first, count):
    """Open so many damaged files and print what became of each."""
    from bayestriplet.errors import BayesTripletError

    warnings.simplefilter("ignore")
    rows = Doors(folder).list()
    shares = np.array([row[1] for row in rows], float)
    originals, ran = {row[2]: row[2].read_bytes() for row in rows}, []
    for name, _, path, _, door in rows if first == 0 else ():
        try:  # a door that refuses the file as it was would prove nothing
            door(path)
        except Exception as error:
            raise AssertionError(f"{name} does not open the undamaged file: {error}") from error
    for number in range(first, first + count):
        draw = np.random.default_rng((seed, number))
        name, _, path, has_sum, door = rows[draw.choice(len(rows), p=shares / shares.sum())]
        content = mutate(originals[path], draw)
        print(json.dumps({"number": number, "door": name, "what": "begun"}), flush=True)
        path.write_bytes(content)
        if not ran:
            sys.addaudithook(lambda event, _: ran.append(event) if event in EVENTS else None)
            ran.append("watching")
        before = len(ran)
        signal.setitimer(signal.ITIMER_REAL, 12 * SECONDS if name == "Milvus" else SECONDS)
        try:
            door(path)
            what = "believed" if has_sum and content != originals[path] else "opened"
        except BayesTripletError as error:
            what = "refused" if "\n" not in str(error) else "several lines"
        except BaseException as error:
            what = f"traceback: {type(error).__name__}: {error}"[:300]
        signal.setitimer(signal.ITIMER_REAL, 0)
        if len(ran) > before and not name.startswith(("service", "Milvus")):  # which start processes
            what = f"ran {ran[before]}"
        path.write_bytes(originals[path])
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(json.dumps({"number": number, "door": name, "what": what, "megabytes": peak}), flush=True)


def measure(folder, seed, mutations=5000, made=None):
    """Damaged files in processes of their own; what they made of them, as figures."""
    from tests.chaos.runs import make_run

    folder.mkdir(exist_ok=True)
    prepare(folder, made or make_run(folder / "made"))
    counts, doors, defects, peak, first, panics = {}, {}, [], 0, 0, 0
    while first < mutations:
        command = [sys.executable, "-m", "tests.chaos.hostile", folder, seed, first, mutations - first]
        done = subprocess.run([*map(str, command)], env=environment(), capture_output=True, text=True)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        ended = [one for one in lines if one["what"] != "begun"]
        for one in ended:
            kind = one["what"].split(":")[0]
            counts[kind] = counts.get(kind, 0) + 1
            own = doors.setdefault(one["door"], {})
            own[kind] = own.get(kind, 0) + 1
            peak = max(peak, one["megabytes"])
            if kind not in ("opened", "refused"):
                defects.append(one)
        panics += done.stderr.count("panicked at") + done.stderr.count("Traceback (most recent call last)")
        if not lines:
            raise AssertionError(done.stderr[-3000:])
        if len(lines) > 2 * len(ended):  # the last one has ended its process
            kind = "hang" if done.returncode == -signal.SIGALRM else f"ended by {-done.returncode}"
            counts[kind] = counts.get(kind, 0) + 1
            defects.append({**lines[-1], "what": kind})
            _restore(folder, made or _made_of(folder))
        first = lines[-1]["number"] + 1
    return {
        "mutations": mutations, "found": counts, "peak_megabytes": peak, "panics_on_stderr": panics,
        "defects": defects[:50], "doors": dict(sorted(doors.items())),
    }  # fmt: skip


def _made_of(folder):
    from tests.chaos.runs import Made

    return Made(folder / "made" / "run", folder / "made" / "scans")


def _restore(folder, made):
    """Write all files anew after a process ended with one of them damaged."""
    for name in ("run", "old", "images", "data", "milvus.db"):
        shutil.rmtree(folder / name, ignore_errors=True)
    prepare(folder, made)


if __name__ == "__main__":
    open_damaged(Path(sys.argv[1]), *map(int, sys.argv[2:]))
