"""Runs that are tested on classes they were not trained on."""

import pytest
import torch

from bayestriplet import recall_at_k
from bayestriplet.config import make_config
from bayestriplet.errors import InputError
from bayestriplet.evaluation.embeddings import embed
from bayestriplet.evaluation.encoders import load_encoder
from bayestriplet.evaluation.evaluator import Evaluator
from bayestriplet.report.results import EvaluationResult
from bayestriplet.runs.folder import RunFolder
from bayestriplet.runs.splits import open_run_data, read_splits
from bayestriplet.training import module, trials
from bayestriplet.training.comparison import Comparison
from bayestriplet.training.events import WarningEvent, ignore
from bayestriplet.training.run import TrainingRun
from tests.data.pictures import save_picture
from tests.evaluation.test_evaluator import write_npz

SMALL = {
    "data": "digits",
    "backbone": "tests.training.networks:small",
    "dim": 16,
    "max_steps": 20,
    "validate_every": 10,
}


def train(out, on_event=ignore, **options):
    run = TrainingRun(make_config(SMALL | options, "test"), out, on_event)
    run.fit()
    return run, run.finish(export=False)


def test_a_run_on_other_classes_is_opened_again_with_its_splits(tmp_path):
    table = tmp_path / "classes.csv"
    splits = {**dict.fromkeys("02468", "train"), **dict.fromkeys("13", "val"), **dict.fromkeys("579", "test")}
    table.write_text("\n".join(["class,split", *(f"{name},{split}" for name, split in splits.items())]))
    events = []
    run, scores = train(tmp_path / "run", events.append, split_by=f"class:{table}")
    assert not [one.text for one in events if isinstance(one, WarningEvent)]
    assert scores["bunca"]["recall@1"].value > 0.6
    table.unlink()  # what was written down is enough
    images = open_run_data(run.folder, "digits", run.outcome.encoder.info)
    assert images.classes == tuple("0123456789")
    assert [splits[images.classes[k]] for k in images.labels] == images.splits.tolist()


def test_a_criterion_knows_only_the_classes_that_are_trained_on(tmp_path, monkeypatch):
    made, build = [], module.build_criterion

    def build_and_keep(*args, **options):
        made.append(build(*args, **options))
        return made[-1]

    monkeypatch.setattr(module, "build_criterion", build_and_keep)
    run, _ = train(tmp_path / "run", split_by="class", seed=1, method="bunca")
    trained = set(run.images.labels[run.images.indices("train")].tolist())
    assert len(trained) < len(run.images.classes) == 10
    assert made[0].posterior.num_classes == len(trained)
    assert (made[0].posterior.seen > 0).all()


def test_a_checkpoint_that_counts_other_classes_is_refused_in_one_line(tmp_path):
    run, _ = train(tmp_path / "run", split_by="class", seed=1)
    other = module.EmbeddingModule(run.outcome.encoder, run.config, 1, 10)
    checkpoint = torch.load(run.folder.checkpoint, weights_only=True)
    with pytest.raises(InputError, match="also counted classes without training items: train again"):
        other.on_load_checkpoint(checkpoint)


def test_a_run_split_by_class_is_evaluated_on_classes_it_was_not_trained_on(tmp_path):
    run, scores = train(tmp_path / "run", split_by="class", seed=1)
    found = Evaluator(run.folder.path, backbone=SMALL["backbone"]).evaluate()
    assert found.retrieval["bunca"]["recall@1"].value == scores["bunca"]["recall@1"].value
    assert found.title.startswith(f"{len(run.images.indices('test'))} test items of digits")


def validation_recall(run):
    """Recall@1 of the kept network among the validation items, by the splits that were written down."""
    images = open_run_data(run, "digits", load_encoder(run.model, trusted=SMALL["backbone"]).info)
    rows = images.indices("val")
    trained = set(images.labels[images.indices("train")])
    assert trained.isdisjoint(images.labels[rows])
    vectors = embed(load_encoder(run.model, trusted=SMALL["backbone"]), images, rows)
    return recall_at_k(vectors, images.labels[rows], (1,))[1]


def test_classes_are_resampled_and_every_measure_of_retrieval_is_shown(tmp_path):
    run, _ = train(tmp_path / "run", split_by="class", seed=1)
    found = EvaluationResult.of(Evaluator(run.folder.path, backbone=SMALL["backbone"]).evaluate())
    assert set(found.retrieval["bunca"]) >= {"recall@1", "r-precision", "map@r"}
    lines = str(found).splitlines()
    assert lines[2].split() == ["embedding", "R@1", "R@4", "R@8", "R@16", "R-prec", "MAP@R"]
    assert "Percent ± half the 95% interval; intervals resample classes (2)" in lines
    assert found.galleries == {}
    assert lines[-2:] == [
        "Not measured against the training items: none of the test items is of a class that was trained on.",
        "No probabilities: none of the test items is of a class that was trained on.",
    ]
    results = run.folder.read_results()
    assert results["gallery"]["resampled"] == "classes"
    assert results["notes"] == [lines[-2]]


def test_classes_never_trained_on_validate_and_stop_a_training(tmp_path):
    """A network that hardly moves is measured on unseen classes, and waits for their figure in vain."""
    run, _ = train(tmp_path / "run", split_by="class", lr=1e-9, patience=1, validate_every=2, max_steps=50)
    results = run.folder.read_results()
    assert results["steps"] == 4
    assert results["validation_recall@1"] == pytest.approx(validation_recall(run.folder))


def test_novelty_that_cannot_be_measured_is_said_in_one_line(tmp_path):
    run, _ = train(tmp_path / "run", split_by="class", without="3")
    found = Evaluator(run.folder.path, backbone=SMALL["backbone"]).evaluate()
    assert found.novelty is None
    assert found.notes[-1] == (
        "No probabilities and no novelty: none of the test items is of a class that was trained on."
    )


def test_a_held_out_class_without_test_items_is_said_in_one_line(tmp_path):
    data = write_npz(tmp_path / "d.npz", {"train": range(6), "val": range(6), "test": range(5)})
    run, _ = train(tmp_path / "run", data=data, without="5")
    found = Evaluator(run.folder.path, backbone=SMALL["backbone"]).evaluate()
    assert found.probabilities is not None
    assert found.notes == ("No novelty: no test item is of a class that was held out with --without (5).",)


def test_a_run_whose_groups_are_too_few_to_split_by_is_opened_again(tmp_path):
    lines = ["path,label,group"]
    for number in range(24):
        save_picture(tmp_path / f"{number}.png", 8, 8, seed=number)
        lines.append(f"{number}.png,{'abcdef'[number // 4]},patient")
    (tmp_path / "list.csv").write_text("\n".join(lines))
    run, _ = train(tmp_path / "run", data=str(tmp_path / "list.csv"), size=8, split_by="class", max_steps=2)
    images = open_run_data(run.folder, str(tmp_path / "list.csv"), run.outcome.encoder.info)
    assert images.splits.tolist() == run.images.splits.tolist()


@pytest.fixture
def in_this_process(monkeypatch):
    def here(missing, folder, jobs, on_event, results, images, measure):
        for trial in missing:
            folder.mkdir(parents=True, exist_ok=True)
            trials._run_one(trial.config, folder / trial.name, images, measure)
            results[trial.name] = trials.read_finished(folder / trial.name)

    monkeypatch.setattr(trials, "_run_missing", here)  # a process takes seconds to start


@pytest.mark.usefixtures("in_this_process")
def test_options_are_searched_by_classes_never_trained_on(tmp_path):
    config = make_config(SMALL | {"split_by": "class", "max_steps": 3, "validate_every": 3}, "test")
    summary = Comparison(config, ("but",), (0,), True).run(tmp_path / "out", 1, ignore)
    recalls = []
    for path in (tmp_path / "out" / "runs").iterdir():
        found = RunFolder(path).read_results()["validation_recall@1"]
        assert found == pytest.approx(validation_recall(RunFolder(path)))
        recalls.append(round(100 * found, 2))
    assert sorted(recalls) == sorted(one["validation"] for one in summary["searched"]["but"])
    chosen = summary["methods"]["but"]
    assert chosen["seeds"]["0"]["validation"] == pytest.approx(max(recalls), abs=0.01)


@pytest.mark.usefixtures("in_this_process")
def test_methods_are_compared_on_other_classes(tmp_path):
    config = make_config(SMALL | {"split_by": "class", "max_steps": 5, "validate_every": 5}, "test")
    summary = Comparison(config, ("but", "bh"), (0, 1), False).run(tmp_path / "out", 1, ignore)
    assert summary["settings"]["split_by"] == "class"
    for path in (tmp_path / "out" / "runs").iterdir():
        members = read_splits(RunFolder(path)).values()
        assert len({(one.label, one.split) for one in members}) == len({one.label for one in members}) == 10


def test_a_folder_of_few_items_a_class_says_what_can_be_measured_and_how_to_split(tmp_path):
    for number in range(24):
        save_picture(tmp_path / "few" / "abcdef"[number // 4] / f"{number}.png", 8, 8, seed=number)
    events = []
    run, _ = train(tmp_path / "run", events.append, data=str(tmp_path / "few"), size=8, max_steps=2)
    assert (
        "no class has two test images, so nothing can be measured among them: add images, or split whole "
        "classes with --split-by class"
    ) in [one.text for one in events if isinstance(one, WarningEvent)]
    found = EvaluationResult.of(Evaluator(run.folder.path, backbone=SMALL["backbone"]).evaluate())
    assert found.gallery.unmatched == found.gallery.queries
    assert found.galleries["against the training items"].unmatched == 0
