import numpy as np
import pyarrow
import pytest

from bayestriplet.retrieval.cells import Cells, recall_of
from bayestriplet.retrieval.columns import Column
from bayestriplet.retrieval.conditions import Condition
from bayestriplet.retrieval.items import FIELDS
from bayestriplet.retrieval.memory import Memory


@pytest.mark.parametrize(
    "values", [["a"], ["", "", ""], ["b", "a", "b", "ü-Ä", "", "a"], [str(i % 7) for i in range(100)]]
)
def test_a_column_gives_back_its_strings_also_from_disk(tmp_path, values):
    column = Column.of(values)
    column.save(tmp_path, "name")
    chunks = pyarrow.chunked_array([values[:2], values[2:]], pyarrow.string())
    for one in (column, Column.load(tmp_path, "name"), Column.of_arrow(chunks)):
        assert one.codes.tolist() == column.codes.tolist()
        assert one.take() == values
        assert one.take(np.array([len(values) - 1, 0])) == [values[-1], values[0]]
        assert one.take(np.array([], np.int64)) == []
        for value in {*values, "none"}:
            assert np.flatnonzero(one.holds(value)).tolist() == [
                i for i, v in enumerate(values) if v == value
            ]


def test_an_empty_column_is_no_problem():
    assert Column.of([]).take() == []
    assert Column.of_arrow(pyarrow.chunked_array([], pyarrow.string())).take() == []
    with pytest.raises(ValueError, match="has empty cells"):
        Column.of_arrow(pyarrow.chunked_array([["a", None]]))
    assert Column.of([]).holds("x").tolist() == []


def test_recall_counts_distances_so_that_either_of_two_that_coincide_is_right():
    exact = np.array([[1.0, 2.0], [1.0, 1.0]], np.float32)
    assert recall_of(exact, exact, 0.0) == 1
    assert recall_of(np.array([[1.0, 3.0], [1.0, 1.0]], np.float32), exact, 0.0) == 0.75
    assert recall_of(np.array([[1.0, 2.001], [1.0, 1.0]], np.float32), exact, 0.01) == 1


def test_cells_find_what_a_slow_loop_finds_also_where_items_coincide(tmp_path):
    rng = np.random.default_rng(0)
    vectors = np.repeat(rng.normal(size=(400, 8)), 5, axis=0).astype(np.float32)
    cells = Cells.build(vectors)
    assert cells.recall >= 0.99
    cells.save(tmp_path / "cells")
    loaded = Cells.load(tmp_path / "cells", cells.breadth, cells.recall)
    queries = (vectors[::40] + 0.3 * rng.normal(size=(50, 8))).astype(np.float32)
    distances = np.sort(((vectors[None] - queries[:, None]) ** 2).sum(2), axis=1)[:, :10]
    found, rows = loaded.search(queries, 10)
    assert (found <= distances[:, -1:] + 1e-4).mean() >= 0.99
    np.testing.assert_allclose(((vectors[rows] - queries[:, None]) ** 2).sum(2), found, rtol=1e-4)


def test_cells_are_as_wide_as_the_recall_needs_in_clumps_far_apart():
    rng = np.random.default_rng(0)
    clumps = 100 * rng.normal(size=(30, 16))
    vectors = (clumps[rng.integers(0, 30, 6000)] + rng.normal(size=(6000, 16))).astype(np.float32)
    cells = Cells.build(vectors)
    assert cells.index.nlist == 6000 // 40
    assert cells.recall >= 0.99


def test_cells_that_cannot_reach_the_recall_are_none(monkeypatch):
    monkeypatch.setattr("bayestriplet.retrieval.cells.WANTED", 1.1)
    assert Cells.build(np.random.default_rng(0).normal(size=(300, 4)).astype(np.float32)) is None


@pytest.mark.parametrize("k", [3, 900])
def test_a_search_in_cells_returns_as_many_as_are_wanted(k):
    rng = np.random.default_rng(0)
    vectors = (10 * np.eye(8)[rng.integers(0, 8, 2000)] + rng.normal(size=(2000, 8))).astype(np.float32)
    columns = {field: Column.of([f"{field}{i}" for i in range(2000)]) for field in FIELDS}
    cells = Cells.build(vectors)
    hits = Memory("key", "print", vectors, columns, cells).search(vectors[:5], k, [])
    assert [len(one) for one in hits] == [k] * 5
    assert [one[0].item.id for one in hits] == [f"id{i}" for i in range(5)]


@pytest.mark.parametrize("block", [7, 64, 10_000])
def test_a_search_without_a_group_is_exact_also_in_cells_and_in_blocks(monkeypatch, block):
    monkeypatch.setattr("bayestriplet.retrieval.memory.BLOCK_ROWS", block)
    vectors = np.random.default_rng(0).normal(size=(500, 8)).astype(np.float32)
    columns = {field: Column.of([f"{field}{i}" for i in range(500)]) for field in FIELDS}
    columns["group"] = Column.of([f"P{i % 5}" for i in range(500)])
    memory = Memory("key", "print", vectors, columns, Cells.build(vectors))
    others = np.flatnonzero(np.arange(500) % 5 != 2)
    for k in (3, 450):
        found = memory.search(vectors[:4], k, [Condition("group", "P2", is_excluded=True)])
        for query, hits in zip(vectors[:4], found, strict=True):
            nearest = others[np.linalg.norm(vectors[others] - query, axis=1).argsort()[:k]]
            assert [hit.item.id for hit in hits] == [f"id{row}" for row in nearest]
