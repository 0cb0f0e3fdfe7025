"""Training of a whole network that goes on from a run whose network was frozen."""

import shutil

import numpy as np
import pytest
import torch

import bayestriplet as bt
from bayestriplet.config import make_config
from bayestriplet.data.sources import open_data
from bayestriplet.errors import InputError
from bayestriplet.evaluation.encoders import load_encoder
from bayestriplet.model.backbone import build_features
from bayestriplet.runs.unfreezing import with_frozen_run
from bayestriplet.training.events import WarningEvent
from bayestriplet.training.module import EmbeddingModule
from bayestriplet.training.run import TrainingRun
from bayestriplet.training.unfreezing import unfreeze
from tests.data.pictures import make_folder


@pytest.fixture(scope="module")
def frozen(tmp_path_factory):
    """A run on photographs whose ResNet-18 was frozen, with statistics of batch normalisation of its own."""
    folder = tmp_path_factory.mktemp("unfreezing")
    photos = make_folder(folder / "photos", {"a": 14, "b": 14, "c": 14}, shape=(40, 48, 3))
    torch.manual_seed(0)
    network = build_features("resnet18", 3, 1.0)[0]
    with torch.no_grad():
        network.train()(torch.rand(8, 3, 32, 32))
    torch.save(network.state_dict(), folder / "network.pth")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BAYESTRIPLET_DATA", str(folder / "cache"))
        run = bt.train(
            str(photos), out=folder / "frozen", backbone="resnet18", weights=str(folder / "network.pth"),
            freeze=True, head="mlp", size=32, dim=8, workers=0, max_steps=20, seed=3,
        )  # fmt: skip
    (folder / "network.pth").unlink()  # the run is all it takes
    return run


def config_of(frozen, **given):
    values = {"unfreeze_from": str(frozen.path), "workers": 0, "max_steps": 4, "batch_size": 6, **given}
    return make_config(with_frozen_run(values, given), "test")


def weights_of(path):
    return {name: value.clone() for name, value in load_encoder(path).state_dict().items()}


def test_the_network_begins_as_in_the_frozen_run(frozen):
    config = config_of(frozen)
    images = open_data(config.data, size=32, seed=config.seed)
    begun, before = unfreeze(config.resolved(3), images), load_encoder(frozen.folder.model)
    for name, value in before.state_dict().items():
        assert torch.equal(begun.state_dict()[name], value), name
    assert begun.info == before.info
    pictures = torch.rand(4, 3, 32, 32)
    with torch.no_grad():  # in training as well: batch normalisation goes by what it knows
        torch.testing.assert_close(begun(pictures), before(pictures))
    assert begun.training


def test_data_split_seed_and_method_are_those_of_the_frozen_run(frozen):
    config = config_of(frozen)
    for name in ("data", "seed", "size", "backbone", "head", "dim", "method", "margin", "normalize"):
        assert getattr(config, name) == getattr(frozen.config, name), name
    assert (config.freeze, config.weights, config.seed) == (False, None, 3)
    assert config.resolved(3).lr == 0.0005
    other = config_of(frozen, method="nca")
    assert (other.method, other.margin) == ("nca", None)


def test_both_rates_reach_the_optimiser(frozen):
    config = config_of(frozen, lr=0.02, method="proxy-nca").resolved(3)
    encoder = unfreeze(config, open_data(config.data, size=32, seed=3))
    module = EmbeddingModule(encoder, config, 4, 10)
    groups = module.configure_optimizers()["optimizer"].param_groups
    assert [group["lr"] for group in groups] == pytest.approx([0.02, 0.002, 0.02])
    parts = (encoder.head, encoder.backbone, module.criterion)
    for group, part in zip(groups, parts, strict=True):
        assert {id(one) for one in group["params"]} == {id(one) for one in part.parameters()}


def test_the_whole_network_is_trained_and_its_statistics_are_kept(frozen, tmp_path):
    events = []
    run = bt.train(
        out=tmp_path / "run", unfreeze_from=frozen.path, max_steps=4, batch_size=6, workers=0,
        on_event=events.append,
    )  # fmt: skip
    before, after = weights_of(frozen.folder.model), weights_of(run.folder.model)
    changed = {name for name, value in before.items() if not torch.equal(value, after[name])}
    assert {name.split(".")[0] for name in changed} == {"backbone", "head"}
    assert {"backbone.conv1.weight", "backbone.bn1.weight", "head.0.weight"} <= changed
    assert not [name for name in changed if "running" in name or "num_batches" in name]
    (note,) = [one.text for one in events if isinstance(one, WarningEvent) and one.is_note]
    assert note == (
        f"goes on from {frozen.path}: the whole resnet18 is trained, its backbone at a tenth of the rate of "
        "its head, and batch normalisation keeps its statistics"
    )
    assert (run.path / "splits.csv").read_bytes() == (frozen.path / "splits.csv").read_bytes()
    rows = run.evaluate().retrieval
    assert set(rows) == {"bunca", "frozen", "raw pixels"}
    assert rows["frozen"] == frozen.evaluate().retrieval["bunca"]
    assert run.encode(np.zeros((32, 32, 3), np.uint8)).shape == (1, 8)
    again = bt.train(out=tmp_path / "again", config=run.path / "config.toml")
    assert (again.path / "model.safetensors").read_bytes() == (run.path / "model.safetensors").read_bytes()


def test_a_training_that_was_stopped_goes_on_to_the_same_network(frozen, tmp_path, monkeypatch):
    config, step = config_of(frozen, validate_every=2, max_steps=6), EmbeddingModule.training_step

    def stop(module, batch, number):
        if module.global_step == 3:
            raise KeyboardInterrupt
        return step(module, batch, number)

    whole = TrainingRun(config, tmp_path / "whole")
    whole.fit()
    whole.finish()
    monkeypatch.setattr(EmbeddingModule, "training_step", stop)
    with pytest.raises((KeyboardInterrupt, SystemExit)):
        TrainingRun(config, tmp_path / "stopped").fit()
    monkeypatch.undo()
    bt.train(resume=tmp_path / "stopped")
    one, two = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "stopped"))
    assert one == two


@pytest.mark.parametrize(
    ("given", "option"),
    [
        ({"backbone": "resnet18"}, "backbone"),
        ({"weights": "imagenet"}, "weights"),
        ({"freeze": True}, "freeze"),
        ({"head": "linear"}, "head"),
        ({"from_scratch": True}, "from-scratch"),
        ({"width": 0.5}, "width"),
        ({"dim": 16}, "dim"),
    ],
)
def test_options_that_contradict_the_frozen_run_are_one_line(given, option, frozen, tmp_path):
    with pytest.raises(InputError, match=rf"takes the network from .*: do not give --{option} with it$"):
        bt.train(out=tmp_path / "run", unfreeze_from=frozen.path, **given)
    (tmp_path / "more.toml").write_text('head = "linear"\n')
    with pytest.raises(InputError, match=r"do not give --head with it$"):
        bt.train(out=tmp_path / "run", unfreeze_from=frozen.path, config=tmp_path / "more.toml")
    assert not (tmp_path / "run").exists()


def test_runs_that_cannot_be_unfrozen_are_one_line(frozen, digits_run, tmp_path):
    out = tmp_path / "run"
    with pytest.raises(InputError, match=r"nowhere: no such run"):
        bt.train(out=out, unfreeze_from=tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"digits was not trained with a frozen network: there is"):
        bt.train(out=out, unfreeze_from=digits_run)
    vectors = {"data": "vectors:/file.npz", "backbone": "vectors", "size": None}
    for key, changes, what in (
        ("onnx", {"backbone": "onnx:/file.onnx"}, "an ONNX file"),
        ("vectors", vectors, "vectors without images"),
    ):
        folder = shutil.copytree(frozen.path, tmp_path / key)
        changes = {"weights": None, **changes}
        frozen.folder.__class__(folder).write_config(frozen.config.model_copy(update=changes))
        with pytest.raises(InputError, match=rf"was trained on {what}: it has no network"):
            bt.train(out=out, unfreeze_from=folder)
    with pytest.raises(InputError, match=r"compare begins every run alike: unfreeze_from is"):
        bt.compare(frozen.config.data, out=out, unfreeze_from=str(frozen.path))
    assert not out.exists()


def test_items_that_the_frozen_run_was_trained_on_are_not_tested_with(frozen, tmp_path):
    with pytest.raises(
        InputError, match=r"\d+ items to validate or test with were trained on in .* keep its"
    ):
        bt.train(out=tmp_path / "run", unfreeze_from=frozen.path, seed=4)
    assert not (tmp_path / "run").exists()
