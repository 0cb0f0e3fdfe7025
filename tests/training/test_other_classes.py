"""Runs that are tested on classes they were not trained on."""

from bayestriplet.config import make_config
from bayestriplet.evaluation.evaluator import Evaluator
from bayestriplet.runs.folder import RunFolder
from bayestriplet.runs.splits import open_run_data, read_splits
from bayestriplet.training import trials
from bayestriplet.training.comparison import Comparison
from bayestriplet.training.events import WarningEvent, ignore
from bayestriplet.training.run import TrainingRun
from tests.data.pictures import save_picture

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
    assert scores["but"]["recall@1"].value > 0.6
    table.unlink()  # what was written down is enough
    images = open_run_data(run.folder, "digits", run.outcome.encoder.info)
    assert images.classes == tuple("0123456789")
    assert [splits[images.classes[k]] for k in images.labels] == images.splits.tolist()


def test_a_run_split_by_class_is_evaluated_on_classes_it_was_not_trained_on(tmp_path):
    run, scores = train(tmp_path / "run", split_by="class", seed=1)
    found = Evaluator(run.folder.path, backbone=SMALL["backbone"]).evaluate()
    assert found.retrieval["but"]["recall@1"].value == scores["but"]["recall@1"].value
    assert found.title.startswith(f"{len(run.images.indices('test'))} test items of digits")


def test_a_run_whose_groups_are_too_few_to_split_by_is_opened_again(tmp_path):
    lines = ["path,label,group"]
    for number in range(24):
        save_picture(tmp_path / f"{number}.png", 8, 8, seed=number)
        lines.append(f"{number}.png,{'abcdef'[number // 4]},patient")
    (tmp_path / "list.csv").write_text("\n".join(lines))
    run, _ = train(tmp_path / "run", data=str(tmp_path / "list.csv"), size=8, split_by="class", max_steps=2)
    images = open_run_data(run.folder, str(tmp_path / "list.csv"), run.outcome.encoder.info)
    assert images.splits.tolist() == run.images.splits.tolist()


def test_methods_are_compared_on_other_classes(tmp_path, monkeypatch):
    def here(missing, folder, jobs, on_event, results, images):
        for trial in missing:
            folder.mkdir(parents=True, exist_ok=True)
            trials._run_one(trial.config, folder / trial.name, images)
            results[trial.name] = trials.read_finished(folder / trial.name)

    monkeypatch.setattr(trials, "_run_missing", here)  # a process takes seconds to start
    config = make_config(SMALL | {"split_by": "class", "max_steps": 5, "validate_every": 5}, "test")
    summary = Comparison(config, ("but", "bh"), (0, 1), False).run(tmp_path / "out", 1, ignore)
    assert summary["settings"]["split_by"] == "class"
    for path in (tmp_path / "out" / "runs").iterdir():
        members = read_splits(RunFolder(path)).values()
        assert len({(one.label, one.split) for one in members}) == len({one.label for one in members}) == 10
