"""Files that a newer version wrote are refused by name, and nothing is guessed."""

import json
import shutil

import onnx
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from bayestriplet.errors import InputError
from bayestriplet.retrieval.encoder import OnnxEncoder
from bayestriplet.runs.encoder_files import read_model
from bayestriplet.runs.folder import RunFolder
from bayestriplet.runs.posterior import read_posterior
from bayestriplet.runs.predictive import Predictive
from bayestriplet.training.checkpoint import read_step


@pytest.fixture(scope="module")
def newer(digits_run, tmp_path_factory):
    """A run of which every file with a version has a later one."""
    run = RunFolder(shutil.copytree(digits_run, tmp_path_factory.mktemp("newer") / "run"))
    (run.path / "checksums.json").unlink()
    for path in (run.model, run.posterior, run.predictive):
        with safe_open(path, "numpy") as file:
            about = file.metadata()
        save_file(load_file(path), path, {**about, "format": "99"})
    model = onnx.load(run.encoder)
    next(one for one in model.metadata_props if one.key == "format").value = "99"
    onnx.save(model, run.encoder)
    run.results.write_text(json.dumps({**json.loads(run.results.read_text()), "format": 99}))
    torch.save({"global_step": 1, "bayestriplet_format": 99}, run.checkpoint)
    return run


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("model.safetensors", lambda run: read_model(run.model)),
        ("posterior.safetensors", lambda run: read_posterior(run.posterior)),
        ("predictive.safetensors", lambda run: Predictive.load(run.predictive)),
        ("encoder.onnx", OnnxEncoder.open),
        ("results.json", RunFolder.read_results),
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
