from dataclasses import replace

import numpy as np
import pytest

from bayestriplet.errors import InputError
from bayestriplet.model.info import EncoderInfo
from bayestriplet.runs.encoder_files import (
    fingerprint,
    fingerprint_of,
    onnx_metadata,
    read_model,
    read_onnx_metadata,
    write_model,
)

INFO = EncoderInfo("resnet18", 0.25, 16, 1, 28, (0.5,), (0.2,), True, ("a", "b\nc"), bits=12)
TENSORS = {"conv.weight": np.arange(8, dtype=np.float32).reshape(2, 4), "bn.batches": np.array(7)}


def test_a_model_survives_its_file(tmp_path):
    write_model(tmp_path / "model", INFO, TENSORS)
    info, tensors = read_model(tmp_path / "model")
    assert info == INFO
    assert tensors.keys() == TENSORS.keys()


def test_the_fingerprint_is_of_the_content_not_of_the_file(tmp_path):
    contents = set()
    for name in "abcdef":
        write_model(tmp_path / name, INFO, dict(sorted(TENSORS.items(), reverse=name in "bdf")))
        contents.add(((tmp_path / name).read_bytes(), fingerprint_of(tmp_path / name)))
    assert contents == {((tmp_path / "a").read_bytes(), fingerprint(INFO, TENSORS))}


@pytest.mark.parametrize(
    ("info", "tensors"),
    [
        (replace(INFO, size=32), TENSORS),
        (replace(INFO, classes=("a", "c")), TENSORS),
        (INFO, TENSORS | {"conv.weight": TENSORS["conv.weight"] + 1}),
        (INFO, TENSORS | {"conv.weight": TENSORS["conv.weight"].reshape(4, 2)}),
        (INFO, TENSORS | {"bn.batches": np.array(7, np.int32)}),
        (INFO, {"weight": TENSORS["conv.weight"], "bn.batches": TENSORS["bn.batches"]}),
    ],
    ids=["size", "classes", "values", "shape", "type", "name"],
)
def test_whatever_changes_the_encoder_changes_its_fingerprint(info, tensors):
    assert fingerprint(info, tensors) != fingerprint(INFO, TENSORS)


def test_what_an_onnx_file_says_of_itself_is_read_back(tmp_path):
    assert read_onnx_metadata(tmp_path, onnx_metadata(INFO, "digest")) == (INFO, "digest")
    with pytest.raises(InputError, match="it has no fingerprint"):
        read_onnx_metadata(tmp_path, onnx_metadata(INFO, ""))


@pytest.mark.parametrize(
    "wrong", [{"size": 30000}, {"channels": 2}, {"dim": 0}, {"bits": 40}, {"mean": ()}, {"backbone": "onnx:"}]
)
def test_a_description_that_makes_no_sense_is_one_line(wrong, tmp_path):
    metadata = onnx_metadata(replace(INFO, **wrong), "digest")
    with pytest.raises(InputError, match="is not a whole encoder: its description of the encoder makes no"):
        read_onnx_metadata(tmp_path, metadata)
