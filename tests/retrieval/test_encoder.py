import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

import bayestriplet
from bayestriplet.data.sources import open_data
from bayestriplet.errors import InputError
from bayestriplet.evaluation.embeddings import embed, to_tensor
from bayestriplet.evaluation.encoders import save_encoder
from bayestriplet.model.encoder import Encoder
from bayestriplet.model.info import EncoderInfo
from bayestriplet.model.onnx_export import export_onnx
from bayestriplet.retrieval.encoder import OnnxEncoder
from bayestriplet.runs.encoder_files import fingerprint_of, onnx_metadata
from tests.data.pictures import make_folder


def make_run(path, **changes):
    """A folder with an encoder that has seen some images, as a model file and as ONNX."""
    values = {
        "backbone": "resnet18", "width": 0.25, "dim": 24, "channels": 3, "size": 32, "mean": (0.5, 0.4, 0.3),
        "deviation": (0.2, 0.25, 0.1), "normalize": True, "classes": ("a", "b"),
    }  # fmt: skip
    torch.manual_seed(0)
    encoder = Encoder(EncoderInfo(**values | changes))
    info = encoder.info
    with torch.no_grad():
        encoder.train()(torch.rand(16, info.channels, info.size, info.size))  # statistics of batch norm
    path.mkdir(parents=True, exist_ok=True)
    save_encoder(encoder.eval(), path / "model.safetensors")
    metadata = onnx_metadata(encoder.info, fingerprint_of(path / "model.safetensors"))
    export_onnx(encoder, metadata, path / "encoder.onnx")
    return encoder


@pytest.mark.parametrize(
    "changes",
    [{}, {"normalize": False}, {"channels": 1, "size": 28, "mean": (0.1,), "deviation": (0.3,)}],
    ids=["colour", "not normalised", "grey"],
)
def test_onnx_runtime_gives_the_vectors_of_torch(tmp_path, changes):
    encoder = make_run(tmp_path / "run", **changes)
    opened = OnnxEncoder.open(tmp_path / "run")
    size, channels = encoder.info.size, encoder.info.channels
    assert (opened.size, opened.channels, opened.dim, opened.classes) == (size, channels, 24, ("a", "b"))
    for number in (1, 2, 5, 150):
        pixels = np.random.default_rng(number).integers(0, 256, (number, size, size, channels), np.uint8)
        with torch.no_grad():
            expected = encoder(to_tensor(pixels)).numpy()
        assert np.abs(opened.encode(pixels) - expected).max() < 1e-4
    assert opened.encode(pixels[:0]).shape == (0, 24)


def test_image_files_are_prepared_as_in_evaluation(tmp_path):
    encoder = make_run(tmp_path / "run")
    make_folder(tmp_path / "images", {"a": 3, "b": 3}, shape=(50, 70, 3))
    images = open_data(str(tmp_path / "images"), size=32)
    expected = embed(encoder, images, np.arange(6))
    assert np.abs(OnnxEncoder.open(tmp_path / "run").encode(images.read(range(6))) - expected).max() < 1e-4


def test_the_file_says_how_to_feed_it_and_what_it_is_made_of(tmp_path):
    make_run(tmp_path)
    found = onnxruntime.InferenceSession(tmp_path / "encoder.onnx").get_modelmeta().custom_metadata_map
    preparation = json.loads(found["preprocessing"])
    assert preparation["resize"] == "shorter side to 32, bicubic"
    assert preparation["scale"] == "divide by 255"
    assert found["fingerprint"] == fingerprint_of(tmp_path / "model.safetensors")


def test_the_file_names_no_file_of_the_machine_it_was_made_on(tmp_path):
    make_run(tmp_path)
    content = (tmp_path / "encoder.onnx").read_bytes()
    for place in (Path(bayestriplet.__file__).parent, Path(torch.__file__).parent, tmp_path):
        assert str(place).encode() not in content


def test_a_backbone_that_cannot_be_exported_is_one_line(tmp_path):
    class Odd(torch.nn.Module):
        def forward(self, images):
            return images.flatten(1)[:, : 4 if float(images.sum()) > 3 else 5]

    encoder = make_run(tmp_path)
    encoder.backbone = Odd()
    with pytest.raises(InputError, match=r"backbone 'resnet18' cannot be written as ONNX: [^\n]+$"):
        export_onnx(encoder, {}, tmp_path / "odd.onnx")
    assert not (tmp_path / "odd.onnx").exists()


def test_what_is_no_encoder_is_refused(tmp_path):
    with pytest.raises(InputError, match="no such run"):
        OnnxEncoder.open(tmp_path / "none")
    with pytest.raises(InputError, match=r"has no encoder.onnx; `bayestriplet export"):
        OnnxEncoder.open(tmp_path)
    (tmp_path / "encoder.onnx").write_bytes(b"not a graph")
    with pytest.raises(InputError, match="cannot be read as an encoder"):
        OnnxEncoder.open(tmp_path)
    torch.onnx.export(
        torch.nn.Linear(2, 2), (torch.zeros(1, 2),), tmp_path / "encoder.onnx", external_data=False
    )
    with pytest.raises(InputError, match="has format None; this version reads 1"):
        OnnxEncoder.open(tmp_path)


def test_pixels_of_another_shape_are_refused(tmp_path):
    make_run(tmp_path)
    opened = OnnxEncoder.open(tmp_path)
    with pytest.raises(InputError, match=r"pixels must be uint8 of shape \(n, 32, 32, 3\)"):
        opened.encode(np.zeros((1, 28, 28, 3), np.uint8))
    with pytest.raises(InputError, match="got float64"):
        opened.encode(np.zeros((1, 32, 32, 3)))
