"""Heads on the features of a frozen network."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from pydantic import ValidationError

import bayestriplet as bt
from bayestriplet.config import TrainConfig, make_config
from bayestriplet.data.batches import BalancedBatches
from bayestriplet.data.sources import open_data
from bayestriplet.evaluation import features as feature_module
from bayestriplet.evaluation.encoders import load_encoder
from bayestriplet.evaluation.features import with_features
from bayestriplet.model.backbone import build_features
from bayestriplet.model.encoder import Encoder
from bayestriplet.model.info import EncoderInfo
from bayestriplet.runs.splits import open_run_data
from bayestriplet.runs.teaching import open_teaching
from bayestriplet.training.events import PhaseEvent
from bayestriplet.training.loader import TrainingImages, make_loader
from bayestriplet.training.plan import choose_start
from tests.data.pictures import make_folder


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BAYESTRIPLET_DATA", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("frozen")
    return make_folder(folder / "photos", {"a": 14, "b": 14, "c": 14}, shape=(72, 80, 3))


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("weights") / "network.pth"
    torch.save(build_features("resnet18", 3, 1.0)[0].state_dict(), path)
    return str(path)


def options(weights, **more):
    return {"backbone": "resnet18", "weights": weights, "freeze": True, "size": 32, "dim": 8, "workers": 0,
            "max_steps": 20, "validate_every": 10, **more}  # fmt: skip


@pytest.mark.parametrize("head", ["linear", "mlp"])
def test_only_the_head_is_trained_and_the_whole_is_kept(photos, weights, tmp_path, head):
    run = bt.train(str(photos), out=tmp_path / "run", **options(weights, head=head))
    encoder = load_encoder(run.folder.model)
    before = build_features("resnet18", 3, 1.0, weights)[0].state_dict()
    after = encoder.backbone.state_dict()
    assert all(torch.equal(value, after[name]) for name, value in before.items())
    assert encoder.info.head == head
    found = run.evaluate()
    assert set(found.retrieval) == {"bunca", "frozen features", "raw pixels"}
    pixels = open_data(str(photos), size=32).read(range(3))
    with torch.no_grad():
        expected = encoder(torch.from_numpy(pixels / np.float32(255)).permute(0, 3, 1, 2))
    np.testing.assert_allclose(run.encode(list(pixels)), expected, atol=1e-4)
    assert run.class_probabilities(run.encode(photos)).shape == (42, 3)
    assert "retrieval.png" in run.figures().paths


def test_looks_are_those_of_the_pictures_and_not_of_their_features(weights, tmp_path):
    folder = make_folder(tmp_path / "photos", {"a": 45, "b": 45}, shape=(72, 80, 3))
    run = bt.train(str(folder), out=tmp_path / "run", **options(weights))
    kept = open_teaching(run.folder, run.encoder.fingerprint, {})
    images = open_run_data(run.folder, str(folder), run.encoder.info, False, None)
    pixels = images.read(images.indices("val"))
    assert len(pixels) == len(kept.looks) > 5
    np.testing.assert_allclose(kept.appearance.describe(pixels), kept.looks, atol=1e-6)


def test_features_are_computed_once_and_read_the_second_time(photos, weights, tmp_path):
    phases = []
    for name in ("one", "two"):
        events = []
        bt.train(str(photos), out=tmp_path / name, on_event=events.append, **options(weights))
        phases.append({event.what for event in events if isinstance(event, PhaseEvent)})
    assert "Computing features" in phases[0]
    assert "Computing features" not in phases[1]
    one, two = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "two"))
    assert one == two


def encoder_of(weights):
    info = EncoderInfo(
        "resnet18", 1.0, 8, 3, 32, (0.5,) * 3, (0.2,) * 3, True, ("a", "b", "c"), head="linear"
    )
    return Encoder(info, weights)


@pytest.mark.parametrize("views", [1, 3])
def test_features_that_were_stopped_go_on_and_are_the_same(photos, weights, views, monkeypatch, cache):
    monkeypatch.setattr(feature_module, "PART", 8)
    monkeypatch.setattr("bayestriplet.evaluation.embeddings.BATCH", 8)
    images, encoder = open_data(str(photos), size=32), encoder_of(weights)
    done = []

    def stop(_, number, total):
        done.append(number)
        if number > total / 2 and len(done) < 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        with_features(encoder, images, views, progress=stop)
    stopped = len(done)
    found = with_features(encoder, images, views, progress=lambda *step: done.append(step[1])).features
    assert len(done) < 2 * stopped + 4  # it went on, and did not begin again
    monkeypatch.setenv("BAYESTRIPLET_DATA", str(cache / "other"))
    np.testing.assert_array_equal(found, with_features(encoder, images, views).features)
    assert found.shape == (42, views, 512)
    assert {path.suffix for path in (cache / "features").iterdir() if path.is_file()} <= {".lock"}


@pytest.mark.parametrize("place", [20, 5000, -1])
def test_damaged_features_are_computed_anew(photos, weights, cache, place):
    images, encoder = open_data(str(photos), size=32), encoder_of(weights)
    wanted = np.array(with_features(encoder, images, 1).features)
    (path,) = (cache / "features").rglob("features.npy")
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    np.testing.assert_array_equal(with_features(encoder, images, 1).features, wanted)
    path.with_name("sum.json").write_text('{"crc"')
    np.testing.assert_array_equal(with_features(encoder, images, 1).features, wanted)


@pytest.mark.parametrize("kind", ["rows", "header", "note"])
def test_features_that_were_damaged_half_way_begin_again(photos, weights, monkeypatch, cache, kind):
    monkeypatch.setattr(feature_module, "PART", 8)
    monkeypatch.setattr("bayestriplet.evaluation.embeddings.BATCH", 8)
    images, encoder = open_data(str(photos), size=32), encoder_of(weights)

    def stop(_, number, total):
        if number > total / 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        with_features(encoder, images, 1, progress=stop)
    (path,) = (cache / "features").glob("*.json" if kind == "note" else "*.partial")
    content = bytearray(path.read_bytes())
    content[{"rows": 3000, "header": 30, "note": 1}[kind]] ^= 4
    path.write_bytes(content)
    found = with_features(encoder, images, 1).features
    monkeypatch.setenv("BAYESTRIPLET_DATA", str(cache / "other"))
    np.testing.assert_array_equal(found, with_features(encoder, images, 1).features)


def test_features_of_before_there_were_sums_are_read(photos, weights, cache):
    images, encoder = open_data(str(photos), size=32), encoder_of(weights)
    wanted, said = np.array(with_features(encoder, images, 1).features), []
    next((cache / "features").rglob("sum.json")).unlink()
    found = with_features(encoder, images, 1, progress=lambda *step: said.append(step)).features
    np.testing.assert_array_equal(found, wanted)
    assert said == []


def test_other_images_or_other_weights_are_other_features(photos, weights, tmp_path, cache):
    images = open_data(str(photos), size=32)
    with_features(encoder_of(weights), images, 1)
    with_features(encoder_of(weights), images.subset(np.arange(10)), 1)
    with_features(encoder_of(None), images, 1)
    assert len([path for path in (cache / "features").iterdir() if path.is_dir()]) == 3


@pytest.mark.parametrize(
    ("given", "side", "expected"),
    [
        ({}, 64, ("efficientnet-lite0", True, "imagenet", "linear", 224)),
        ({}, 63, ("resnet18", False, None, None, None)),
        ({"from_scratch": True}, 100, ("resnet18", False, None, None, None)),
        ({"from_scratch": True, "freeze": True}, 100, ("resnet18", False, None, None, None)),
        ({"from_scratch": True, "weights": "imagenet"}, 100, ("resnet18", False, None, None, None)),
        ({"width": 0.25}, 100, ("resnet18", False, None, None, None)),
        ({"backbone": "resnet34"}, 100, ("resnet34", False, None, None, None)),
        ({"recipe": "paper"}, 100, ("resnet18", False, None, None, None)),
        ({"freeze": True}, 30, ("efficientnet-lite0", True, "imagenet", "linear", 224)),
        (
            {"freeze": True, "head": "mlp", "size": 96},
            100,
            ("efficientnet-lite0", True, "imagenet", "mlp", 96),
        ),
        ({"weights": "imagenet"}, 100, ("efficientnet-lite0", False, "imagenet", "linear", 224)),
    ],
    ids=str,
)
def test_large_images_begin_with_a_network_that_knows_photographs(given, side, expected, tmp_path):
    images = open_data(str(make_folder(tmp_path / "set", {"a": 4, "b": 4}, shape=(side, side, 3))))
    config = choose_start(make_config({"data": "x", **given}, "test"), images)
    assert (config.backbone, config.freeze, config.weights, config.head, config.size) == expected


def test_sets_in_memory_begin_as_before():
    config = choose_start(make_config({"data": "digits"}, "test"), open_data("digits", size=64))
    assert (config.backbone, config.freeze) == ("resnet18", False)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"freeze": True, "backbone": "mine:net"}, "freeze is for the backbones known by name"),
        ({"freeze": True, "width": 0.25}, "freeze needs the whole width"),
    ],
)
def test_ways_to_begin_that_contradict_each_other_are_refused(values, message):
    with pytest.raises(ValidationError, match=message):
        TrainConfig(data="digits", **values)


def test_grey_images_are_repeated_over_the_channels_of_a_network_for_colours(tmp_path, weights):
    info = EncoderInfo("resnet18", 1.0, 8, 1, 32, (0.5, 0.4, 0.3), (0.2,) * 3, True, ("a",), head="linear")
    grey, colour = Encoder(info, weights).eval(), encoder_of(weights).eval()
    colour.mean.copy_(grey.mean)
    image = torch.rand(2, 1, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(grey.describe(image), colour.describe(image.expand(-1, 3, -1, -1)))


def test_methods_are_compared_on_the_same_features(photos, weights, tmp_path):
    table = bt.compare(
        str(photos), out=tmp_path / "out", methods=["but", "nca"], seeds=1, tune=False, **options(weights)
    )
    assert {row.method for row in table.rows} == {"but", "nca"}
    assert set(table.floors) == {"frozen features", "raw pixels"}


def test_trainings_at_once_compute_the_features_once(photos, weights):
    images = open_data(str(photos), size=32)
    computed = []

    def compute(_):
        return with_features(
            encoder_of(weights), images, 1, progress=lambda *step: computed.append(step)
        ).features

    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(compute, range(3)))
    assert len(computed) == 1
    for one in found[1:]:
        np.testing.assert_array_equal(one, found[0])


def test_features_are_read_without_worker_processes(photos, weights):
    images = with_features(encoder_of(weights), open_data(str(photos), size=32), views=1)
    config = TrainConfig(data=str(photos), workers=2)
    items = TrainingImages(images, seed=0, vary=False)
    assert make_loader(items, BalancedBatches(items.labels, 6, 2), config).num_workers == 0
