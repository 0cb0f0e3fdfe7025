"""A run and indexes that version 0.1.0 made, kept as a file: they open for ever."""

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

import bayestriplet as bt
from bayestriplet.runs.splits import read_splits

FIXTURE = Path(__file__).parent.parent / "fixtures" / "run-0.1.0.tar.gz"
BACKBONE = "tests.training.networks:small"


@pytest.fixture
def old(tmp_path):
    with tarfile.open(FIXTURE) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "run"


def digit(number):
    return np.rint(load_digits().images[number] * (255 / 16)).astype(np.uint8)


@pytest.mark.parametrize("store", [None, "milvus.db"])
def test_its_indexes_are_searched(old, store):
    found = bt.Run(old).search(digit(1), k=3, store=None if store is None else str(old / store))
    assert found[0].neighbours[0].id == "scans/1/1.png"
    assert found[0].neighbours[0].distance == pytest.approx(0, abs=1e-3)
    assert max(found[0].probabilities, key=found[0].probabilities.get) == "1"


@pytest.mark.parametrize("store", [None, "milvus.db"])
def test_its_indexes_are_searched_without_a_label_and_without_a_group(old, store):
    options = {"k": 100, "store": None if store is None else str(old / store)}
    found = bt.Run(old).search(digit(1), where=["label!=1"], exclude_group="P7", **options)[0]
    everything = bt.Run(old).search(digit(1), **options)[0].neighbours
    assert [one.id for one in found.neighbours] == [one.id for one in everything if one.label != "1"]


def test_it_encodes_predicts_and_is_measured(old):
    run = bt.Run(old)
    vectors = run.encode(np.stack([digit(1), digit(2)]))
    assert run.class_probabilities(vectors).argmax(1).tolist() == [1, 2]
    found = run.evaluate(backbone=BACKBONE)
    assert found.retrieval["but"]["recall@1"].value == pytest.approx(0.8189, abs=1e-4)
    assert found.probabilities["posterior"].log_loss.value == pytest.approx(0.5478, abs=1e-3)


def test_it_is_drawn_and_exported_again_and_its_index_still_fits(old):
    drawn = bt.Run(old).figures(backbone=BACKBONE)
    assert set(drawn.paths) == {
        "umap.png", "retrieval.png", "curves.png", "classes.png", "reliability.png"
    }  # fmt: skip
    (old / "encoder.onnx").unlink()
    command = [Path(sys.executable).with_name("bayestriplet"), "export", str(old), "--backbone", BACKBONE]
    subprocess.run(command, check=True, capture_output=True)
    assert bt.Run(old).search(digit(1), k=1)[0].neighbours[0].id == "scans/1/1.png"


def test_a_training_that_it_did_not_finish_goes_on(old):
    (old / "results.json").unlink()
    shutil.rmtree(old / "index")
    run = bt.train(resume=old, backbone=BACKBONE)
    assert run.results["status"] == "finished"
    assert all(one.group == "" for one in read_splits(run.folder).values())
