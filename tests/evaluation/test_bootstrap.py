import math

import numpy as np
import pytest

from bayestriplet.evaluation import bootstrap as module
from bayestriplet.evaluation.bootstrap import bootstrap, number_clusters
from bayestriplet.evaluation.metrics import retrieval_scores


def slow_interval(values, clusters, seed):
    """The percentile interval of means over clusters drawn with replacement, one resample at a time."""
    rng = np.random.default_rng(seed)
    names = list(dict.fromkeys(sorted(clusters)))
    means = []
    for _ in range(1000):
        drawn = [names[i] for i in rng.integers(0, len(names), len(names))]
        means.append(np.mean([v for name in drawn for v in values[clusters == name]]))
    return np.percentile(means, [2.5, 97.5])


def test_bootstrap_intervals_cover_a_known_proportion():
    values = {"hits": (np.arange(2000) < 600).astype(float)}
    score = bootstrap(values, seed=0)["hits"]
    error = math.sqrt(0.3 * 0.7 / 2000)
    assert score.value == pytest.approx(0.3)
    assert score.low == pytest.approx(0.3 - 1.96 * error, abs=0.2 * error)
    assert score.high == pytest.approx(0.3 + 1.96 * error, abs=0.2 * error)
    assert bootstrap(values, seed=0)["hits"] == score


def test_all_queries_of_a_cluster_are_drawn_together():
    rng = np.random.default_rng(5)
    clusters = np.array([f"patient {p}" for p in rng.integers(0, 9, 200)])
    values = rng.random(200) + np.char.str_len(clusters)
    score = bootstrap({"measure": values}, 3, clusters)["measure"]
    assert score.value == pytest.approx(values.mean())
    assert (score.low, score.high) == pytest.approx(tuple(slow_interval(values, clusters, 3)))


def test_a_cluster_for_every_query_is_no_cluster_at_all(monkeypatch):
    values = {"a": np.random.default_rng(0).random(50), "b": np.arange(50.0)}
    plain = bootstrap(values, 1)
    for clusters in (np.arange(50), np.full(50, "")):
        assert bootstrap(values, 1, clusters) == plain
    monkeypatch.setattr(module, "BLOCK_CELLS", 7)  # one resample at a time
    assert {name: one.low for name, one in bootstrap(values, 1).items()} == pytest.approx(
        {name: one.low for name, one in plain.items()}
    )


def test_an_item_without_a_name_is_a_cluster_of_its_own():
    numbers = number_clusters(np.array(["b", "", "a", "b", ""]))
    assert sorted(np.bincount(numbers).tolist()) == [1, 1, 1, 2]
    assert numbers[0] == numbers[3]


def test_queries_of_one_patient_are_worth_less_than_as_many_of_others():
    """Queries of one group hit or miss together: the interval over groups is the wider one."""
    rng = np.random.default_rng(1)
    groups = np.repeat([f"p{i}" for i in range(20)], 20)
    y = np.tile([0, 1], 200)
    centre = rng.normal(size=(20, 2, 2)) + np.array([[0.0, 0.0], [1.5, 0.0]])  # (groups, classes, 2)
    x = centre[np.arange(400) // 20, y] + 0.1 * rng.normal(size=(400, 2))
    one_by_one = retrieval_scores(x, y, groups=groups, clusters=np.arange(400))["recall@1"]
    together = retrieval_scores(x, y, groups=groups)["recall@1"]
    assert together.value == one_by_one.value
    assert together.high - together.low > 1.5 * (one_by_one.high - one_by_one.low)
