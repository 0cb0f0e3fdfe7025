import json
import time

import numpy as np
import pytest

import bayestriplet as bt
from bayestriplet.config import make_config
from bayestriplet.errors import InputError
from bayestriplet.evaluation.evaluator import Evaluator
from bayestriplet.evaluation.few_shot import EPISODES, QUERIES, accuracies, draw_episodes
from bayestriplet.report.results import EvaluationResult
from bayestriplet.training.run import TrainingRun

SIZES = (1, 2, 3, 7, 20, 40, 5)


def items(seed=0, dim=6, sizes=SIZES, away=0.0):
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(len(sizes)) * 10 + 3, sizes))
    return away + rng.normal(size=(len(labels), dim)) + 0.1 * labels[:, None] * np.eye(dim)[0], labels


@pytest.mark.parametrize(("ways", "shots"), [(2, 1), (5, 1), (3, 5), (4, 2)])
def test_an_episode_has_distinct_items_of_distinct_classes(ways, shots):
    _, labels = items()
    drawn = draw_episodes(labels, ways, shots, QUERIES, 50, 0)
    assert drawn.examples.shape == (50, ways, shots)
    enough = [k for k, size in zip(np.unique(labels), SIZES, strict=True) if size > shots]
    assert (drawn.classes, drawn.left_out) == (len(enough), len(SIZES) - len(enough))
    for examples, queries in zip(drawn.examples, drawn.queries, strict=True):
        classes = labels[examples[:, 0]]
        assert len(set(classes)) == ways
        assert set(classes) <= set(enough)
        for k, some, others in zip(classes, examples, queries, strict=True):
            asked = others[others >= 0]
            assert len({*some, *asked}) == shots + len(asked)
            assert (labels[[*some, *asked]] == k).all()
            assert len(asked) == min(QUERIES, (labels == k).sum() - shots)


def test_every_class_and_item_is_drawn_about_as_often_as_any_other():
    labels = np.repeat(np.arange(10), 8)
    drawn = draw_episodes(labels, 5, 1, 3, 4000, 0)
    often = np.bincount(drawn.examples.ravel(), minlength=80)
    assert often.sum() == 20_000
    assert abs(often - 250).max() < 5 * np.sqrt(250)  # five deviations


@pytest.mark.parametrize("away", [0.0, 1000.0])
@pytest.mark.parametrize(("ways", "shots"), [(2, 1), (5, 1), (3, 5)])
def test_accuracies_are_those_of_a_loop_over_queries(ways, shots, away):
    vectors, labels = items(away=away)
    drawn = draw_episodes(labels, ways, shots, QUERIES, 40, 1)
    expected = []
    for examples, queries in zip(drawn.examples, drawn.queries, strict=True):
        means, right = [vectors[rows].mean(0) for rows in examples], []
        for k, rows in enumerate(queries):
            for row in rows[rows >= 0]:
                distances = [np.linalg.norm(vectors[row] - mean) for mean in means]
                right.append(np.argmin(distances) == k)
        expected.append(np.mean(right))
    assert accuracies(vectors, drawn) == pytest.approx(np.array(expected), abs=1e-12)
    found = bt.few_shot_accuracy(vectors, labels, ways, shots, episodes=40, seed=1)
    assert found.value == pytest.approx(np.mean(expected))
    half = 1.96 * np.std(expected, ddof=1) / np.sqrt(40)
    assert (found.low, found.high) == pytest.approx((found.value - half, found.value + half))


def test_an_embedding_without_any_difference_guesses():
    found = bt.few_shot_accuracy(np.zeros((60, 3)), np.arange(60) % 6, 5, 1, episodes=20)
    assert found.value == pytest.approx(0.2)


def test_too_few_classes_are_refused_in_one_line():
    vectors, labels = items()
    with pytest.raises(InputError, match="5-shot episodes need 5 classes with at least 6 items; there are 3"):
        bt.few_shot_accuracy(vectors, labels, 5, 5)
    with pytest.raises(InputError, match="shots must be at least 1; got 0"):
        bt.few_shot_accuracy(vectors, labels, 5, 0)


def test_a_thousand_episodes_of_all_four_kinds_take_seconds():
    labels = np.repeat(np.arange(659), 20)
    vectors = np.random.default_rng(0).normal(size=(len(labels), 128)).astype(np.float32)
    start = time.process_time()
    for ways, shots in ((5, 1), (5, 5), (20, 1), (20, 5)):
        bt.few_shot_accuracy(vectors, labels, ways, shots)
    assert time.process_time() - start < 20


def write_vectors(path, classes, items=8):
    rng = np.random.default_rng(1)
    labels = np.repeat(np.arange(classes), items)
    vectors = rng.normal(size=(classes, 12))[labels] + 0.5 * rng.normal(size=(len(labels), 12))
    splits = np.array(["train", "val", "test"])[labels * 3 // classes]
    np.savez(path, vectors=vectors.astype(np.float32), labels=labels, splits=splits)
    return f"vectors:{path}"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("few-shot")
    options = {"data": write_vectors(folder / "vectors.npz", 72), "dim": 8, "max_steps": 20}
    made = TrainingRun(make_config(options, "test"), folder / "run")
    made.fit()
    made.finish(export=False)
    return made


def test_a_run_on_vectors_is_measured_in_the_episodes_of_its_test_classes(run):
    found = EvaluationResult.of(Evaluator(run.folder.path).evaluate(few_shot=True))
    assert [(task.ways, task.shots) for task in found.few_shot.tasks] == [(5, 1), (5, 5), (20, 1), (20, 5)]
    images = run.images
    rows = images.indices("test")
    given = images.read(rows) / np.linalg.norm(images.read(rows), axis=1, keepdims=True)
    for task in found.few_shot.tasks:
        assert (task.classes, task.left_out, set(task.rows)) == (24, 0, {"bunca", "vectors as given"})
        expected = bt.few_shot_accuracy(given, images.labels[rows], task.ways, task.shots)
        assert task.rows["vectors as given"].value == pytest.approx(expected.value, abs=1e-3)
    lines = str(found).splitlines()
    title = "Few-shot accuracy on 192 test items of vectors"
    head = lines[lines.index(title) + 2].split()
    assert head == [
        "embedding",
        *["5-way", "1-shot", "5-way", "5-shot", "20-way", "1-shot", "20-way", "5-shot"],
    ]
    assert max(map(len, lines[lines.index(title) : lines.index(title) + 9])) <= 80
    written = json.loads(json.dumps(found.to_json()))["few_shot"]
    assert (written["episodes"], written["queries"], len(written["tasks"])) == (EPISODES, QUERIES, 4)
    assert Evaluator(run.folder.path).evaluate().few_shot is None
    assert not any("trained on: for new ones" in note for note in found.notes)


def test_classes_that_were_trained_on_are_said_to_be(run):
    found = Evaluator(run.folder.path).evaluate(split="train", few_shot=True)
    assert "Few-shot accuracy includes classes that were trained on" in found.notes[-1]


def test_other_data_are_measured_as_far_as_they_have_classes(run, tmp_path):
    data = write_vectors(tmp_path / "few.npz", 18)
    found = EvaluationResult.of(Evaluator(run.folder.path).evaluate(data, few_shot=True))
    assert [(task.ways, task.shots) for task in found.few_shot.tasks] == [(5, 1), (5, 5)]
    assert "Not measured 20-way 1-shot: fewer than 20 classes have at least 2 items." in found.notes
    with pytest.raises(InputError, match="few-shot needs 5 classes with at least 2 items; the test items"):
        Evaluator(run.folder.path).evaluate(write_vectors(tmp_path / "two.npz", 6), few_shot=True)
