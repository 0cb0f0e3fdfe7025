"""Training, measuring and searching from Python."""

import os
import stat
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image
from pydantic import ValidationError

import bayestriplet as bt
from bayestriplet.config import TrainConfig
from bayestriplet.errors import InputError, StateError
from bayestriplet.retrieval.index import Index
from bayestriplet.training.events import PhaseEvent, StepEvent, TrialEvent, ValidationEvent, WarningEvent
from tests.data.pictures import make_folder

BACKBONE = "tests.training.networks:small"
SMALL = {"backbone": BACKBONE, "dim": 8, "max_steps": 20, "validate_every": 10, "size": 8}


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("data") / "photos", {"a": 20, "b": 20, "c": 20})


@pytest.fixture(scope="module")
def trained(tmp_path_factory, photos):
    events = []
    out = tmp_path_factory.mktemp("runs") / "first"
    run = bt.train(str(photos), out=out, method="bunca", on_event=events.append, workers=0, **SMALL)
    return run, events


def test_a_training_tells_typed_events_that_print_as_lines(trained, capsys):
    _, events = trained
    steps = [event for event in events if isinstance(event, StepEvent)]
    assert [event.step for event in steps] == list(range(1, 21))
    assert {event.steps for event in steps} == {20}
    recalls = [event for event in events if isinstance(event, ValidationEvent)]
    assert [event.step for event in recalls] == [10, 20]
    phases = {event.what for event in events if isinstance(event, PhaseEvent)}
    assert {"checking images", "Validating", "Fitting the posterior", "Exporting the encoder"} <= phases
    assert str(recalls[0]) == f"step     10  validation R@1 {100 * recalls[0].recall:.1f}"
    assert str(steps[0]).startswith("step      1 of 20  loss ")
    assert str(PhaseEvent("Reading", 3, 1200)) == "Reading: 3 of 1,200"
    assert str(WarningEvent("mind this")) == "Warning: mind this"
    assert capsys.readouterr().out == ""  # without a console


def test_a_run_knows_its_classes_options_and_results(trained):
    run, _ = trained
    opened = bt.Run(run.path)
    assert opened.classes == ("a", "b", "c")
    assert (opened.config.method, opened.config.max_steps) == ("bunca", 20)
    assert opened.results["status"] == "finished"
    assert repr(opened) == f"Run({str(run.path)!r})"


def test_images_are_encoded_however_they_are_given(trained, photos):
    run, _ = trained
    paths = sorted(photos.rglob("*.png"))
    expected = run.encode(photos)
    assert (expected.shape, expected.dtype) == ((60, 8), np.float32)
    some = [np.asarray(Image.open(path)) for path in paths[:3]]
    for given in (
        paths[:3], [str(path) for path in paths[:3]], np.stack(some), some,
        [Image.open(path) for path in paths[:3]],
    ):  # fmt: skip
        np.testing.assert_allclose(run.encode(given), expected[:3], atol=1e-6)
    with Image.open(paths[0]) as opened:
        np.testing.assert_allclose(run.encode(opened), expected[:1], atol=1e-6)
    np.testing.assert_allclose(run.encode(str(paths[0])), expected[:1], atol=1e-6)


def test_vectors_are_those_that_the_index_holds(trained, photos):
    run, _ = trained
    change = run.index(str(photos))
    assert (change.added, change.removed) == (60, 0)
    assert str(change).startswith("60 added, 0 replaced, 0 removed, 0 unchanged")
    stored = Index.open(run.path).store.find(["photos/a/0.png"])["photos/a/0.png"]
    np.testing.assert_allclose(stored.vector, run.encode(photos / "a" / "0.png")[0], atol=1e-6)
    found = run.search(photos / "a" / "0.png", k=5)
    assert len(found) == 1
    assert found[0].neighbours[0].id == "photos/a/0.png"
    assert "rank  label" in str(found)


def test_probabilities_are_in_the_order_of_the_classes(trained, photos):
    run, _ = trained
    vectors = run.encode(photos)
    found = run.class_probabilities(vectors)
    assert (found.shape, found.dtype.kind) == ((60, 3), "f")
    np.testing.assert_allclose(found.sum(1), 1)
    labels = np.repeat(np.arange(3), 20)
    assert (found.argmax(1) == labels).mean() > 0.5
    assert run.novelty(vectors).shape == (60,)


def test_a_run_without_a_predictive_says_so(trained, tmp_path):
    run, _ = trained
    (tmp_path / "encoder.onnx").write_bytes(run.folder.encoder.read_bytes())
    with pytest.raises(StateError, match=r"predictive.safetensors is missing: train again"):
        bt.Run(tmp_path).class_probabilities(np.zeros((1, 8)))


def test_results_are_data_that_print_as_the_commands_tables(trained):
    run, _ = trained
    found = run.evaluate(backbone=BACKBONE)
    assert 0 <= found.retrieval["bunca"]["recall@1"].value <= 1
    lines = str(found).splitlines()
    assert lines[0] == "9 test items of photos among the test items"
    assert any(line.startswith(" raw pixels") for line in lines)
    assert any(line.startswith(" kNN vote") for line in lines)


def test_figures_are_drawn_into_the_run(trained):
    run, _ = trained
    drawn = run.figures(backbone=BACKBONE)
    assert drawn.paths["umap.png"] == run.path / "figures" / "umap.png"
    assert all(path.is_file() for path in drawn.paths.values())


def test_a_comparison_returns_its_table_and_writes_it(tmp_path, photos):
    events = []
    table = bt.compare(
        str(photos), out=tmp_path / "out", methods=["but", "bh"], seeds=2, tune=False,
        on_event=events.append, **SMALL,
    )  # fmt: skip
    assert {row.method for row in table.rows} == {"but", "bh"}
    assert table.seeds == 2
    assert "test recall in percent, 2 seeds, best first" in str(table)
    measured = "Queries: the test items; gallery: the other test items"
    assert measured in str(table).splitlines()
    assert (tmp_path / "out" / "table.md").read_text().endswith(f"|\n\n{measured}.\n")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"table.md", "table.csv", "recall.png", "learning.png", "comparison.json"} <= names
    made = [event for event in events if isinstance(event, TrialEvent) and event.results is not None]
    assert len(made) == 4
    again = bt.compare(
        str(photos), out=tmp_path / "out", methods=["but", "bh"], seeds=[0, 1], tune=False, **SMALL
    )
    assert again == table


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "nca", "margin": 0.1}, "nca has no margin; it takes a temperature"),
        ({"method": "bhh"}, "there is no method 'bhh'; did you mean 'bh'"),
        ({"max_stpes": 3}, "unknown option 'max_stpes'; did you mean 'max_steps'"),
        ({"out": None}, "--out is missing"),
    ],
)
def test_what_the_command_refuses_python_refuses_in_the_same_words(options, message, tmp_path):
    with pytest.raises(InputError, match=message):
        bt.train("digits", **{"out": tmp_path / "run"} | options)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "values",
    [
        {"method": "nca", "margin": 0.1},
        {"method": "but", "temperature": 0.1},
        {"method": "bsh", "margin": 0},
        {"method": "ba", "draw_classes": 3},
        {"method": "ba", "loss_rate": 3.0},
        {"width": 0.3},
        {"method": "hb"},
        {"nonsense": 1},
    ],
    ids=str,
)
def test_a_config_refuses_what_the_command_line_refuses(values):
    with pytest.raises(ValidationError):
        TrainConfig(data="digits", **values)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"methods": ["hb"]}, "methods must be one of .*; got 'hb'"),
        ({"methods": ["bh", "bh"]}, "methods must name different ones"),
        ({"methods": []}, "methods must name different ones; got none"),
        ({"seeds": 0}, "seeds must be at least 1; got 0"),
        ({"seeds": [1, 1]}, "seeds must hold different numbers"),
    ],
)
def test_a_comparison_of_nothing_is_refused(options, message, tmp_path):
    with pytest.raises(InputError, match=message):
        bt.compare("digits", out=tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(InputError, match="no such run"):
        bt.Run(tmp_path / "none")
    with pytest.raises(InputError, match=r"has no encoder.onnx"):
        bt.Run(tmp_path).classes  # noqa: B018


def test_encoding_indexing_searching_predicting_and_teaching_need_no_torch(trained, photos, tmp_path):
    run, _ = trained
    code = f"""
import sys
import bayestriplet as bt
run = bt.Run({str(run.path)!r})
vectors = run.encode({str(photos)!r})
run.index({str(photos)!r})
print(run.search({str(photos / "a" / "0.png")!r}, k=3))
print(run.class_probabilities(vectors).shape, run.predict({str(photos)!r}), run.classes)
run.embed({str(photos)!r}).save(__import__("pathlib").Path({str(tmp_path / "v.npz")!r}))
few = {str(photos / "a")!r}
print(run.teach(few, "new"), run.novelty(few), run.forget("new"))
assert "torch" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_run_on_12_bit_files_reads_its_queries_as_it_was_trained(tmp_path):
    rng = np.random.default_rng(0)
    for k, level in enumerate((500, 2000, 4095)):
        (tmp_path / "scans" / f"class{k}").mkdir(parents=True)
        for i in range(14):
            values = rng.integers(level // 2, level + 1, (8, 8)).astype(np.uint16)
            Image.fromarray(values).save(tmp_path / "scans" / f"class{k}" / f"{i}.png")
    events = []
    run = bt.train(
        str(tmp_path / "scans"), out=tmp_path / "run", workers=0, on_event=events.append, **SMALL
    )  # fmt: skip
    notes = [event.text for event in events if isinstance(event, WarningEvent) and event.is_note]
    assert notes == ["16-bit files hold 12 bits and are scaled by these"]
    assert run.encoder.info.bits == 12
    query = tmp_path / "scans" / "class2" / "0.png"
    values = np.asarray(Image.open(query)).astype(np.float64)
    eight = np.rint(values * 255 / 4095).astype(np.uint8)
    np.testing.assert_allclose(run.encode(query), run.encode(eight), atol=1e-2)
    with Image.open(query) as opened:
        np.testing.assert_allclose(run.encode(opened), run.encode(query), atol=1e-6)
    assert run.index(str(tmp_path / "scans")).added == 42
    assert run.search(query, k=1)[0].neighbours[0].distance == pytest.approx(0, abs=1e-4)


def test_files_of_a_run_have_the_rights_that_the_umask_allows(tmp_path):
    before = os.umask(0o077)
    try:
        run = bt.train("digits", out=tmp_path / "run", **SMALL)
        run.figures(backbone=BACKBONE)
    finally:
        os.umask(before)
    files = [path for path in run.path.rglob("*") if path.is_file()]
    assert {"splits.csv", "model.safetensors", "encoder.onnx", "umap.png"} <= {path.name for path in files}
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
