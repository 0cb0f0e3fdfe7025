"""Files that a newer version wrote are refused by name, and nothing is guessed."""

import json
import shutil

import numpy as np
import onnx
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from bayestriplet.errors import InputError, StoreError
from bayestriplet.retrieval import lance_tables, milvus
from bayestriplet.retrieval.encoder import OnnxEncoder
from bayestriplet.retrieval.index import Index
from bayestriplet.retrieval.teaching import Teacher
from bayestriplet.runs.comparison_folder import ComparisonFolder
from bayestriplet.runs.encoder_files import read_model
from bayestriplet.runs.folder import RunFolder
from bayestriplet.runs.posterior import read_posterior
from bayestriplet.runs.predictive import Predictive
from bayestriplet.runs.taught import Taught
from bayestriplet.runs.teaching import Teaching
from bayestriplet.training.checkpoint import read_step


@pytest.fixture(scope="module")
def newer(digits_run, tmp_path_factory):
    """A run of which every file with a version has a later one."""
    run = RunFolder(shutil.copytree(digits_run, tmp_path_factory.mktemp("newer") / "run"))
    teacher = Teacher.open(run.path)
    teacher.teach(np.ones((1, teacher.encoder.dim), np.float32), ["new"])
    (run.path / "checksums.json").unlink()
    for path in (run.model, run.posterior, run.predictive, run.teaching, run.taught):
        with safe_open(path, "numpy") as file:
            about = file.metadata()
        save_file(load_file(path), path, {**about, "format": "99"})
    model = onnx.load(run.encoder)
    next(one for one in model.metadata_props if one.key == "format").value = "99"
    onnx.save(model, run.encoder)
    run.results.write_text(json.dumps({**json.loads(run.results.read_text()), "format": 99}))
    run.config.write_text(run.config.read_text().replace("format = 1\n", "format = 99\n"))
    torch.save({"global_step": 1, "bayestriplet_format": 99}, run.checkpoint)
    return run


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("model.safetensors", lambda run: read_model(run.model)),
        ("posterior.safetensors", lambda run: read_posterior(run.posterior)),
        ("predictive.safetensors", lambda run: Predictive.load(run.predictive)),
        ("teaching.safetensors", lambda run: Teaching.load(run.teaching)),
        ("taught.safetensors", lambda run: Taught.load(run.taught)),
        ("encoder.onnx", OnnxEncoder.open),
        ("results.json", RunFolder.read_results),
        ("config.toml", RunFolder.read_config),
        ("last.ckpt", read_step),
    ],
)
def test_a_newer_file_is_refused_by_name(newer, name, read):
    with pytest.raises(InputError, match=rf"{name} (has format '?99'?; this|is not of format 1, which this)"):
        read(newer)


def test_options_of_a_newer_version_are_refused_by_name(digits_run, tmp_path):
    config = (digits_run / "config.toml").read_text()
    (tmp_path / "config.toml").write_text(f"{config}\nfuture = 1\n")
    with pytest.raises(InputError, match=r"config\.toml.*future"):
        RunFolder(tmp_path).read_config()


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("settings.json", lambda folder: folder.claim({})),
        ("comparison.json", ComparisonFolder.read_summary),
        ("floors.json", lambda folder: folder.read_floors("but-0")),
    ],
)
def test_a_newer_comparison_is_refused_by_name(tmp_path, name, read):
    (tmp_path / name).write_text('{"format": 99}')
    with pytest.raises(InputError, match=rf"{name} has format 99; this version reads 1"):
        read(ComparisonFolder(tmp_path))


@pytest.mark.parametrize(("store", "module"), [(None, lance_tables), ("index.db", milvus)])
def test_an_index_of_a_newer_version_is_refused_by_name(digits_run, tmp_path, monkeypatch, store, module):
    run = shutil.copytree(digits_run, tmp_path / "run", ignore=shutil.ignore_patterns("index", "*.ckpt"))
    place = None if store is None else str(tmp_path / store)
    with monkeypatch.context() as patch:
        patch.setattr(module, "FORMAT", "99")
        index = Index.open(run, place)
        index.add(np.zeros((2, index.encoder.size, index.encoder.size, 1), np.uint8), ids=["a", "b"])
    shutil.rmtree(run / "index" / "snapshot", ignore_errors=True)
    with pytest.raises(StoreError, match=r"index(\.db)? has format '99'; this version reads 1"):
        Index.open(run, place).search(np.zeros((1, index.encoder.dim), np.float32))
