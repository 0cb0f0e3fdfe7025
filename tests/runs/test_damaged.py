"""Files of a run that are damaged, each of which is one line."""

import io
import json
import shutil
import zipfile

import numpy as np
import onnx
import pytest
from safetensors.numpy import load_file, save_file

from bayestriplet.data.sources import open_data
from bayestriplet.data.vector_npz import read_npz
from bayestriplet.errors import DataError, InputError
from bayestriplet.retrieval.encoder import OnnxEncoder
from bayestriplet.runs.folder import RunFolder
from bayestriplet.runs.metrics import COLUMNS, begin_metrics, read_metrics
from bayestriplet.runs.predictive import Predictive
from bayestriplet.runs.splits import read_splits


@pytest.mark.parametrize("damage", [b"\n", b"\0\0\0\n", b"\xff\xfe\n", b"9" * 5000 + b",1\n", b"   \n"])
def test_a_run_goes_on_whatever_is_between_the_rows_of_its_metrics(tmp_path, damage):
    path, row = tmp_path / "metrics.csv", b"20,1,0.5,1,0.1,0.9,3\n"
    path.write_bytes(",".join(COLUMNS).encode() + b"\n" + damage + row)
    begin_metrics(path, 20)
    assert read_metrics(path).step.tolist() == [20]


def test_a_run_goes_on_without_its_metrics(tmp_path):
    begin_metrics(tmp_path / "metrics.csv", 20)
    assert read_metrics(tmp_path / "metrics.csv").step.tolist() == []


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': \n",
        "{'descr':'<f4','fortran_order':False,'shape':(True,12)}\n",
        "(" * 3000 + "\n",
        "{'descr':'<f4','fortran_order':False,'shape':(4,3)}" + " " * 60_000 + "\n",
    ],
)
def test_a_damaged_header_of_an_array_is_one_line(tmp_path, header):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        text = header.encode()
        array = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(48)
        archive.writestr("vectors.npy", array)
    (tmp_path / "a.npz").write_bytes(content.getvalue())
    with pytest.raises(DataError, match=r"a\.npz: vectors has a damaged header: .") as caught:
        read_npz(tmp_path / "a.npz")
    assert len(str(caught.value)) < 400
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("tensors", "metadata", "reason"),
    [
        ({"mean": np.array(1.0)}, {}, "is not a whole predictive"),
        ({}, {"classes": json.dumps([["a"]] * 10)}, "classes must be a list of names"),
        ({}, {"classes": "[" * 100_000}, "is not a whole predictive"),
        ({"whitening": 1e300}, {}, r"whitening must be at most 1e\+100"),
    ],
)
def test_a_damaged_predictive_is_one_line(digits_run, tmp_path, tensors, metadata, reason):
    from safetensors import safe_open

    source = digits_run / "predictive.safetensors"
    with safe_open(source, "numpy") as file:
        before = file.metadata()
    arrays = load_file(source)
    for name, value in tensors.items():
        if name not in arrays:
            pytest.skip(f"this structure has no {name}")
        arrays[name] = np.full_like(arrays[name], value) if isinstance(value, float) else value
    save_file(arrays, tmp_path / "bad.safetensors", {**before, **metadata})
    with pytest.raises(InputError, match=reason):
        Predictive.load(tmp_path / "bad.safetensors")


@pytest.mark.parametrize(("name", "value"), [("size", 30_000), ("size", 9), ("channels", 3), ("dim", 17)])
def test_metadata_that_the_network_contradicts_are_one_line(digits_run, tmp_path, name, value):
    run = shutil.copytree(digits_run, tmp_path / "run", ignore=shutil.ignore_patterns("*.ckpt"))
    model = onnx.load(run / "encoder.onnx")
    for one in model.metadata_props:
        if one.key == "encoder":
            info = json.loads(one.value) | {name: value}
            if name == "channels":
                info |= {"mean": [0.5] * 3, "deviation": [0.2] * 3}
            one.value = json.dumps(info)
    onnx.save(model, run / "encoder.onnx")
    (run / "checksums.json").unlink()
    with pytest.raises(InputError, match="is not a whole encoder"):
        OnnxEncoder.open(run)


@pytest.mark.parametrize(
    "content", ["{}", '{"format": 1}', '{"format": 1, "status": 3}', "[]", "{", "\0", '"x"', "[" * 100_000]
)
def test_results_that_do_not_say_how_the_run_ended_are_one_line(tmp_path, content):
    (tmp_path / "results.json").write_text(content)
    with pytest.raises(InputError, match=r"results\.json (cannot be read|is not of format|does not say)"):
        RunFolder(tmp_path).read_results()


def test_a_field_that_is_too_long_for_a_table_is_one_line(digits_run, tmp_path):
    run = shutil.copytree(digits_run, tmp_path / "run", ignore=shutil.ignore_patterns("*.ckpt"))
    long = "x" * 140_000
    (run / "splits.csv").write_text(f"id,label,split,group\n{long},1,train,\n")
    (run / "metrics.csv").write_text(f"step,loss\n{long},1\n")
    (tmp_path / "images.csv").write_text(f"path,label\n{long},1\n")
    (run / "checksums.json").unlink(missing_ok=True)
    with pytest.raises(DataError, match=r"splits\.csv cannot be read: field larger than field limit"):
        read_splits(RunFolder(run))
    with pytest.raises(InputError, match=r"metrics\.csv is not a log of a run"):
        read_metrics(run / "metrics.csv")
    with pytest.raises(DataError, match=r"images\.csv cannot be read as CSV: field larger than field limit"):
        open_data(str(tmp_path / "images.csv"))
