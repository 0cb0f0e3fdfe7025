"""Doors to what is kept beside runs: caches, copies, maps and comparisons; damage changes no answer."""

import json
import os
import shutil
from contextlib import contextmanager

import numpy as np

from tests.chaos.commands import BACKBONE

SUMMARY = {
    "data": "digits",
    "methods": {
        name: {
            "chosen": {"lr": 0.001, "normalize": True},
            "seeds": {
                str(seed): {
                    **{f"recall@{k}": 90.0 + k + seed for k in (1, 4, 8, 16)},
                    "seconds": 9.25, "learning": [[10, 1.0, 80.0], [20, 2.0, 90.0 + seed]],
                }
                for seed in range(2)
            },
        }
        for name in ("but", "bh")
    },
    "floors": {"raw pixels": {f"recall@{k}": 70.0 + k for k in (1, 4, 8, 16)}},
    "settings": {"data": "digits", "batches": "balanced", "imbalance": 50.0},
}  # fmt: skip
CLASSES = tuple(f"class {i}" for i in range(6))


class KeptDoors:
    """What opens them, by a name; ``right`` has what each gives for the undamaged file."""

    def __init__(self, folder, wrong):
        self.folder, self.wrong, self.right = folder, wrong, {}

    def list(self):
        """Every door, as :class:`tests.chaos.doors.Doors` lists them."""
        kept = self.folder / "kept"
        rows = [
            (f"{kind} {path.name}", 0.2 if kind == "copy" else 1, path, False, self.same(kind, read))
            for kind, read in (
                ("decoded", self.decoded), ("features", self.features), ("copy", self.copy),
                ("map", self.map), ("comparison", self.comparison), ("old comparison", self.old_comparison),
            )
            for path in sorted((kept / kind).rglob("*"))
            if path.is_file() and path.stat().st_size and ".lance" not in str(path)
        ]  # fmt: skip
        rows.append(("classes.csv", 2, kept / "classes.csv", False, self.classes))
        rows.append(("onnx:FILE", 2, kept / "encoder.onnx", False, self.backbone))
        return rows

    def same(self, kind, read):
        """Read, and compare with what the undamaged file gave."""

        def compare(_):
            found = read()
            if kind != "old comparison" and found != self.right.setdefault(kind, found):
                raise self.wrong(kind)

        return compare

    def decoded(self):
        from bayestriplet.data.sources import open_data

        images = open_data(str(self.folder / "kept" / "images"), cache=self.folder / "kept" / "decoded")
        return images.read(range(len(images))).tobytes()

    def features(self):
        from bayestriplet.data.sources import open_data
        from bayestriplet.evaluation.encoders import load_encoder
        from bayestriplet.evaluation.features import with_features

        encoder = load_encoder(self.folder / "kept" / "model.safetensors", trusted=BACKBONE)
        images = open_data("digits", size=8).subset(np.arange(40))
        with cached(self.folder / "kept" / "features"):
            return with_features(encoder, images, 1).read(range(40)).tobytes()

    def copy(self):
        from bayestriplet.retrieval.index import Index
        from bayestriplet.retrieval.stores import open_store

        index = Index.open(self.folder / "run", str(self.folder / "kept" / "copy"))
        index.store = open_store(self.folder / "run", str(self.folder / "kept" / "copy"))
        (found,) = index.search(np.zeros((1, 8), np.float32), 3)
        return found.neighbours

    def map(self):
        """Places are those that were kept, or computed anew."""
        plain = make_places()
        found = plain.load(self.folder / "kept" / "map")
        return True if found is None else bool((found.points == 2 * plain.points).all())

    def comparison(self, name="comparison"):
        """Read what tables and figures of a comparison need."""
        from bayestriplet.evaluation.paired import rows_of
        from bayestriplet.report.methods_table import cells, describe_regime, floor_cells
        from bayestriplet.runs.comparison_folder import ComparisonFolder

        folder = ComparisonFolder(self.folder / "kept" / name)
        if name == "comparison":
            folder.claim(SUMMARY["settings"])
        summary = folder.read_summary()
        tables = cells(rows_of(summary), summary["data"]), floor_cells(summary["floors"])
        return json.dumps([tables, describe_regime(summary["settings"]), folder.read_floors("a-run")])

    def old_comparison(self):
        return self.comparison("old comparison")

    def classes(self, path):
        from bayestriplet.data.splitting import read_class_splits

        read_class_splits(path, CLASSES, path)

    def backbone(self, path):
        from bayestriplet.model.onnx_file import open_backbone, refuse_external_data

        refuse_external_data(path)
        open_backbone(path)


@contextmanager
def cached(folder):
    """Keep features in another folder than this machine's."""
    before = os.environ.get("BAYESTRIPLET_DATA")
    os.environ["BAYESTRIPLET_DATA"] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ["BAYESTRIPLET_DATA"]
        else:
            os.environ["BAYESTRIPLET_DATA"] = before


def make_places():
    from bayestriplet.service.places import Places
    from tests.service.test_places import make_sample

    return Places.along_principal_axes("v", make_sample(40))


def prepare_kept(folder, made):
    """Write a whole file of every kind."""
    from bayestriplet.runs.comparison_folder import ComparisonFolder
    from tests.data.pictures import make_folder

    kept = folder / "kept"
    make_folder(kept / "images", {"a": 6, "b": 6}, shape=(20, 20, 3))
    shutil.copytree(made.run / "index", kept / "copy")
    for name in ("model.safetensors", "encoder.onnx"):
        shutil.copy(made.run / name, kept / name)
    places = make_places()
    places.placed(2 * places.points, "umap").save(kept / "map")
    whole = ComparisonFolder(kept / "comparison")
    whole.claim(SUMMARY["settings"])
    for one in (whole, ComparisonFolder(kept / "old comparison")):
        one.path.mkdir(exist_ok=True)
        one.write_summary(SUMMARY)
        one.write_floors("a-run", SUMMARY["floors"])
    for path in (kept / "old comparison").iterdir():
        values = json.loads(path.read_text())
        del values["sha256"]
        path.write_text(json.dumps(values, indent=1))
    splits = ("train", "train", "val", "val", "test", "test")
    rows = [f"{name},{split}" for name, split in zip(CLASSES, splits, strict=True)]
    (kept / "classes.csv").write_text("class,split\n" + "\n".join(rows) + "\n")
    doors = KeptDoors(folder, AssertionError)
    for make in (doors.decoded, doors.features, doors.copy):
        make()
