"""Every door that reads a file, and a whole file for each."""

import http.client
import shutil
import subprocess
import sys

import numpy as np

from tests.chaos.commands import BACKBONE, environment, run
from tests.chaos.kept_doors import KeptDoors, prepare_kept
from tests.service.servers import make_form

FORMATS = {".png": "PNG", ".jpg": "JPEG", ".tif": "TIFF", ".bmp": "BMP", ".webp": "WEBP", ".jp2": "JPEG2000"}
CLASSES = dict(zip(FORMATS, "ababab", strict=True))
SETTINGS = {"data": "digits", "methods": ["but", "bh"], "seeds": [0, 1]}
REFUSED = 7
MILVUS = """
import sys
import numpy as np
from bayestriplet.errors import BayesTripletError
from bayestriplet.retrieval.index import Index
try:
    (answer,) = Index.open(*{place}).search(np.zeros((1, 8), np.float32), 3)
    print([one.id for one in answer.neighbours])
except BayesTripletError as error:
    print(error)
    sys.exit(7)
"""


class WrongAnswerError(Exception):
    """A damaged file was believed, and the answer is another one."""


class Doors:
    """What opens files, by a name; each returns, or raises an error of the library.

    ``address`` is that of a server of a copy of the run.
    """

    def __init__(self, folder, address):
        self.folder, self.run = folder, folder / "run"
        self.host, _, self.port = address.rpartition(":")
        self.right = self.right_of_milvus = None
        self.kept = KeptDoors(folder, WrongAnswerError)

    def list(self):
        """Every door: its share, the file that is damaged, whether a checksum tells, and what opens it.

        A further file of a run is one more row.
        """
        rows = []
        for name, read in self.of_run().items():
            rows.append(
                (f"{name}, with checksums", 3, self.folder / "run" / name, True, self.of(read, "run"))
            )
            rows.append((f"{name}, without", 2, self.folder / "old" / name, False, self.of(read, "old")))
        sums = self.folder / "run" / "checksums.json"
        rows.append(("checksums.json", 2, sums, False, self.of(self.of_run()["config.toml"], "run")))
        for name, read in self.of_data().items():
            rows.append((name, 2, self.folder / "data" / name, False, read))
        for path in sorted((self.folder / "images").rglob("image.*")):
            rows.append((f"data check {path.suffix}", 3, path, False, self.check))
            rows.append((f"index {path.suffix}", 1, path, False, self.read_set))
            rows.append((f"search {path.suffix}", 3, path, False, self.search))
            rows.append((f"service {path.suffix}", 3, path, False, self.serve))
        return rows + self.kept.list() + self.of_tables()

    def of_tables(self):
        """The files of indexes: each answer is compared with that of the undamaged table."""
        index, milvus = self.folder / "old" / "index", self.folder / "milvus.db"
        rows = [
            (f"LanceDB {path.suffix}", 2, path, path.suffix in (".lance", ".manifest"), self.index)
            for path in sorted((index / "items.lance").rglob("*"))
            if path.is_file()
        ]
        rows.append(("LanceDB checksums.json", 2, index / "checksums.json", False, self.index))
        files = [path for path in sorted(milvus.rglob("*")) if path.is_file() and path.stat().st_size]
        for path in files:
            has_sum = "collections" in path.parts and path.suffix != ".prev"
            rows.append(("Milvus", 1 / len(files), path, has_sum, self.milvus))
        return rows

    def of(self, read, name):
        return lambda _: read(self.folder / name)

    def of_run(self):
        from bayestriplet.evaluation.encoders import load_encoder
        from bayestriplet.retrieval.encoder import OnnxEncoder
        from bayestriplet.runs.folder import RunFolder
        from bayestriplet.runs.metrics import read_metrics
        from bayestriplet.runs.posterior import read_posterior
        from bayestriplet.runs.predictive import Predictive, open_predictive
        from bayestriplet.runs.splits import read_splits
        from bayestriplet.runs.teaching import Teaching
        from bayestriplet.training.checkpoint import read_step

        def predict(run):
            encoder = OnnxEncoder.open(run)
            vectors = np.zeros((1, encoder.dim), np.float32)
            open_predictive(RunFolder(run), encoder.fingerprint).predict(vectors, None)

        return {
            "config.toml": lambda run: RunFolder(run).read_config(),
            "splits.csv": lambda run: read_splits(RunFolder(run)),
            "metrics.csv": lambda run: read_metrics(run / "metrics.csv"),
            "results.json": lambda run: RunFolder(run).read_results(),
            "model.safetensors": lambda run: load_encoder(run / "model.safetensors", trusted=BACKBONE),
            "posterior.safetensors": lambda run: read_posterior(run / "posterior.safetensors"),
            "predictive.safetensors": lambda run: Predictive.load(run / "predictive.safetensors"),
            "teaching.safetensors": lambda run: Teaching.load(run / "teaching.safetensors"),
            "taught.safetensors": predict,
            "encoder.onnx": OnnxEncoder.open,
            "last.ckpt": lambda run: read_step(RunFolder(run)),
        }

    def of_data(self):
        from bayestriplet.config import make_config
        from bayestriplet.data.sources import list_vector_data, open_data
        from bayestriplet.model.backbone import _read_state
        from bayestriplet.runs.comparison_folder import ComparisonFolder
        from bayestriplet.runs.config_file import read_toml

        def vectors(path):
            return list_vector_data(f"vectors:{path}")

        return {
            "images.npz": lambda path: open_data(f"pathmnist:{path}"),
            "vectors.npz": vectors,
            "vectors.parquet": vectors,
            "slides/one.h5": lambda path: vectors(path.parent),
            "images.csv": lambda path: open_data(str(path)),
            "train.toml": lambda path: make_config(read_toml(path), str(path)),
            "weights.pth": _read_state,
            "weights.safetensors": _read_state,
            "comparison/settings.json": lambda path: ComparisonFolder(path.parent).claim(SETTINGS),
        }

    def check(self, _):
        from bayestriplet.data.audit import data_warnings
        from bayestriplet.data.sources import examine_data
        from bayestriplet.errors import DataError

        examined = examine_data(str(self.folder / "images"))
        data_warnings(examined.images, thorough=True)
        if examined.bad:
            raise DataError(examined.bad[0][1])

    def read_set(self, _):
        """Read the pictures as ``index`` does."""
        from bayestriplet.retrieval.encoder import OnnxEncoder
        from bayestriplet.retrieval.opening import open_set, read_parts

        for _part in read_parts(open_set(OnnxEncoder.open(self.run), str(self.folder / "images")), "", None):
            continue

    def search(self, path):
        from bayestriplet.retrieval.encoder import OnnxEncoder
        from bayestriplet.retrieval.queries import read_files

        read_files(OnnxEncoder.open(self.run), [path])

    def serve(self, path):
        from bayestriplet.errors import DataError

        body, kind = make_form(path.read_bytes())
        connection = http.client.HTTPConnection(self.host, int(self.port), timeout=60)
        connection.request("POST", "/api/search", body, {"content-type": kind})
        response = connection.getresponse()
        said = response.read().decode()
        connection.close()
        if response.status not in (200, 422):
            raise RuntimeError(f"{response.status} {said[:200]}")
        if response.status != 200:
            raise DataError(said)

    def index(self, _):
        """Search the table itself: without the copy for searching."""
        from bayestriplet.retrieval.index import Index

        shutil.rmtree(self.folder / "old" / "index" / "snapshot", ignore_errors=True)
        (found,) = Index.open(self.folder / "old").search(np.zeros((1, 8), np.float32), 3)
        self.right = self.right or found.neighbours
        if found.neighbours != self.right:
            raise WrongAnswerError(str(found.neighbours))

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
        self.right_of_milvus = self.right_of_milvus or done.stdout
        if done.stdout != self.right_of_milvus:
            raise WrongAnswerError(done.stdout)


def prepare(folder, made):
    """Write a whole file of every kind."""
    from PIL import Image

    from bayestriplet.data.sources import open_data
    from tests.data.pictures import noise
    from tests.data.vector_samples import write_npz

    _prepare_runs(folder, made)
    prepare_kept(folder, made)
    for suffix, kind in FORMATS.items():
        place = folder / "images" / CLASSES[suffix]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(noise(48, 48, 3)).save(place / f"image{suffix}", kind)
    data = folder / "data"
    for name in ("slides", "comparison"):
        (data / name).mkdir(parents=True)
    digits = open_data("digits", size=28)
    pixels = np.repeat(digits.read(np.arange(60)), 3, axis=-1)[..., :3]
    arrays = {}
    for split in ("train", "val", "test"):
        arrays |= {f"{split}_images": pixels, f"{split}_labels": np.arange(60)[:, None] % 9}
    np.savez(data / "images.npz", **arrays)
    write_npz(data / "vectors.npz", 10)
    _write_tables(data)
    _write_weights(data)
    rows = [f"../images/{label}/image{suffix},{label}" for suffix, label in CLASSES.items()]
    (data / "images.csv").write_text("path,label\n" + "\n".join(rows) + "\n")
    shutil.copy(made.run / "config.toml", data / "train.toml")


def _prepare_runs(folder, made):
    """A run with checksums and one without; both of them were taught."""
    from bayestriplet.retrieval.teaching import Teacher

    shutil.copytree(made.run, folder / "run")
    teacher = Teacher.open(folder / "run")
    teacher.teach(np.eye(teacher.encoder.dim, dtype=np.float32)[:3], ["new", "new", "other"])
    shutil.copytree(folder / "run", folder / "old")
    (folder / "old" / "checksums.json").unlink()
    done = run("index", folder / "run", made.scans, "--store", folder / "milvus.db")
    assert done.returncode == 0, done.stderr


def _write_tables(data):
    import h5py
    import pyarrow
    from pyarrow import parquet

    from bayestriplet.runs.comparison_folder import ComparisonFolder

    vectors = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
    columns = {"vectors": list(vectors), "labels": ["a", "b"] * 20}
    parquet.write_table(pyarrow.table(columns), data / "vectors.parquet")
    with h5py.File(data / "slides" / "one.h5", "w") as file:
        file["features"] = vectors
    ComparisonFolder(data / "comparison").claim(SETTINGS)


def _write_weights(data):
    import torch
    from safetensors.torch import save_file

    tensors = {"weight": torch.ones(4, 3), "bias": torch.zeros(4)}
    torch.save(tensors, data / "weights.pth")
    save_file(tensors, data / "weights.safetensors")
