import csv

import numpy as np
import pyarrow.parquet
import pytest

import bayestriplet as bt
from tests.cli.test_app import assert_one_line, run
from tests.data.pictures import make_folder


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("data") / "scans", {"3": 4, "8": 5}, shape=(8, 8))


def test_embed_writes_vectors_with_what_is_known_of_them(digits_run, pictures, tmp_path):
    done = run("embed", digits_run, pictures, "--out", tmp_path / "vectors.npz")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"{tmp_path / 'vectors.npz'}: 9 vectors of 16 numbers"
    with np.load(tmp_path / "vectors.npz", allow_pickle=False) as found:
        assert set(found.files) == {"vectors", "ids", "labels", "classes"}
        np.testing.assert_allclose(found["vectors"], bt.Run(digits_run).encode(pictures), atol=1e-6)
        assert found["classes"][found["labels"]].tolist() == ["3"] * 4 + ["8"] * 5
        assert found["ids"][0] == "3/0.png"


def test_embed_writes_parquet_with_groups(digits_run, pictures, tmp_path):
    manifest = pictures / "list.csv"
    rows = [
        f"{path.relative_to(pictures)},P{i % 2}" for i, path in enumerate(sorted(pictures.rglob("*.png")))
    ]
    manifest.write_text("\n".join(["path,group", *rows]) + "\n")
    done = run("embed", digits_run, manifest, "--out", tmp_path / "vectors.parquet")
    assert done.returncode == 0, done.stderr
    table = pyarrow.parquet.read_table(tmp_path / "vectors.parquet")
    assert table.column_names == ["vectors", "ids", "groups"]  # the manifest has no labels
    vectors = np.array(table["vectors"].to_pylist(), np.float32)
    np.testing.assert_allclose(vectors, bt.Run(digits_run).encode(sorted(pictures.rglob("*.png"))), atol=1e-6)
    assert table["groups"].to_pylist()[:3] == ["P0", "P1", "P0"]


def test_predict_writes_a_row_per_image(digits_run, pictures, tmp_path):
    store = str(tmp_path / "index")
    out = tmp_path / "table.csv"
    done = run("predict", digits_run, pictures, "--out", out, "--store", store)
    assert done.returncode == 0, done.stderr
    assert "There is no index to vote" in done.stdout
    (row, *_) = csv.DictReader(out.open())
    assert "vote" not in row
    assert run("index", digits_run, "digits", "--store", store).returncode == 0
    done = run("predict", digits_run, pictures, "--out", out, "--store", store, "-k", "5")
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(out.open()))
    assert [row["id"] for row in rows] == sorted(row["id"] for row in rows)
    assert [row["label"] for row in rows] == ["3"] * 4 + ["8"] * 5
    opened = bt.Run(digits_run)
    vectors = opened.encode(pictures)
    for row, shares, answer in zip(
        rows, opened.class_probabilities(vectors), opened.search(vectors, 5, store=store), strict=True
    ):
        np.testing.assert_allclose([float(row[f"p({name})"]) for name in opened.classes], shares, atol=1e-6)
        assert row["prediction"] == opened.classes[shares.argmax()]
        assert row["vote"] == (" / ".join(answer.vote.tied) or answer.vote.label)
        assert float(row["vote_share"]) == pytest.approx(answer.vote.share, abs=1e-4)
        assert 0 <= float(row["novelty"]) <= 100


def test_bad_input_is_one_line_and_writes_nothing(digits_run, pictures, tmp_path):
    for command, name in (("embed", "vectors.txt"), ("predict", "table.xlsx")):
        done = run(command, digits_run, pictures, "--out", tmp_path / name)
        assert_one_line(done, "--out must name a")
    assert_one_line(run("embed", digits_run, tmp_path / "none", "--out", tmp_path / "v.npz"), "there is no")
    assert_one_line(run("predict", tmp_path / "none", pictures, "--out", tmp_path / "t.csv"), "no such run")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "a.png").write_bytes(b"no image")
    assert_one_line(
        run("predict", digits_run, tmp_path / "bad", "--out", tmp_path / "t.csv"), "is not an image"
    )
    assert_one_line(
        run("embed", digits_run, pictures, "--out", tmp_path / "no" / "v.npz"), "cannot be written"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad"]
