import math

import faiss
import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from bayestriplet import recall_at_k
from bayestriplet.errors import BayesTripletError
from bayestriplet.evaluation import metrics, neighbours


def slow_recall(x, y, k, gallery=None, gallery_labels=None):
    """Share of items with a hit among the k nearest others, one item at a time, in float64."""
    own = gallery is None
    gallery, gallery_labels = (x, y) if own else (gallery, gallery_labels)
    hits = 0
    for i in range(len(x)):
        distance = ((np.asarray(gallery, dtype=np.float64) - x[i]) ** 2).sum(1)
        if own:
            distance[i] = math.inf
        order = np.argsort(distance, kind="stable")[: min(k, len(gallery) - own)]
        hits += (gallery_labels[order] == y[i]).any()
    return hits / len(x)


@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_recall_is_that_of_a_loop_over_items_also_far_from_the_origin(offset):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 12, 300)
    x = rng.normal(size=(300, 6)) + 1.2 * rng.normal(size=(12, 6))[y] + offset
    got = recall_at_k(x, y)
    assert list(got) == [1, 4, 8, 16]
    for k, value in got.items():
        assert value == pytest.approx(slow_recall(x, y, k))


def test_query_and_gallery_apart_leave_nothing_out():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(40, 3)), rng.integers(0, 4, 40)
    gallery, labels = rng.normal(size=(25, 3)), rng.integers(0, 4, 25)
    got = recall_at_k(x, y, (1, 3), gallery=gallery, gallery_labels=labels)
    assert got == {k: pytest.approx(slow_recall(x, y, k, gallery, labels)) for k in (1, 3)}
    assert recall_at_k(x, y, (1,), gallery=x, gallery_labels=y) == {1: 1.0}


def test_an_item_is_not_its_own_neighbour_even_among_duplicates():
    # Five coinciding items, each of its own class: whoever is found, it is a miss.
    assert recall_at_k(np.zeros((5, 2)), np.arange(5), (1, 4)) == {1: 0.0, 4: 0.0}
    # Two classes of coinciding items: with all of the others in the list there is a hit.
    assert recall_at_k(np.zeros((40, 2)), np.arange(40) % 2, (39,)) == {39: 1.0}


def test_a_class_with_one_item_counts_as_a_miss():
    assert recall_at_k([[0.0], [0.1], [5.0]], [0, 0, 1], (1, 2)) == {
        1: pytest.approx(2 / 3),
        2: pytest.approx(2 / 3),
    }


def test_k_beyond_the_number_of_items_looks_at_all_of_them():
    assert recall_at_k([[0.0], [9.0], [0.1]], [0, 0, 1], (100,)) == {100: pytest.approx(2 / 3)}


def test_a_single_item_is_a_miss():
    assert recall_at_k([[1.0]], [0]) == {1: 0.0, 4: 0.0, 8: 0.0, 16: 0.0}


def test_blocks_do_not_change_the_result(monkeypatch):
    digits = load_digits()
    whole = recall_at_k(digits.data, digits.target)
    monkeypatch.setattr(neighbours, "BLOCK", 100)
    assert recall_at_k(digits.data, digits.target) == whole
    assert whole[1] > 0.98  # raw pixels of the scans


def test_neighbours_are_those_of_a_flat_faiss_index():
    x = np.random.default_rng(2).normal(size=(500, 16)).astype(np.float32)
    index = faiss.IndexFlatL2(16)
    index.add(x)
    assert (neighbours.nearest_neighbours(x, 5) == index.search(x, 6)[1][:, 1:]).all()


def test_tensors_with_gradient_or_in_half_precision_are_taken():
    x = torch.randn(30, 4, requires_grad=True)
    y = torch.arange(30) % 3
    assert recall_at_k(x, y) == recall_at_k(x.detach().numpy(), y.numpy())
    assert 0 <= recall_at_k(x.detach().bfloat16(), y)[1] <= 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ks": ()}, "ks must hold at least one number"),
        ({"ks": (0,)}, "ks must be at least 1; got 0"),
        ({"embeddings": np.zeros(3)}, r"embeddings must have shape \(n, D\)"),
        ({"embeddings": np.zeros((0, 2)), "labels": np.zeros(0, int)}, "n and D above 0"),
        ({"embeddings": np.full((3, 2), np.nan)}, "embeddings must be finite"),
        ({"embeddings": np.zeros((3, 2), int)}, "embeddings must be floating point"),
        ({"labels": np.zeros(2, int)}, r"labels must have shape \(3,\), one per embedding; got \(2,\)"),
        ({"labels": np.zeros(3)}, "labels must be integers"),
        ({"gallery": np.zeros((2, 2))}, "gallery and gallery_labels must be given together"),
        (
            {"gallery": np.zeros((2, 5)), "gallery_labels": [0, 1]},
            "gallery must have 2 columns, like embeddings; got 5",
        ),
    ],
)
def test_bad_arguments_of_recall_are_refused(arguments, message):
    with pytest.raises(BayesTripletError, match=message):
        recall_at_k(**{"embeddings": np.zeros((3, 2)), "labels": np.arange(3)} | arguments)


def slow_scores(x, y):
    """R-precision and MAP@R of every query, by loops."""
    precisions, averages = [], []
    for i in range(len(x)):
        distance = ((x - x[i]) ** 2).sum(1)
        distance[i] = math.inf
        ranked = [j for j in np.argsort(distance, kind="stable") if j != i]
        matches = (y == y[i]).sum() - 1
        hits = [y[j] == y[i] for j in ranked[:matches]]
        precisions.append(sum(hits) / matches if matches else 0)
        average = sum(sum(hits[: r + 1]) / (r + 1) for r in range(matches) if hits[r])
        averages.append(average / matches if matches else 0)
    return np.mean(precisions), np.mean(averages)


def test_r_precision_and_map_at_r_are_those_of_loops():
    rng = np.random.default_rng(3)
    y = np.concatenate([rng.integers(0, 6, 150), [77]])  # one class has a single item
    x = (
        rng.normal(size=(151, 4))
        + np.append(rng.normal(size=(6, 4)), [[9.0] * 4], 0)[np.where(y == 77, 6, y)]
    )
    scores = metrics.retrieval_scores(x, y)
    precision, average = slow_scores(x, y)
    assert scores["r-precision"].value == pytest.approx(precision)
    assert scores["map@r"].value == pytest.approx(average)
    assert {k: scores[f"recall@{k}"].value for k in (1, 4, 8, 16)} == pytest.approx(recall_at_k(x, y))


def test_scores_against_a_gallery_leave_nothing_out(monkeypatch):
    monkeypatch.setattr(neighbours, "BLOCK_CELLS", 1)  # many blocks
    x = np.array([[0.0], [1.0], [5.0]] * 30)
    y = np.array([0, 1, 2] * 30)
    scores = metrics.retrieval_scores(x, y, (1,), gallery=x[:3], gallery_labels=y[:3])
    assert {name: score.value for name, score in scores.items()} == {
        "recall@1": 1,
        "r-precision": 1,
        "map@r": 1,
    }
    without = metrics.retrieval_scores(x, y + 5, (1,), gallery=x[:3], gallery_labels=y[:3])
    assert without["map@r"].value == 0
