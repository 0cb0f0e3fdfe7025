"""Runs on vectors: trained, measured, drawn, indexed and searched without any image."""

import json
import signal

import numpy as np
import onnx
import pytest
import torch
from typer.testing import CliRunner

import bayestriplet as bt
from bayestriplet.cli.app import app
from bayestriplet.config import make_config
from bayestriplet.data.sources import open_data
from bayestriplet.errors import InputError, InputTypeError
from bayestriplet.evaluation.encoders import load_encoder
from bayestriplet.model.info import EncoderInfo
from bayestriplet.runs.encoder_files import fingerprint
from bayestriplet.training import trials
from tests.data.pictures import make_folder
from tests.data.vector_samples import NAMES, digit_vectors, write_npz

OPTIONS = {"dim": 16, "max_steps": 100, "validate_every": 50}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return tmp_path_factory.mktemp("vectors")


@pytest.fixture(scope="module")
def data(files):
    ids = np.array([f"digit{i}" for i in range(300)])
    return write_npz(files / "digits.npz", 30, ids=ids, groups=np.arange(300) % 30, source="pixels")


@pytest.fixture(scope="module")
def run(data, files):
    found = bt.train(data, out=files / "run", split_by="item", **OPTIONS)
    found.index(data)
    return found


def call(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def refused(*words):
    """Return the error of a command, which is one line."""
    done = call(*words)
    assert isinstance(done.exception, bt.BayesTripletError), done.output
    assert "\n" not in str(done.exception)
    return str(done.exception)


def test_a_head_is_trained_on_vectors(run, data):
    config, info = run.config, load_encoder(run.folder.model).info
    assert (config.data, config.backbone, config.freeze, config.head) == (data, "vectors", True, "linear")
    assert (info.backbone, info.inputs, info.source, info.head) == ("vectors", 64, "pixels", "linear")
    assert run.results["input"] == "vectors of length 64, from pixels"
    assert set(run.results["test"]) == {"bunca", "vectors as given"}
    names = ("posterior.safetensors", "predictive.safetensors", "encoder.onnx", "splits.csv", "metrics.csv")
    assert all((run.path / name).is_file() for name in names)
    rows = (run.path / "splits.csv").read_text().splitlines()
    assert rows[0] == "id,label,split,group"
    assert len(rows) == 301
    assert rows[1].startswith("digit0,zero,")


def test_the_onnx_file_takes_vectors_and_is_the_network(run):
    vectors, _ = digit_vectors()
    graph = onnx.load(run.folder.encoder).graph
    assert [one.name for one in (*graph.input, *graph.output)] == ["vectors", "embeddings"]
    assert graph.input[0].type.tensor_type.shape.dim[1].dim_value == 64
    with torch.no_grad():
        expected = load_encoder(run.folder.model)(torch.from_numpy(vectors)).numpy()
    assert np.allclose(run.encode(vectors), expected, atol=1e-5)
    assert np.allclose(run.encode(vectors.astype(np.float16)), expected, atol=1e-3)
    assert run.encode(vectors[0]).shape == (1, 16)
    assert np.allclose(run.encode(vectors[:3].tolist()), expected[:3], atol=1e-5)
    with pytest.raises(InputError, match="needs vectors of length 64"):
        run.encode(expected[:3].tolist())  # embeddings are no vectors of the model


def test_the_training_is_that_of_a_frozen_network_with_these_features(run, data, files):
    again = bt.train(data, out=files / "again", split_by="item", **OPTIONS)
    names = ("model.safetensors", "posterior.safetensors", "encoder.onnx", "splits.csv")
    assert all((run.path / name).read_bytes() == (again.path / name).read_bytes() for name in names)
    larger = bt.train(data, out=files / "mlp", split_by="item", head="mlp", **OPTIONS)
    assert load_encoder(larger.folder.model).info.head == "mlp"


def test_a_run_that_was_stopped_goes_on_to_the_same_end(run, data, files):
    stopped = files / "stopped"

    def stop(event):
        if getattr(event, "step", 0) == 60:
            signal.raise_signal(signal.SIGTERM)

    part = bt.train(data, out=stopped, split_by="item", on_event=stop, **OPTIONS)
    assert (part.results["status"], part.results["steps"]) == ("interrupted", 60)
    done = bt.train(resume=stopped)
    assert done.results["steps"] == 100
    assert done.folder.model.read_bytes() == run.folder.model.read_bytes()


def test_a_linear_head_begins_at_the_principal_components_of_the_training_vectors(data, files):
    begun = bt.train(data, out=files / "begun", split_by="item", dim=6, max_steps=1, lr=1e-12)
    images = open_data(data, split_by="item")
    given = {split: images.read(images.indices(split)).astype(np.float64) for split in ("train", "test")}
    center = given["train"].mean(0)
    directions = np.linalg.svd(given["train"] - center, full_matrices=False)[2][:6]
    components = (given["test"] - center) @ directions.T
    expected = components / np.linalg.norm(components, axis=1, keepdims=True)
    found = begun.encode(given["test"].astype(np.float32))
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-3)  # whatever the signs
    labels = images.labels[images.indices("test")]
    shown = begun.results["test"]["bunca"]["recall@1"]["value"]
    assert shown == pytest.approx(bt.recall_at_k(expected, labels, (1,))[1])
    head = load_encoder(begun.folder.model).head
    with torch.no_grad():
        lengths = head(torch.from_numpy(given["train"]).float()).norm(dim=1)
    assert lengths.mean() == pytest.approx(64, rel=1e-3)


def test_a_run_whose_head_begins_elsewhere_is_another_run_of_a_comparison(data, monkeypatch):
    options = {"data": data, "backbone": "vectors", "freeze": True}
    configs = {head: make_config(options | {"head": head}, "test") for head in ("linear", "mlp")}
    text = {head: [] for head in configs}
    for head, config in configs.items():
        monkeypatch.setattr(
            trials.json, "dumps", lambda values, head=head, **_: text[head].append(values) or ""
        )
        assert trials.Trial(config).name
    assert text["linear"][0]["start"] == "principal components"
    assert "start" not in text["mlp"][0]


def test_an_mlp_head_begins_at_random_and_more_dimensions_than_vectors_can_be_asked_for(data, files):
    for name, options in (("mlp", {"head": "mlp", "dim": 6}), ("long", {"dim": 300})):
        one, two = (
            bt.train(data, out=files / f"{name}{seed}", split_by="item", max_steps=1, seed=seed, **options)
            for seed in (0, 1)
        )
        rows = [list(load_encoder(run.folder.model).head.parameters())[-2] for run in (one, two)]
        assert not torch.allclose(rows[0][-1], rows[1][-1], atol=1e-2)


def test_evaluate_measures_it_on_its_own_and_on_other_vectors(run, files):
    found = run.evaluate()
    assert set(found.retrieval) == {"bunca", "vectors as given"}
    assert found.probabilities["posterior"].accuracy.value > 0.8
    other = write_npz(files / "other.npz", 12)
    done = call("evaluate", run.path, "--data", other, "--split", "all", "--gallery", "train")
    assert done.exit_code == 0, done.output
    assert "vectors as given" in done.output
    assert "raw pixels" not in done.output


def test_novelty_is_measured_of_classes_held_out(data, files):
    run = bt.train(data, out=files / "without", split_by="item", without="nine", **OPTIONS)
    assert run.evaluate().novelty["posterior"] > 0.5


@pytest.mark.parametrize("split_by", ["group", "class"])
def test_it_is_split_by_what_is_asked_for(data, files, split_by):
    run = bt.train(data, out=files / f"by-{split_by}", split_by=split_by, **OPTIONS)
    rows = [line.split(",") for line in (run.path / "splits.csv").read_text().splitlines()[1:]]
    column = {"group": 3, "class": 1}[split_by]
    assert len({(row[column], row[2]) for row in rows}) == {"group": 30, "class": 10}[split_by]
    assert run.evaluate().retrieval["bunca"]["recall@1"].value > 0.3


def test_compare_trains_methods_on_vectors(data, files):
    table = bt.compare(
        data, out=files / "comparison", methods=["but", "bh"], seeds=1, tune=False, split_by="item", **OPTIONS
    )
    assert "vectors as given" in str(table)
    assert "raw pixels" not in str(table)
    assert {row.method for row in table.rows} == {"but", "bh"}


def test_figures_leave_out_what_needs_pictures(run):
    drawn = run.figures()
    assert set(drawn.paths) == {"umap.png", "curves.png", "classes.png", "reliability.png"}
    assert str(drawn).endswith("No retrieval.png: the items are vectors, which have no pictures.")


@pytest.mark.parametrize(
    ("option", "name"),
    [
        (["--augment"], "augment"), (["--size", "32"], "size"), (["--weights", "imagenet"], "weights"),
        (["--from-scratch"], "from_scratch"), (["--freeze"], "freeze"), (["--width", "0.5"], "width"),
        (["--backbone", "resnet18"], "backbone"), (["--skip-bad"], "skip_bad"),
    ],
)  # fmt: skip
def test_options_of_images_are_refused(data, tmp_path, option, name):
    message = refused("train", data, "--out", tmp_path / "run", *option)
    assert f"{name} is for images, and {data} holds vectors: leave it out" in message
    assert not (tmp_path / "run").exists()


def test_a_backbone_of_vectors_needs_vectors():
    assert "backbone vectors is for vectors:FILE; digits is no such data" in refused(
        "train", "digits", "--out", "run", "--backbone", "vectors"
    )


def test_vectors_of_another_length_are_refused_everywhere(run, files):
    path = files / "short.npz"
    short = write_npz(path, vectors=digit_vectors()[0][:, :32])
    message = f"the run needs vectors of length 64 (from pixels); {path} has 32"
    for words in (["evaluate", run.path, "--data", short], ["figures", run.path, "--data", short],
                  ["index", run.path, short], ["search", run.path, f"{short}#3"],
                  ["embed", run.path, short, "--out", files / "e.npz"]):  # fmt: skip
        assert refused(*words) == message
    with pytest.raises(InputError, match=r"needs vectors of length 64 \(from pixels\); an array of shape"):
        run.encode(np.zeros((3, 32), np.float32))
    with pytest.raises(InputError, match="needs vectors of length 64"):
        run.search(np.zeros((3, 32), np.float32))


def test_images_for_a_run_on_vectors_and_the_reverse_are_refused(run, data, digits_run, tmp_path):
    photos = make_folder(tmp_path / "photos", {"a": 3, "b": 3})
    for words in (["evaluate", run.path, "--data", photos], ["index", run.path, "digits"],
                  ["embed", run.path, photos, "--out", tmp_path / "e.npz"]):  # fmt: skip
        assert "the run needs vectors of length 64 (from pixels), not images: give vectors:FILE" in refused(
            *words
        )
    image = next((photos / "a").iterdir())
    assert "give vectors:FILE, or the id of an indexed item; got" in refused("search", run.path, image)
    with pytest.raises(InputTypeError, match="needs vectors of length 64"):
        run.encode(np.zeros((2, 8, 8), np.uint8))
    code = ["--backbone", "tests.training.networks:small"]
    for words in (["evaluate", digits_run, "--data", data, *code], ["index", digits_run, data],
                  ["embed", digits_run, data, "--out", tmp_path / "e.npz"]):  # fmt: skip
        assert f"the run needs images; {data} holds vectors" in refused(*words)
    with pytest.raises(InputError, match=r"the run needs images; .* names vectors"):
        bt.Run(digits_run).encode(data)


def test_search_takes_files_rows_ids_and_items(run, data):
    done = call("search", run.path, f"{data}#7", "-k", 3)
    assert done.exit_code == 0, done.output
    assert done.output.startswith("digit7: zero, ")
    by_id = json.loads(call("search", run.path, f"{data}#digit7", "-k", 3, "--json").output)
    by_row = json.loads(call("search", run.path, f"{data}#7", "-k", 3, "--json").output)
    item = json.loads(call("search", run.path, "digits/digit7", "-k", 3, "--json").output)
    assert by_id == by_row
    assert by_id["neighbours"] == item["neighbours"]
    assert "digits/digit7" not in [one["id"] for one in by_id["neighbours"]]  # nor others of its group
    own = json.loads(call("search", run.path, f"{data}#7", "-k", 3, "--json", "--exclude-group", "").output)
    assert (own["neighbours"][0]["id"], own["excluded_group"]) == ("digits/digit7", None)
    others = json.loads(
        call("search", run.path, f"{data}#7", "--json", "--exclude-self", "--exclude-group", "").output
    )
    assert "digits/digit7" not in [one["id"] for one in others["neighbours"]]
    every = json.loads(call("search", run.path, data, "-k", 1, "--json").output)
    assert len(every) == 300
    assert "has no vector '999': name an id, or a row of 0 to 299" in refused(
        "search", run.path, f"{data}#999"
    )
    assert "got 'nothing'" in refused("search", run.path, "nothing")
    assert "--montage is for images" in refused("search", run.path, data, "--montage", "a.png")


def test_python_searches_with_vectors_and_with_embeddings(run, data):
    vectors, labels = digit_vectors()
    answers = run.search(vectors[:40], k=5)
    assert np.mean([answer.vote.label == NAMES[k] for answer, k in zip(answers, labels, strict=False)]) > 0.8
    embeddings = run.encode(vectors[:2])
    given = run.search(vectors[:2], exclude_group="")
    assert [a.neighbours for a in run.search(embeddings)] == [a.neighbours for a in given]
    assert run.search("digits/digit0", exclude_group="")[0].neighbours[0].id == "digits/digit0"
    assert run.search([f"{data}#3", "digits/digit4"])[1].query == "digits/digit4"
    with pytest.raises(InputError, match="finite numbers; got NaN"):
        run.search(np.full((1, 64), np.nan, np.float32))


def test_indexing_again_changes_only_what_changed(run, files):
    vectors, _ = digit_vectors(5)
    where = write_npz(files / "more.npz", 5)
    assert str(run.index(where)).startswith("50 added, 0 replaced, 0 removed, 0 unchanged;")
    vectors[3] *= 0.5
    write_npz(files / "more.npz", 5, vectors=vectors)
    change = run.index(where)
    assert (change.added, change.replaced, change.unchanged) == (0, 1, 49)
    assert str(change).endswith(" vectors/s")
    index = bt.Index.open(run.path)
    assert index.store.thumbnails(["more/3"]) == {"more/3": b""}
    assert index.remove({"source": "more"}) == 50


def test_items_can_be_added_to_the_index(run):
    index = bt.Index.open(run.path)
    vectors, _ = digit_vectors()
    assert index.add(vectors[:2], labels=["a", "b"], ids=["x", "y"]).added == 2
    assert index.search("x", 1)[0].neighbours[0].label in ("a", "zero")
    assert index.remove({"id": "x"}) + index.remove({"id": "y"}) == 2


def test_vectors_without_labels_are_embedded_and_predicted(run, files):
    where = write_npz(files / "unknown.npz", 4, labels=None)
    done = call("embed", run.path, where, "--out", files / "e.parquet")
    assert done.output == f"{files / 'e.parquet'}: 40 vectors of 16 numbers\n"
    done = call("predict", run.path, where, "--out", files / "p.csv")
    assert done.output.startswith(f"{files / 'p.csv'}: 40 vectors\n")
    assert len((files / "p.csv").read_text().splitlines()) == 41


def test_what_embed_writes_can_be_trained_on(run, data, files):
    for name in ("e.npz", "e2.parquet"):
        assert call("embed", run.path, data, "--out", files / name).exit_code == 0
        second = bt.train(f"vectors:{files / name}", out=files / f"run-{name}", split_by="item", **OPTIONS)
        assert load_encoder(second.folder.model).info.inputs == 16


def test_training_says_what_the_run_takes(data, tmp_path):
    done = call(
        "train", data, "--out", tmp_path / "run", "--max-steps", 20, "--validate-every", 10, "--dim", 8
    )
    assert done.exit_code == 0, done.output
    assert "It takes vectors of length 64, from pixels." in done.output
    done = call("export", tmp_path / "run")
    assert "encoder.onnx: vectors of length 64 (from pixels) to 8 numbers" in done.output


def test_a_description_of_images_is_what_it_was(tmp_path):
    old = EncoderInfo("resnet18", 1.0, 4, 1, 8, (0.5,), (0.1,), True, ("a", "b"))
    assert fingerprint(old, {}) == "c0f849feaf0f8a564d0466858010fc045f04de40ff18c39cf9a9268fd5cdfca4"


@pytest.mark.parametrize(
    "change", [{"inputs": 0}, {"inputs": -3}, {"inputs": "64"}, {"source": None}, {"head": "none"},
               {"backbone": "resnet18"}, {"channels": 3}, {"size": 8}],
)  # fmt: skip
def test_a_description_of_vectors_that_makes_no_sense_is_refused(change):
    right = {"backbone": "vectors", "width": 1.0, "dim": 4, "channels": 0, "size": 0, "mean": (),
             "deviation": (), "normalize": True, "classes": ("a",), "head": "linear",
             "inputs": 64, "source": "x"}  # fmt: skip
    assert EncoderInfo(**right).check().needs == "vectors of length 64 (from x)"
    with pytest.raises(ValueError, match="makes no sense"):
        EncoderInfo(**{**right, **change}).check()
