"""Heads on the features of a network in an ONNX file."""

import hashlib
import shutil
import subprocess
import sys
import tomllib

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

import bayestriplet as bt
from bayestriplet.config import make_config
from bayestriplet.data.images import decode
from bayestriplet.errors import InputError
from bayestriplet.evaluation.encoders import load_encoder
from bayestriplet.model import onnx_file
from bayestriplet.training.events import WarningEvent
from bayestriplet.training.onnx_start import settle_onnx
from tests.data.pictures import make_folder, save_picture

F = 12


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BAYESTRIPLET_DATA", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("onnx")
    return make_folder(folder / "photos", {"a": 14, "b": 14, "c": 14}, shape=(40, 48, 3))


def write(path, *, shape=("n", 3, 32, 32), channels=3, last=False, outputs=1, inputs=1, tokens=False,
          metadata=None, external=False, kind=TensorProto.FLOAT):  # fmt: skip
    """Write a graph from images to features: a convolution, its mean over the image, and its map."""
    rng = np.random.default_rng(7)
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    weights = numpy_helper.from_array(rng.normal(size=(F, channels, 5, 5)).astype(dtype), "filters")
    nodes = [helper.make_node("Transpose", ["images"], ["first"], perm=[0, 3, 1, 2])] if last else []
    nodes += [helper.make_node("Conv", ["first" if last else "images", "filters"], ["map"], strides=[4, 4])]
    nodes += [helper.make_node("Relu", ["map"], ["active"])]
    nodes += [helper.make_node("GlobalAveragePool", ["active"], ["pooled"])]
    nodes += [helper.make_node("Flatten", ["pooled"], ["features"])]
    made = [helper.make_tensor_value_info("features", kind, ["n", F])]
    if tokens:
        made = [helper.make_tensor_value_info("active", kind, ["n", F, "h", "w"])]
    elif outputs == 2:
        made.insert(0, helper.make_tensor_value_info("active", kind, ["n", F, "h", "w"]))
    given = [helper.make_tensor_value_info("images", kind, shape)]
    if inputs == 2:
        given.append(helper.make_tensor_value_info("mask", kind, ["n", F]))
        nodes[-1].output[0] = "flat"
        nodes.append(helper.make_node("Mul", ["flat", "mask"], ["features"]))
    graph = helper.make_graph(nodes, "encoder", given, made, [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    helper.set_model_props(model, metadata or {})
    onnx.save(model, path, save_as_external_data=external, location="weights.bin", size_threshold=0)
    return path


def options(file, **more):
    pixels = {"input_mean": "0.5", "input_deviation": "0.25"}
    return {"backbone": f"onnx:{file}", "dim": 8, "workers": 0, "max_steps": 20, "validate_every": 10,
            **pixels, **more}  # fmt: skip


def features_of(file, pixels, last=False):
    """What ONNX Runtime alone makes of pixels (n, H, W, C), by the mean 0.5 and the deviation 0.25."""
    images = (pixels.astype(np.float32) / 255 - 0.5) / 0.25
    images = images if last else images.transpose(0, 3, 1, 2)
    return onnxruntime.InferenceSession(file).run(["features"], {"images": images})[0]


@pytest.fixture(scope="module")
def run(photos, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    file = write(folder / "own.onnx")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BAYESTRIPLET_DATA", str(folder / "cache"))
        made = bt.train(str(photos), out=folder / "run", **options(file, head="mlp"))
        made.index(str(photos))
    file.unlink()  # the run is whole by itself
    return made


def test_a_run_holds_the_file_and_its_hash(run):
    content = (run.path / "backbone.onnx").read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    config = tomllib.loads((run.path / "config.toml").read_text())
    assert (config["backbone_sha256"], config["freeze"], config["head"]) == (digest, True, "mlp")
    assert (config["size"], config["input_mean"]) == (32, "0.5,0.5,0.5")
    assert run.encoder.info.backbone == f"onnx:{digest}"


def test_vectors_are_those_of_the_head_on_the_features_of_onnx_runtime(run, photos):
    files = sorted(photos.rglob("*.png"))[:5]
    features = features_of(run.path / "backbone.onnx", np.stack([decode(one, 32, 3) for one in files]))
    head = {name: value.numpy() for name, value in load_encoder(run.folder.model).head.state_dict().items()}
    hidden = np.maximum(features @ head["0.weight"].T + head["0.bias"], 0)
    expected = hidden @ head["2.weight"].T + head["2.bias"]
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(run.encode(files), expected, atol=1e-4)


def test_a_run_is_measured_drawn_and_searched(run, photos, monkeypatch):
    assert set(run.evaluate().retrieval) == {"bunca", "frozen features", "raw pixels"}
    assert "retrieval.png" in run.figures().paths
    query = photos / "b" / "3.png"
    found = run.search(query, k=1)
    assert found.answers[0].neighbours[0].path == str(query)
    assert found.answers[0].neighbours[0].distance < 1e-3


def test_export_writes_the_head_again(run, tmp_path):
    folder = shutil.copytree(run.path, tmp_path / "copy")
    before = bt.Run(folder).encode(np.zeros((32, 32, 3), np.uint8))
    (folder / "encoder.onnx").unlink()
    command = [sys.executable, "-c", "from bayestriplet.cli.app import main; main()", "export", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    np.testing.assert_array_equal(bt.Run(folder).encode(np.zeros((32, 32, 3), np.uint8)), before)


def test_searching_never_loads_torch(run, photos):
    code = (
        "import sys, bayestriplet as bt; "
        f"bt.Run({str(run.path)!r}).search({str(photos / 'a' / '0.png')!r}); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_graph_that_takes_no_images_is_refused(run, photos, tmp_path):
    message = r"encoder.onnx: its input 'features' must be floating-point images .* of shape \(\w+, 12\)"
    with pytest.raises(InputError, match=message):
        bt.train(str(photos), out=tmp_path / "run", **options(run.path / "encoder.onnx"))
    assert not (tmp_path / "run").exists()


def test_a_file_that_changed_since_training_is_refused(run, tmp_path, photos):
    folder = shutil.copytree(run.path, tmp_path / "copy")
    write(folder / "backbone.onnx", metadata={"other": "bytes"})
    message = r"backbone.onnx has SHA-256 \w{12}\.\.\., not \w{12}\.\.\. as recorded: bring"
    with pytest.raises(InputError, match=message):
        bt.Run(folder).encode(photos)
    with pytest.raises(InputError, match=message):
        bt.Run(folder).evaluate()
    (folder / "backbone.onnx").unlink()
    with pytest.raises(InputError, match=r"backbone.onnx cannot be read: no such file"):
        bt.Run(folder).encode(photos)
    with pytest.raises(InputError, match=r"ONNX file of the backbone is missing .*--backbone onnx:FILE"):
        bt.Run(folder).evaluate()


def test_a_run_goes_on_with_the_same_file_alone(photos, tmp_path):
    file = write(tmp_path / "own.onnx")
    bt.train(str(photos), out=tmp_path / "run", **options(file))
    results = tmp_path / "run" / "results.json"
    results.write_text(results.read_text().replace('"finished"', '"interrupted"'))
    (tmp_path / "run" / "checksums.json").unlink()  # changed on purpose
    shutil.copy(tmp_path / "run" / "backbone.onnx", tmp_path / "kept.onnx")
    write(tmp_path / "run" / "backbone.onnx", metadata={"other": "bytes"})
    with pytest.raises(InputError, match=r"has SHA-256 .* as recorded"):
        bt.train(resume=tmp_path / "run")
    shutil.copy(tmp_path / "kept.onnx", tmp_path / "run" / "backbone.onnx")
    file.unlink()
    assert bt.train(resume=tmp_path / "run").results["status"] == "finished"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"inputs": 2}, r"own.onnx has 2 inputs \(images, mask\); one is needed: the images"),
        ({"outputs": 2}, r"own.onnx has 2 outputs \(active, features\): name one, onnx:FILE#features"),
        ({"tokens": True}, r"output 'active' has shape \(n, 12, 7, 7\); floating-point features \(B, F\)"),
        ({"external": True}, r"own.onnx keeps tensors in other files \(first: filters\): save"),
        ({"shape": ("n", 3, 32, 48)}, r"takes images of 3 x 32 x 48; square ones of 1 or 3 channels"),
        ({"shape": ("n", 4, 32, 32), "channels": 4}, r"takes images of 4 x 32 x 32; square ones of 1 or 3"),
        ({"shape": ("n", 1, 32, 32), "channels": 1}, r"is in colour, and onnx:.*own.onnx takes 1 channel$"),
        ({"shape": ("n", "c", 32, 32), "channels": 4}, r"own.onnx fails on images of 3 x 32 x 32: [^\n]+$"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)  # fmt: skip
def test_a_file_that_does_not_fit_is_one_line_and_leaves_nothing(wrong, message, photos, tmp_path):
    file = write(tmp_path / "own.onnx", **wrong)
    with pytest.raises(InputError, match=message) as caught:
        bt.train(str(photos), out=tmp_path / "run", **options(file))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("content", [b"", b"no graph", None])
def test_what_is_no_onnx_file_is_one_line_and_leaves_nothing(content, photos, tmp_path, monkeypatch):
    file = tmp_path / "own.onnx"
    message = r"own.onnx cannot be read: no such file or directory"
    if content is not None:
        file.write_bytes(content)
        message = r"own.onnx cannot be read as ONNX: [^\n]+$"
    with pytest.raises(InputError, match=message):
        bt.train(str(photos), out=tmp_path / "run", **options(file))
    write(file)
    monkeypatch.setattr(onnx_file, "LIMIT", 100)
    with pytest.raises(InputError, match=r"own.onnx has 0.0 GB; ONNX files of up to 0 GB are read"):
        bt.train(str(photos), out=tmp_path / "run", **options(file))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"weights": "imagenet"}, "an ONNX file has its weights: give no weights, from_scratch or width"),
        ({"from_scratch": True}, "an ONNX file has its weights"),
        ({"width": 0.5}, "an ONNX file has its weights"),
        ({"input_deviation": None}, "input_mean and input_deviation belong together"),
        ({"input_deviation": 0}, "input_deviation must be above 0; got 0.0"),
        ({"input_mean": "a,b,c"}, "pixel values must be one number or three with commas; got 'a,b,c'"),
        ({"input_mean": "0.5,0.5"}, "pixel values must be one number or three"),
        ({"input_range": 100}, "input_range must be 1 or 255; got 100"),
        ({"backbone": "resnet18"}, "input_mean is for a backbone from an ONNX file: onnx:FILE"),
        (
            {"backbone_sha256": "0" * 64},
            r"has SHA-256 .*, not 000000000000\.\.\. as recorded",
        ),
        ({"size": 48}, r"--size 48: .*own.onnx takes images of 32 pixels; leave it out"),
        ({"backbone": "{file}#tokens"}, r"own.onnx has no output 'tokens'; it has features"),
    ],
)
def test_options_that_do_not_fit_are_one_line(given, message, photos, tmp_path):
    file = write(tmp_path / "own.onnx")
    if "backbone" in given:
        given = {"backbone": given["backbone"].replace("{file}", f"onnx:{file}")}
    with pytest.raises(InputError, match=message) as caught:
        bt.train(str(photos), out=tmp_path / "run", **options(file) | given)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "form",
    [
        {"shape": ("n", 32, 32, 3), "last": True},
        {"shape": (5, 3, 32, 32)},
        {"shape": ("n", 3, "h", "w")},
        {"shape": ("n", 3, 32, 32), "kind": TensorProto.FLOAT16},
        {"outputs": 2},
    ],
    ids=["channels last", "batches of five", "any size", "half precision", "two outputs"],
)
def test_every_form_of_input_gives_the_same_vectors(form, photos, tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (7, 32, 32, 3), np.uint8)
    file = write(tmp_path / "own.onnx", **form)
    name = f"onnx:{file}#features" if "outputs" in form else f"onnx:{file}"
    run = bt.train(str(photos), out=tmp_path / "run", **options(file, size=32) | {"backbone": name})
    head = {key: one.numpy() for key, one in load_encoder(run.folder.model).head.state_dict().items()}
    plain = write(tmp_path / "plain.onnx")
    expected = features_of(plain, pixels) @ head["weight"].T + head["bias"]
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(run.encode(list(pixels)), expected, atol=0.02 if "kind" in form else 1e-4)
    assert run.evaluate().retrieval["bunca"]


def config_of(file, **given):
    return make_config({"data": "digits", "backbone": f"onnx:{file}", **given}, "test")


def test_pixels_are_those_of_the_options_of_the_file_or_of_imagenet(photos, tmp_path):
    file = write(tmp_path / "own.onnx", metadata={"input_mean": "127", "input_deviation": "128",
                                                  "input_range": "255"})  # fmt: skip
    settled, note = settle_onnx(config_of(file))
    assert (settled.input_mean, settled.input_deviation, settled.input_range) == (
        "127.0,127.0,127.0", "128.0,128.0,128.0", 255)  # fmt: skip
    assert note == ""
    settled, _ = settle_onnx(config_of(file, input_mean=(0.1, 0.2, 0.3), input_deviation=0.5))
    assert (settled.input_mean, settled.input_range) == ("0.1,0.2,0.3", 1)
    events = []
    plain = write(tmp_path / "plain.onnx")
    given = options(plain, input_mean=None, input_deviation=None)
    bt.train(str(photos), out=tmp_path / "run", on_event=events.append, **given)
    (text,) = [one.text for one in events if isinstance(one, WarningEvent) and "ImageNet" in one.text]
    assert text.startswith(f"{plain} does not say which pixels it takes: those of ImageNet are assumed")
    write(file, metadata={"input_mean": "x", "input_deviation": "1"})
    with pytest.raises(InputError, match=r"its metadata input_mean, .* make no sense; give --input-mean"):
        settle_onnx(config_of(file))


def test_an_encoder_of_ours_says_all_that_is_needed(digits_run, tmp_path):
    own = digits_run / "encoder.onnx"
    events = []
    run = bt.train("digits", out=tmp_path / "run", on_event=events.append, backbone=f"onnx:{own}", dim=8,
                   max_steps=20)  # fmt: skip
    assert not [one for one in events if isinstance(one, WarningEvent)]
    assert (run.config.size, run.config.input_mean, run.config.input_deviation) == (8, "0.0", "1.0")
    pixels = np.random.default_rng(0).integers(0, 256, (3, 8, 8), np.uint8)
    head = {key: one.numpy() for key, one in load_encoder(run.folder.model).head.state_dict().items()}
    expected = bt.Run(digits_run).encode(list(pixels)) @ head["weight"].T + head["bias"]
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(run.encode(list(pixels)), expected, atol=1e-4)


def test_grey_images_are_repeated_over_three_channels(tmp_path):
    for label in "ab":
        for i in range(14):
            save_picture(tmp_path / "grey" / label / f"{i}.png", 40, 40, seed=i + 100 * ord(label))
    run = bt.train(str(tmp_path / "grey"), out=tmp_path / "run", **options(write(tmp_path / "own.onnx")))
    assert (run.encoder.channels, run.encoder.info.mean) == (1, (0.5, 0.5, 0.5))
    query = tmp_path / "grey" / "a" / "0.png"
    with Image.open(query) as image:
        np.testing.assert_allclose(run.encode(query), run.encode(image.convert("RGB")), atol=1e-5)


def test_methods_are_compared_and_a_changed_file_is_another_comparison(photos, tmp_path):
    file = write(tmp_path / "own.onnx")
    given = {"out": tmp_path / "out", "methods": ["but", "nca"], "seeds": 1, "tune": False}
    for _ in range(2):
        table = bt.compare(str(photos), **given, **options(file))
        assert set(table.floors) == {"frozen features", "raw pixels"}
    assert not list((tmp_path / "out").rglob("backbone.onnx"))  # a large file is not kept for every run
    write(file, metadata={"other": "bytes"})
    with pytest.raises(InputError, match=r"holds a comparison with backbone_sha256 .*: choose another --out"):
        bt.compare(str(photos), **given, **options(file))
