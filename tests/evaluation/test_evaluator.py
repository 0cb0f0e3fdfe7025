import json

import numpy as np
import pytest
from sklearn.datasets import load_digits

import bayestriplet as bt
from bayestriplet.errors import InputError
from bayestriplet.evaluation.evaluator import Evaluator
from tests.cli.test_app import run as command
from tests.data.pictures import make_folder

BACKBONE = "tests.training.networks:small"


def write_npz(path, classes):
    """Write digits in MedMNIST's form, the items of each split of the classes named for it."""
    found = load_digits()
    pixels = np.rint(found.images * (255 / 16)).astype(np.uint8)
    arrays = {}
    for part, (split, chosen) in enumerate(classes.items()):
        rows = np.flatnonzero(np.isin(found.target, chosen))[part::3]
        arrays |= {f"{split}_images": pixels[rows], f"{split}_labels": found.target[rows]}
    np.savez(path, **arrays)
    return str(path)


@pytest.fixture(scope="module")
def unseen(tmp_path_factory):
    """A run whose test items are of classes that it was never trained on."""
    folder = tmp_path_factory.mktemp("unseen")
    data = write_npz(folder / "digits.npz", {"train": range(6), "val": range(6), "test": range(6, 10)})
    return bt.train(data, out=folder / "run", backbone=BACKBONE, dim=8, max_steps=20, validate_every=10)


@pytest.mark.parametrize("gallery", [None, "train"])
def test_retrieval_is_measured_among_classes_never_trained_on_and_probabilities_are_left_out(unseen, gallery):
    found = unseen.evaluate(gallery=gallery, backbone=BACKBONE)
    assert found.probabilities is found.novelty is None
    left_out = "No probabilities: none of the test items is of a class that was trained on."
    nowhere = (
        "Not measured against the training items: none of the test items is of a class that was trained on."
    )
    assert found.notes == ((nowhere, left_out) if gallery is None else (left_out,))
    recall = found.retrieval["bunca"]["recall@1"].value
    assert recall > 0.5 if gallery is None else recall == 0
    assert found.note in str(found)


def test_the_command_says_the_same_as_text_and_as_json(unseen):
    done = command("evaluate", unseen.path, "--backbone", BACKBONE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == (
        "No probabilities: none of the test items is of a class that was trained on."
    )
    done = command("evaluate", unseen.path, "--backbone", BACKBONE, "--json")
    assert done.returncode == 0, done.stderr
    whole = json.loads(done.stdout)
    assert whole["probabilities"] is None
    assert whole["retrieval"]["bunca"]["recall@1"]["value"] > 0.5


def test_no_reliability_is_drawn_of_classes_never_trained_on(unseen, tmp_path):
    drawn = unseen.figures(tmp_path / "figures", backbone=BACKBONE)
    assert "reliability.png" not in drawn.paths
    assert not (tmp_path / "figures" / "reliability.png").exists()
    assert drawn.note == "No reliability.png: none of the test items is of a class that was trained on."
    assert str(drawn).endswith(drawn.note)


def test_validation_items_of_classes_never_trained_on_leave_nothing_to_choose_by(tmp_path):
    data = write_npz(tmp_path / "d.npz", {"train": range(6), "val": range(6, 8), "test": range(6)})
    run = bt.train(data, out=tmp_path / "run", backbone=BACKBONE, dim=8, max_steps=4, validate_every=2)
    found = run.evaluate(backbone=BACKBONE)
    assert found.note == "No probabilities: none of the validation items is of a class that was trained on."


def test_with_some_classes_never_trained_on_the_others_have_probabilities(tmp_path):
    data = write_npz(tmp_path / "d.npz", {"train": range(6), "val": range(6), "test": range(10)})
    run = bt.train(data, out=tmp_path / "run", backbone=BACKBONE, dim=8, max_steps=20, validate_every=10)
    found = run.evaluate(backbone=BACKBONE)
    measured = Evaluator(run.path, backbone=BACKBONE)
    images, _ = measured.open(run.config.data)
    assert len(measured.embed_splits(images).test.labels) < len(images.indices("test"))
    assert found.probabilities["posterior"].accuracy.value > 0.6
    assert "reliability.png" in run.figures(tmp_path / "figures", backbone=BACKBONE).paths


def test_other_data_can_be_split_by_classes_and_the_runs_own_keep_their_splits(unseen, tmp_path):
    photos = make_folder(tmp_path / "other", dict.fromkeys("abcdefg", 6), shape=(8, 8))
    run = unseen
    found = run.evaluate(str(photos), split_by="class", backbone=BACKBONE)
    assert found.gallery.resampled == "classes"
    assert (
        found.gallery.queries
        < run.evaluate(str(photos), split="train", split_by="class", backbone=BACKBONE).gallery.queries
    )
    with pytest.raises(InputError, match="keeps its splits: --split-by is for other data"):
        run.evaluate(split_by="class", backbone=BACKBONE)
