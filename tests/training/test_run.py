import contextlib
import csv
import json
import math
import signal
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from lightning.pytorch import Trainer
from safetensors.torch import load_file

from bayestriplet import recall_at_k
from bayestriplet.config import make_config
from bayestriplet.data.sources import open_data
from bayestriplet.errors import BayesTripletError, DataError, DivergenceError, InputError, WriteError
from bayestriplet.evaluation.embeddings import embed
from bayestriplet.evaluation.encoders import load_encoder
from bayestriplet.model.backbone import build_backbone
from bayestriplet.model.encoder import Encoder
from bayestriplet.posterior.posterior import ClassPosterior
from bayestriplet.retrieval.index import Index
from bayestriplet.runs.encoder_files import fingerprint_of
from bayestriplet.runs.folder import RunFolder
from bayestriplet.runs.metrics import read_metrics
from bayestriplet.runs.predictive import Predictive
from bayestriplet.runs.splits import open_run_data
from bayestriplet.training import callbacks, finishing, plan, stopping
from bayestriplet.training.events import WarningEvent
from bayestriplet.training.module import EmbeddingModule
from bayestriplet.training.run import TrainingRun
from tests.posterior.test_statistics import slow_statistics

SMALL = {
    "data": "digits",
    "backbone": "tests.training.networks:small",
    "dim": 16,
    "max_steps": 30,
    "validate_every": 10,
}


def make_run(out, **options):
    return TrainingRun(make_config(SMALL | options, "test"), out)


def train(out, resume=False, export=False, **options):
    run = make_run(out, **options)
    run.fit(resume)
    return run, run.finish(export=export)


def stop_at(monkeypatch, step):
    """Ask for a stop, as Ctrl-C does, during the given step."""
    original = stopping.Interruption.on_train_batch_end

    def ask(self, trainer, module, *rest):
        if trainer.global_step == step:
            self.asked = signal.SIGINT
        original(self, trainer, module, *rest)

    monkeypatch.setattr(stopping.Interruption, "on_train_batch_end", ask)


def test_a_run_leaves_a_folder_anyone_can_read(tmp_path):
    run, scores = train(tmp_path / "run", export=True, method="but")
    names = {path.name for path in (tmp_path / "run").iterdir()}
    files = ["config.toml", "results.json", "metrics.csv", "model.safetensors", "posterior.safetensors"]
    files += [
        "predictive.safetensors",
        "teaching.safetensors",
        "encoder.onnx",
        "splits.csv",
        "last.ckpt",
        "tensorboard",
        "checksums.json",
    ]
    assert names == set(files)
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert (results["format"], results["status"], results["steps"], results["seed"]) == (1, "finished", 30, 0)
    assert results["test"]["but"]["recall@1"]["value"] == scores["but"]["recall@1"].value
    assert {"python", "torch", "lightning", "bayestriplet"} <= results["versions"].keys()
    assert run.folder.read_config() == run.config
    rows = list(csv.DictReader((tmp_path / "run" / "metrics.csv").open()))
    assert [int(row["step"]) for row in rows] == [10, 20, 30]
    assert all(0 <= float(row["recall@1"]) <= 1 and float(row["active"]) <= 1 for row in rows)
    assert any((tmp_path / "run" / "tensorboard").iterdir())


def test_training_improves_on_the_untrained_network(tmp_path):
    _, scores = train(tmp_path / "run", max_steps=120, validate_every=60, augment=False)
    assert scores["bunca"]["recall@1"].value > scores["untrained"]["recall@1"].value + 0.02
    assert scores["bunca"]["recall@1"].value > 0.9


def test_the_saved_encoder_gives_the_reported_recall_and_the_posterior_is_that_of_its_vectors(tmp_path):
    run, scores = train(tmp_path / "run")
    encoder = load_encoder(run.folder.model, SMALL["backbone"])
    test = run.images.indices("test")
    vectors = embed(encoder, run.images, test)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    assert recall_at_k(vectors, run.images.labels[test], (1,))[1] == scores["bunca"]["recall@1"].value
    train_items = run.images.indices("train")
    vectors = torch.from_numpy(embed(encoder, run.images, train_items)).double()
    count, mean, scatter = slow_statistics(vectors, torch.from_numpy(run.images.labels[train_items]), 10)
    state = load_file(run.folder.posterior)
    np.testing.assert_allclose(state["count"], count)
    np.testing.assert_allclose(state["item_mean"], mean, atol=1e-10)
    np.testing.assert_allclose(state["item_scatter"], scatter, atol=1e-9)
    ClassPosterior(10, 16, dtype=torch.float64).load_state_dict(state)
    items = embed(encoder, run.images, test)
    predictive = Predictive.load(run.folder.predictive)
    right = predictive.probabilities(items).argmax(1) == run.images.labels[test]
    assert right.mean() > 0.7
    assert predictive.classes == run.images.classes
    assert predictive.encoder == fingerprint_of(run.folder.model)
    assert len(predictive.held_out) == len(run.images.indices("val"))
    assert 20 < predictive.novelty(items).mean() < 80  # test items are like validation items


@pytest.mark.parametrize("method", ["bunca", "ba", "bsh", "bh", "ep", "dws", "nca", "proxy-nca"])
def test_every_other_method_trains(method, tmp_path):
    _, scores = train(tmp_path / "run", method=method, max_steps=6, validate_every=6)
    assert scores[method]["recall@1"].value > 0.2


@pytest.mark.parametrize("faster", [1.0, 10.0])
def test_a_loss_learns_so_many_times_faster_than_the_network(faster, tmp_path):
    options = {"method": "proxy-nca", "lr": 1e-3, "max_steps": 1, "validate_every": 1}
    run, _ = train(tmp_path / "run", **options, loss_rate=faster)
    module, moved = EmbeddingModule(run.outcome.encoder, run.config, 1, 10), {}
    optimizer = module.configure_optimizers()["optimizer"]
    before = {name: value.detach().clone() for name, value in module.named_parameters()}
    for value in module.parameters():
        value.grad = torch.ones_like(value)
    optimizer.step()
    for name, value in module.named_parameters():
        moved.setdefault(name.partition(".")[0], []).append(
            float((value.detach() - before[name]).abs().max())
        )
    assert moved.keys() == {"encoder", "criterion"}  # the first step of Adam is the rate
    assert moved["encoder"] == pytest.approx([1e-3] * len(moved["encoder"]), rel=1e-2)
    assert moved["criterion"] == pytest.approx([faster * 1e-3], rel=1e-2)


def test_the_paper_recipe_trains_with_its_own_values(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run, _ = train(tmp_path / "run", recipe="paper", max_steps=4)
    config = run.folder.read_config()
    assert (config.lr, config.batch_size, config.normalize, config.augment) == (1e-5, 50, False, False)


@pytest.mark.parametrize("method", ["bunca", "dws", "proxy-nca"])
def test_a_resumed_run_ends_exactly_where_an_uninterrupted_one_does(method, tmp_path, monkeypatch):
    train(tmp_path / "whole", method=method)
    with monkeypatch.context() as patch:
        stop_at(patch, 17)
        _, scores = train(tmp_path / "parts", method=method)
    assert scores is None
    results = json.loads((tmp_path / "parts" / "results.json").read_text())
    assert (results["status"], results["steps"]) == ("interrupted", 17)
    load_encoder(tmp_path / "parts" / "model.safetensors", SMALL["backbone"])  # usable as it is
    train(tmp_path / "parts", resume=True, method=method)
    states = [torch.load(tmp_path / run / "last.ckpt", weights_only=True) for run in ("whole", "parts")]
    assert states[0]["global_step"] == states[1]["global_step"] == 30
    for part in ("state_dict", "generators"):
        for name, value in states[0][part].items():
            assert torch.equal(value, states[1][part][name]), name
    whole, parts = (json.loads((tmp_path / run / "results.json").read_text()) for run in ("whole", "parts"))
    assert whole["test"] == parts["test"]
    columns = [
        [row["loss"] for row in csv.DictReader((tmp_path / run / "metrics.csv").open())]
        for run in ("whole", "parts")
    ]
    assert columns[0] == columns[1]


def test_another_seed_gives_another_network(tmp_path):
    for seed in (0, 1):
        train(tmp_path / str(seed), seed=seed, max_steps=2)
    first, second = (load_file(tmp_path / str(seed) / "model.safetensors") for seed in (0, 1))
    assert not all(torch.equal(first[name], second[name]) for name in first)


def test_validation_never_touches_the_posterior(tmp_path, monkeypatch):
    seen = []
    original = callbacks.Validation.validate

    def watch(self, trainer, module):
        before = {k: v.clone() for k, v in module.criterion.state_dict().items()}
        original(self, trainer, module)
        seen.append(all(torch.equal(v, before[k]) for k, v in module.criterion.state_dict().items()))

    monkeypatch.setattr(callbacks.Validation, "validate", watch)
    train(tmp_path / "run")
    assert seen == [True, True, True]


def test_early_stopping_keeps_the_best_network(tmp_path, monkeypatch):
    recalls = iter([0.5, 0.9, 0.8, 0.7, 0.6, 0.5])
    monkeypatch.setattr(callbacks, "recall_at_k", lambda *_: {1: next(recalls)})
    weights = []
    original = callbacks.Validation.validate

    def keep(self, trainer, module):
        weights.append(module.encoder.state_dict()["backbone.0.weight"].clone())
        original(self, trainer, module)

    monkeypatch.setattr(callbacks.Validation, "validate", keep)
    train(tmp_path / "run", max_steps=100, patience=3)
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert (results["steps"], results["best_step"], results["validation_recall@1"]) == (50, 20, 0.9)
    saved = load_file(tmp_path / "run" / "model.safetensors")["backbone.0.weight"]
    assert torch.equal(saved, weights[1])
    assert not torch.equal(saved, weights[-1])


def test_a_run_that_had_stopped_early_stays_stopped_when_resumed(tmp_path, monkeypatch):
    recalls = iter([0.5, 0.9, 0.8, 0.7, 0.6, 0.95])
    monkeypatch.setattr(callbacks, "recall_at_k", lambda *_: {1: next(recalls)})
    make_run(tmp_path / "run", max_steps=100, patience=3).fit()  # and is killed before it is finished
    train(tmp_path / "run", resume=True, max_steps=100, patience=3)
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert (results["steps"], results["best_step"], results["status"]) == (50, 20, "finished")


def test_time_and_table_of_a_killed_run_go_on_where_its_checkpoint_is(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(callbacks, "LOG_EVERY", 1)
        stop_at(patch, 17)
        make_run(tmp_path / "run").fit()
    metrics = tmp_path / "run" / "metrics.csv"
    with metrics.open("a") as file:
        file.write("18,0.7,1,,0.005,,1000\n")  # written after the checkpoint
    state = torch.load(tmp_path / "run" / "last.ckpt", weights_only=True)
    state["callbacks"]["StepLog"]["seconds"] = 500.0
    torch.save(state, tmp_path / "run" / "last.ckpt")
    (tmp_path / "run" / "checksums.json").unlink()  # changed on purpose
    train(tmp_path / "run", resume=True)
    steps = [int(row["step"]) for row in csv.DictReader(metrics.open())]
    assert steps == [*range(1, 18), 20, 30]
    assert 500 <= json.loads((tmp_path / "run" / "results.json").read_text())["seconds"] < 600  # to a tenth


def test_embeddings_that_are_not_finite_at_a_validation_end_training_as_at_a_step(tmp_path, monkeypatch):
    monkeypatch.setattr(callbacks, "embed", lambda *_: np.full((359, 16), np.nan, dtype=np.float32))
    with pytest.raises(DivergenceError, match="embeddings are not finite at step 10: try a lower --lr"):
        train(tmp_path / "run")


def test_splits_are_written_down(tmp_path):
    run, _ = train(tmp_path / "run", max_steps=2)
    rows = list(csv.DictReader((tmp_path / "run" / "splits.csv").open()))
    assert [row["split"] for row in rows] == run.images.splits.tolist()
    assert [row["id"] for row in rows] == list(run.images.ids)


@pytest.mark.parametrize(
    "regime",
    [
        {"per_class": 5},
        {"imbalance": 10.0},
        {"label_noise": 0.2},
        {"batches": "random"},
        {"batches": "one-per-class"},
        {"batches": "sequential"},
    ],
    ids=str,
)
def test_every_regime_trains_and_is_part_of_the_config(regime, tmp_path):
    run, scores = train(tmp_path / "run", max_steps=12, validate_every=6, **regime)
    assert scores["bunca"]["recall@1"].value > 0.2
    assert regime.items() <= run.folder.read_config().model_dump().items()
    rows = list(csv.DictReader((tmp_path / "run" / "splits.csv").open()))
    assert sum(row["split"] == "test" for row in rows) == 359


# Warnings and errors


def warned(tmp_path, **options):
    events = []
    TrainingRun(make_config(SMALL | options, "test"), tmp_path / "run", events.append).fit()
    return [event.text for event in events if isinstance(event, WarningEvent)]


def test_a_collapsed_embedding_is_warned_about(tmp_path, monkeypatch):
    monkeypatch.setattr(callbacks, "embed", lambda *_: np.ones((359, 16), dtype=np.float32))
    monkeypatch.setattr(callbacks, "recall_at_k", lambda *_: {1: 0.1})
    assert any("collapse" in line for line in warned(tmp_path, max_steps=10))


def test_triplets_that_are_never_active_are_warned_about(tmp_path, monkeypatch):
    monkeypatch.setattr(EmbeddingModule, "active_share", lambda _: 0.0)
    monkeypatch.setattr(callbacks, "IDLE_STEPS", 40)
    assert any("no triplet was active" in line for line in warned(tmp_path, max_steps=60))


def test_a_loss_that_is_not_a_number_at_once_ends_training_with_one_line_and_no_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "bayestriplet.triplets.criteria.nca_loss", lambda triplets, **_: triplets.anchor.sum() * math.nan
    )
    with pytest.raises(DivergenceError, match="the loss is nan at step 0: try a lower --lr"):
        train(tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_network_that_diverges_keeps_its_metrics_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(callbacks, "LOG_EVERY", 1)
    with pytest.raises(
        DivergenceError,
        match=r"training failed at step .*: embeddings must be finite.*; what was measured until then is in",
    ):
        train(tmp_path / "run", lr=1e30, normalize=False, validate_every=100)
    assert read_metrics(tmp_path / "run" / "metrics.csv").step[0] == 1
    results = make_run(tmp_path / "run").folder.read_results()
    assert (results["status"], "embeddings must be finite" in results["reason"]) == ("diverged", True)
    with pytest.raises(InputError, match="diverged: train again with another --out and a lower --lr"):
        train(tmp_path / "run", resume=True, lr=1e30, normalize=False, validate_every=100)


def test_a_run_that_fails_at_the_validation_of_its_first_step_keeps_its_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(callbacks, "embed", lambda *_: np.full((360, 16), np.nan, dtype=np.float32))
    with pytest.raises(DivergenceError, match="embeddings are not finite at step 1"):
        train(tmp_path / "run", validate_every=1)
    assert make_run(tmp_path / "run").folder.read_results()["status"] == "diverged"


@pytest.mark.parametrize("options", [{}, {"lr": 1e30, "normalize": False}], ids=["finished", "diverged"])
def test_signals_are_handled_as_before_however_training_ends(tmp_path, options):
    def mine(*_):
        pass

    before = {number: signal.signal(number, mine) for number in stopping.SIGNALS}
    try:
        with contextlib.suppress(DivergenceError):
            make_run(tmp_path / "run", **options).fit()
        assert {signal.getsignal(number) for number in stopping.SIGNALS} == {mine}
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_training_in_another_thread_leaves_signals_alone(tmp_path):
    with ThreadPoolExecutor(1) as pool:
        pool.submit(make_run(tmp_path / "run", max_steps=2).fit).result()


def test_the_first_checkpoint_is_written_early_however_long_an_epoch_is(tmp_path, monkeypatch):
    monkeypatch.setattr(stopping, "FIRST_CHECKPOINT", 0.0)
    saved = []
    original = stopping.save_checkpoint

    def save(trainer, run):
        saved.append(trainer.global_step)
        original(trainer, run)

    monkeypatch.setattr(stopping, "save_checkpoint", save)
    make_run(tmp_path / "run", validate_every=30).fit()
    assert saved == [1]


def test_a_run_that_was_killed_before_its_first_checkpoint_begins_again(tmp_path):
    train(tmp_path / "whole")
    make_run(tmp_path / "run").fit()
    (tmp_path / "run" / "last.ckpt").unlink()  # as if it had been killed after its first steps
    train(tmp_path / "run", resume=True)
    files = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "run")]
    assert files[0] == files[1]


def test_equal_trainings_make_equal_files_and_can_use_each_others_index(tmp_path):
    for name in ("one", "two"):
        train(tmp_path / name, export=True)
    for file in ("config.toml", "model.safetensors", "posterior.safetensors", "predictive.safetensors",
                 "encoder.onnx", "splits.csv"):  # fmt: skip
        one, two = ((tmp_path / name / file).read_bytes() for name in ("one", "two"))
        assert one == two, file
    Index.open(tmp_path / "one").update("digits", split="test")
    assert len(Index.open(tmp_path / "two", str(tmp_path / "one" / "index"))) == 359


def test_the_untrained_floor_has_the_official_weights_that_training_began_with(tmp_path):
    torch.manual_seed(1)
    torch.save(build_backbone("resnet18", 1, 9).state_dict(), tmp_path / "official.pth")
    options = {"backbone": "resnet18", "size": 16, "dim": 8, "max_steps": 1, "validate_every": 1}
    run, scores = train(tmp_path / "run", **options, weights=str(tmp_path / "official.pth"))
    torch.manual_seed(0)
    floor = Encoder(run.outcome.encoder.info, str(tmp_path / "official.pth")).eval()
    test = run.images.indices("test")
    recall = recall_at_k(embed(floor, run.images, test), run.images.labels[test], (1,))[1]
    assert scores["untrained"]["recall@1"].value == recall


@pytest.mark.parametrize(
    ("logger", "pattern"), [("csv", "csv/metrics.csv"), ("tensorboard", "tensorboard/*")]
)
def test_a_logger_gets_the_metrics(tmp_path, logger, pattern):
    train(tmp_path / "run", logger=logger)
    assert max(file.stat().st_size for file in (tmp_path / "run").glob(pattern)) > 100


def test_wandb_logs_offline_into_the_run(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    train(tmp_path / "run", logger="wandb", max_steps=10)
    assert list((tmp_path / "run" / "wandb").glob("offline-run-*/*.wandb"))


def test_a_folder_that_is_not_empty_is_refused_and_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="is not empty: choose another --out, or go on with --resume"):
        train(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), RuntimeError("No space left on device")]
)
def test_a_full_disk_ends_training_with_one_line_and_leaves_no_half_checkpoint(error, tmp_path, monkeypatch):
    original = Trainer.save_checkpoint

    def full(self, path, *rest):
        if self.global_step == 20:
            Path(path).write_bytes(b"half")
            raise error
        original(self, path, *rest)

    monkeypatch.setattr(Trainer, "save_checkpoint", full)
    with pytest.raises(InputError, match=r"last.ckpt cannot be written: No space left on device"):
        train(tmp_path / "run")
    state = torch.load(tmp_path / "run" / "last.ckpt", weights_only=True)
    assert state["global_step"] == 10
    assert not list((tmp_path / "run").glob(".*"))


def test_a_full_disk_at_the_end_can_be_gone_on_from(tmp_path, monkeypatch):
    original = Path.write_bytes

    def full(self, content):
        if "model" in self.name:
            raise OSError(28, "No space left on device")
        return original(self, content)

    with monkeypatch.context() as patch:
        patch.setattr(
            Path,
            "write_bytes",
            lambda self, content: full(self, content) if "model" in self.name else original(self, content),
        )
        with pytest.raises(InputError, match=r"model.safetensors cannot be written: .*No space left"):
            train(tmp_path / "run")
    _, scores = train(tmp_path / "run", resume=True)
    _, whole = train(tmp_path / "whole")
    assert scores == whole


def test_a_full_disk_while_the_encoder_is_exported_is_an_error_and_can_be_gone_on_from(tmp_path, monkeypatch):
    def full(encoder, metadata, path):
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(finishing, "export_onnx", full)
        with pytest.raises(WriteError, match=r"encoder.onnx cannot be written: No space left on device"):
            train(tmp_path / "run", export=True)
    assert not list((tmp_path / "run").glob("*.onnx*"))
    train(tmp_path / "run", resume=True, export=True)
    assert RunFolder(tmp_path / "run").read_results()["status"] == "finished"
    assert (tmp_path / "run" / "encoder.onnx").is_file()


def test_a_stop_during_the_last_step_finishes_the_run(tmp_path, monkeypatch):
    stop_at(monkeypatch, 30)
    _, scores = train(tmp_path / "run")
    assert scores is not None
    assert json.loads((tmp_path / "run" / "results.json").read_text())["status"] == "finished"


@pytest.mark.parametrize("changed", ["digits/gone,5,", "digits/5,6,"], ids=["an item", "a label"])
def test_a_run_is_not_resumed_with_other_data(changed, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        stop_at(patch, 17)
        train(tmp_path / "run")
    splits = tmp_path / "run" / "splits.csv"
    assert "digits/5,5," in splits.read_text()
    splits.write_text(splits.read_text().replace("digits/5,5,", changed))
    (tmp_path / "run" / "checksums.json").unlink()  # changed on purpose
    with pytest.raises(DataError, match=r"the data have changed since .* \(first: digits/5\)"):
        train(tmp_path / "run", resume=True)


def test_files_of_a_run_can_be_read_by_anyone(tmp_path):
    train(tmp_path / "run", max_steps=2)
    assert {oct(path.stat().st_mode)[-3:] for path in (tmp_path / "run").glob("*.*")} == {"644"}


def test_without_validation_items_the_last_network_is_kept(tmp_path, monkeypatch):
    original = plan.open_data

    def without_val(*arguments, **options):
        images = original(*arguments, **options)
        return images.subset(np.flatnonzero(images.splits != "val"))

    monkeypatch.setattr(plan, "open_data", without_val)
    train(tmp_path / "run", max_steps=4)
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert (results["best_step"], results["validation_recall@1"]) == (4, None)
    predictive = Predictive.load(tmp_path / "run" / "predictive.safetensors")
    assert len(predictive.held_out) == 0
    assert np.isfinite(predictive.probabilities(np.zeros((1, 16)))).all()


def test_resuming_with_other_options_names_the_difference(tmp_path):
    train(tmp_path / "run", max_steps=4)
    with pytest.raises(InputError, match=r"dim was 16, now 8"):
        train(tmp_path / "run", resume=True, max_steps=4, dim=8)
    with pytest.raises(InputError, match="has finished its 4 steps: there is nothing to resume"):
        train(tmp_path / "run", resume=True, max_steps=4)


class Malicious:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_a_checkpoint_that_holds_code_is_refused_and_runs_nothing(tmp_path):
    train(tmp_path / "run", max_steps=4)
    (tmp_path / "run" / "results.json").unlink()
    (tmp_path / "run" / "checksums.json").unlink()  # changed on purpose
    torch.save({"global_step": Malicious(tmp_path / "proof")}, tmp_path / "run" / "last.ckpt")
    with pytest.raises(InputError, match=r"last.ckpt cannot be read as a checkpoint"):
        train(tmp_path / "run", resume=True, max_steps=4)
    assert not (tmp_path / "proof").exists()


def test_an_empty_checkpoint_is_refused_in_one_line(tmp_path):
    train(tmp_path / "run", max_steps=4)
    (tmp_path / "run" / "results.json").unlink()
    (tmp_path / "run" / "checksums.json").unlink()  # changed on purpose
    (tmp_path / "run" / "last.ckpt").write_bytes(b"")
    with pytest.raises(InputError, match=r"last.ckpt cannot be read as a checkpoint: .+"):
        train(tmp_path / "run", resume=True, max_steps=4)


def test_a_checkpoint_of_another_format_is_refused(tmp_path):
    train(tmp_path / "run", max_steps=4)
    (tmp_path / "run" / "results.json").unlink()
    (tmp_path / "run" / "checksums.json").unlink()  # changed on purpose
    torch.save({"global_step": 2, "bayestriplet_format": 0}, tmp_path / "run" / "last.ckpt")
    with pytest.raises(InputError, match=r"last.ckpt has format 0; this version reads 1"):
        train(tmp_path / "run", resume=True, max_steps=4)


def test_what_is_no_run_cannot_be_resumed(tmp_path):
    with pytest.raises(InputError, match="holds no run to resume: start one with --out"):
        train(tmp_path / "nothing", resume=True)


@pytest.mark.parametrize(
    ("backbone", "message"),
    [
        ("tests.training.networks:broken", "must return a torch module; got str"),
        ("tests.training.networks:none", "cannot be imported"),
        ("no_such_package:factory", "cannot be imported: No module named"),
        ("tests.training.networks:wide", r"must return \(B, 16\); got \(2, 17\) for B = 2"),
        ("tests.training.networks:narrow", "fails on images of 1 x 8 x 8: mat1 and mat2"),
        ("resnet19", "backbone must be one of 'resnet18', 'resnet34', 'resnet50'; got 'resnet19'"),
    ],
)
def test_a_backbone_that_cannot_be_built_is_refused(backbone, message, tmp_path):
    with pytest.raises(BayesTripletError, match=message):
        train(tmp_path / "run", backbone=backbone)
    assert not (tmp_path / "run").exists()


def test_a_backbone_with_tied_weights_is_saved_and_read(tmp_path):
    run, scores = train(tmp_path / "run", backbone="tests.training.networks:tied", max_steps=4)
    encoder = load_encoder(run.folder.model, "tests.training.networks:tied")
    test = run.images.indices("test")
    recall = recall_at_k(embed(encoder, run.images, test), run.images.labels[test], (1,))[1]
    assert recall == scores["bunca"]["recall@1"].value


def test_validation_items_are_never_trained_on(tmp_path):
    images = open_data("digits")
    parts = [set(images.indices(split)) for split in ("train", "val", "test")]
    assert sum(map(len, parts)) == len(set.union(*parts)) == 1797


def test_without_validations_the_last_network_is_kept(tmp_path):
    run, scores = train(tmp_path / "run", validate_every=0, max_steps=4)
    results = run.folder.read_results()
    assert results["validation_recall@1"] is None
    assert results["best_step"] == results["steps"] == 4
    assert run.folder.checkpoint.is_file()
    assert scores is not None


def test_a_run_with_wrong_labels_is_opened_again_with_those_it_was_trained_on(tmp_path):
    run, _ = train(tmp_path / "run", label_noise=0.4, max_steps=2)
    images = open_run_data(run.folder, "digits", run.outcome.encoder.info)
    true = open_data("digits", seed=0)
    items = images.indices("train")
    assert (images.labels[items] == run.images.labels[run.images.indices("train")]).all()
    assert (images.labels != true.labels).mean() > 0.2
    for split in ("val", "test"):
        assert (images.labels[images.indices(split)] == true.labels[true.indices(split)]).all()


def test_a_training_without_limits_has_500_steps_however_few_its_images(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(callbacks.Validation, "validate", lambda *_: None)
    original = callbacks.Validation.on_train_batch_end

    def note(self, trainer, module, *rest):
        if self.is_due(trainer.global_step, module.steps):
            seen.append(trainer.global_step)
        original(self, trainer, module, *rest)

    monkeypatch.setattr(callbacks.Validation, "on_train_batch_end", note)
    make_run(tmp_path / "run", max_steps=None, validate_every=None, per_class=5).fit()  # a step an epoch
    assert seen == list(range(50, 501, 50))


def test_of_networks_that_are_equally_good_the_later_is_kept(tmp_path, monkeypatch):
    recalls = iter([0.5, 0.9, 0.9, 0.7, 0.6])
    monkeypatch.setattr(callbacks, "recall_at_k", lambda *_: {1: next(recalls)})
    train(tmp_path / "run", max_steps=100, patience=3)
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert (results["steps"], results["best_step"]) == (50, 30)
