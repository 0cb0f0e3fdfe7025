import numpy as np
import pytest
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors

from bayestriplet.evaluation import calibration
from bayestriplet.evaluation.calibration import Judged
from bayestriplet.evaluation.embeddings import Embedded
from bayestriplet.evaluation.probabilities import (
    NEIGHBOURS,
    SMOOTHING,
    WAYS,
    RunVectors,
    compare_ways,
    distance_by,
    measure,
    nearest_distances,
    novelty_aurocs,
    vote_by,
)

CLASSES = 4  # the third has no items


def made(number, seed):
    rng = np.random.default_rng(seed)
    labels = rng.choice([0, 1, 3], number, p=[0.5, 0.3, 0.2])
    centers = np.random.default_rng(3).normal(size=(CLASSES, 5))
    return Embedded((centers[labels] + rng.normal(size=(number, 5))).astype(np.float32), labels)


@pytest.fixture(scope="module")
def vectors():
    return RunVectors(made(400, 0), made(200, 1), made(150, 2))


def test_the_vote_is_sklearns_smoothed_with_the_best_choice_on_validation_items(vectors):
    train, val, test = vectors.train, vectors.val, vectors.test
    best = None
    for k in NEIGHBOURS:
        model = KNeighborsClassifier(k).fit(train.vectors, train.labels)
        for a in SMOOTHING:
            smooth = [
                (model.predict_proba(x.vectors) * k + a) / (k + CLASSES * a) for x in (val, test)
            ]  # the absent class has the rest
            column = np.searchsorted([0, 1, 3], val.labels)
            loss = -np.log(smooth[0][np.arange(len(val.labels)), column]).mean()
            if best is None or loss < best[0]:
                best = (loss, smooth[1])
    found = np.exp(vote_by(vectors, CLASSES)(test.vectors))
    np.testing.assert_allclose(found.sum(1), 1)
    np.testing.assert_allclose(found[:, [0, 1, 3]], best[1], rtol=1e-9)


def test_a_gallery_smaller_than_the_largest_vote_can_vote():
    few = RunVectors(made(6, 0), made(9, 1), made(5, 2))
    assert np.isfinite(vote_by(few, CLASSES)(few.test.vectors)).all()


def test_distances_are_a_softmax_around_slow_means_with_the_best_temperature(vectors):
    prior = np.bincount(vectors.train.labels, minlength=4) / 400
    with np.errstate(divide="ignore"):
        found = distance_by(vectors, np.log(prior))(vectors.test.vectors)
    assert (found[:, 2] == -np.inf).all()
    means = {k: vectors.train.vectors[vectors.train.labels == k].mean(0) for k in (0, 1, 3)}

    def slow(items, temperature):
        joint = [[prior[k] * np.exp(-((x - m) ** 2).sum() / temperature) for k, m in means.items()]
                 for x in items.vectors.astype(np.float64)]  # fmt: skip
        return np.array(joint) / np.sum(joint, 1, keepdims=True)

    def loss(temperature):  # a label is certain up to 1 - 1 / (n + 2)
        target = np.eye(4)[vectors.val.labels][:, [0, 1, 3]] * 201 / 202 + prior[[0, 1, 3]] / 202
        return -(target * np.log(slow(vectors.val, temperature))).sum(1).mean()

    grid = np.geomspace(1, 4, 60)
    expected = slow(vectors.test, grid[np.argmin([loss(t) for t in grid])])
    np.testing.assert_allclose(np.exp(found)[:, [0, 1, 3]], expected, atol=0.01)


def test_the_three_ways_are_compared_on_the_test_items(vectors):
    uniform = np.log(np.full((150, 4), 0.25))
    ways = compare_ways(vectors, CLASSES, lambda x: uniform[: len(x)])
    assert tuple(ways) == WAYS
    for way in ways.values():
        found = way(vectors.test.vectors)
        np.testing.assert_allclose(np.exp(found).sum(1), 1)


def test_a_measure_is_sklearns_log_loss_and_the_share_of_right_classes(vectors):
    labels = vectors.test.labels
    found = vote_by(vectors, CLASSES)(vectors.test.vectors)
    row = measure(Judged.of(found, labels))
    assert row.log_loss.value == pytest.approx(log_loss(labels, np.exp(found), labels=range(4)))
    assert row.accuracy.value == (found.argmax(1) == labels).mean()
    assert row.log_loss.low < row.log_loss.value < row.log_loss.high
    assert 0 <= row.ece <= 1


@pytest.mark.parametrize("cells", [1, 4 * 7, 4 * 150, 10**6])
def test_probabilities_judged_in_blocks_are_those_judged_at_once(vectors, cells, monkeypatch):
    way, items = vote_by(vectors, CLASSES), vectors.test
    whole = Judged.of(way(items.vectors), items.labels)
    monkeypatch.setattr(calibration, "CELLS", cells)
    found = Judged.by(way, items.vectors, items.labels, CLASSES)
    for name in ("confidence", "right", "loss"):
        np.testing.assert_array_equal(getattr(found, name), getattr(whole, name))
    assert Judged.by(way, items.vectors[:0], items.labels[:0], CLASSES).right.shape == (0,)


def test_novelty_is_told_by_scores_and_by_the_distance_to_the_nearest_training_item(vectors):
    novel = made(60, 5).vectors + 2
    index = NearestNeighbors(n_neighbors=1).fit(vectors.train.vectors)
    distances = [index.kneighbors(x)[0][:, 0] for x in (novel, vectors.test.vectors)]
    np.testing.assert_allclose(nearest_distances(novel, vectors.train.vectors), distances[0], rtol=1e-5)
    found = novelty_aurocs(novel, vectors, lambda x: x.sum(1).astype(np.float64))
    is_novel = np.repeat([1, 0], [60, 150])
    assert found["nearest training item"] == pytest.approx(roc_auc_score(is_novel, np.concatenate(distances)))
    sums = np.concatenate([novel.sum(1), vectors.test.vectors.sum(1)])
    assert found["posterior"] == pytest.approx(roc_auc_score(is_novel, sums))
