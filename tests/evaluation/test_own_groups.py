"""Neighbours of the query's own group are left out: against a loop over the items."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayestriplet import recall_at_k
from bayestriplet.errors import InputError, InputTypeError
from bayestriplet.evaluation import neighbours
from bayestriplet.evaluation.metrics import retrieval_scores


def slow_figures(x, y, groups, ks, gallery=None, gallery_labels=None, gallery_groups=None):
    """Every measure of every query that has a match in another group, by loops in float64."""
    own = gallery is None
    if own:
        gallery, gallery_labels, gallery_groups = x, y, groups
    rows = {}
    for i in range(len(x)):
        others = [
            j
            for j in range(len(gallery))
            if not (own and i == j) and not (groups[i] != "" and groups[i] == gallery_groups[j])
        ]
        distance = {j: float(((np.asarray(gallery[j], float) - x[i]) ** 2).sum()) for j in others}
        hits = [gallery_labels[j] == y[i] for j in sorted(others, key=distance.get)]
        matches = sum(hits)
        if matches:
            first = hits[:matches]
            rows[i] = {f"recall@{k}": float(any(hits[:k])) for k in ks}
            rows[i]["r-precision"] = sum(first) / matches
            rows[i]["map@r"] = (
                sum(sum(first[: r + 1]) / (r + 1) for r in range(matches) if first[r]) / matches
            )
    return rows


def means(rows):
    return {name: np.mean([row[name] for row in rows.values()]) for name in next(iter(rows.values()))}


def items(seed, number, groups, empty=0.2):
    """Clustered vectors, labels, and groups of very different sizes, some empty."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 4, number)
    sizes = rng.integers(0, groups, number) * rng.integers(0, 2, number)  # group 0 has about half of all
    names = np.array([f"slide {g}" for g in sizes])
    names[rng.random(number) < empty] = ""
    x = rng.normal(size=(number, 3)) + 0.7 * rng.normal(size=(4, 3))[y]
    return x, y, names


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10_000),
    st.integers(2, 40),
    st.integers(1, 8),
    st.booleans(),
    st.sampled_from([0.0, 0.3, 1.0]),
)
def test_figures_without_the_own_group_are_those_of_loops(seed, number, groups, apart, empty):
    x, y, names = items(seed, number, groups, empty)
    more = {}
    if apart:
        gallery, labels, others = items(seed + 1, 30, groups, empty)
        more = {"gallery": gallery, "gallery_labels": labels, "gallery_groups": others}
    expected = slow_figures(x, y, names, (1, 2, 5), *more.values())
    if not expected:
        with pytest.raises(InputError, match="groups leave no query with an item of its class in another"):
            recall_at_k(x, y, (1, 2, 5), groups=names, **more)
        return
    found = retrieval_scores(x, y, (1, 2, 5), groups=names, **more)
    assert {name: score.value for name, score in found.items()} == pytest.approx(means(expected))
    recalls = recall_at_k(x, y, (1, 2, 5), groups=names, **more)
    assert {f"recall@{k}": value for k, value in recalls.items()} == pytest.approx(
        {name: value for name, value in means(expected).items() if name.startswith("recall")}
    )


def test_an_own_group_larger_than_the_list_does_not_hide_the_others(monkeypatch):
    monkeypatch.setattr(neighbours, "BLOCK_CELLS", 1)  # many blocks, of different depths
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(size=(300, 2)) * 0.01, rng.normal(size=(30, 2)) + 50])
    y = np.concatenate([np.arange(300) % 2, np.arange(30) % 2])
    names = np.array(["large"] * 300 + [f"small {i // 3}" for i in range(30)])
    expected = slow_figures(x, y, names, (1, 4))
    assert len(expected) == 330
    found = retrieval_scores(x, y, (1, 4), groups=names)
    assert {name: score.value for name, score in found.items()} == pytest.approx(means(expected))


def test_items_without_a_group_leave_out_only_themselves():
    x, y, _ = items(3, 50, 4)
    nobody = np.full(50, "")
    assert recall_at_k(x, y, groups=nobody) == recall_at_k(x, y)
    gallery = {"gallery": x[:20], "gallery_labels": y[:20]}
    assert recall_at_k(x, y, groups=nobody, gallery_groups=nobody[:20], **gallery) == recall_at_k(
        x, y, **gallery
    )


def test_groups_may_be_numbers():
    x, y, names = items(4, 60, 5, empty=0.0)
    numbers = np.unique(names, return_inverse=True)[1] - 7
    assert recall_at_k(x, y, groups=numbers) == recall_at_k(x, y, groups=names.tolist())


def test_coinciding_items_of_the_own_group_are_left_out():
    x, y = np.zeros((60, 2)), np.arange(60) % 2
    names = np.array(["a", "b"])[np.arange(60) % 2]  # each class is one group
    with pytest.raises(InputError, match="groups leave no query"):
        recall_at_k(x, y, groups=names)
    assert recall_at_k(x, y, (30,), groups=np.array(["a", "b"])[np.arange(60) // 2 % 2])[30] == 1.0


@pytest.mark.parametrize(
    ("more", "error", "message"),
    [
        ({"groups": ["a"]}, InputError, r"groups must have shape \(3,\), one per item; got \(1,\)"),
        ({"groups": [0.5, 1.0, 2.0]}, InputTypeError, "groups must be names or integers; got float64"),
        ({"gallery_groups": ["a"]}, InputError, "gallery_groups needs a gallery"),
        (
            {"groups": ["a"] * 3, "gallery": np.zeros((1, 2)), "gallery_labels": [0]},
            InputError,
            "groups and gallery_groups must be given together",
        ),
        (
            {"groups": ["a"] * 3, "gallery": np.zeros((1, 2)), "gallery_labels": [0], "gallery_groups": [1]},
            InputTypeError,
            "must both be names, or both be integers",
        ),
    ],
)
def test_bad_groups_are_refused(more, error, message):
    with pytest.raises(error, match=message):
        recall_at_k(np.zeros((3, 2)), np.arange(3), **more)
