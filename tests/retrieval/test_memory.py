import numpy as np
import pytest

from bayestriplet.retrieval.columns import Column
from bayestriplet.retrieval.graph import Graph, recall_of


@pytest.mark.parametrize(
    "values", [["a"], ["", "", ""], ["b", "a", "b", "ü-Ä", "", "a"], [str(i % 7) for i in range(100)]]
)
def test_a_column_gives_back_its_strings_also_from_disk(tmp_path, values):
    column = Column.of(values)
    column.save(tmp_path, "name")
    for one in (column, Column.load(tmp_path, "name")):
        assert one.take() == values
        assert one.take(np.array([len(values) - 1, 0])) == [values[-1], values[0]]
        assert one.take(np.array([], np.int64)) == []
        for value in {*values, "none"}:
            assert one.rows(value).tolist() == [i for i, v in enumerate(values) if v == value]


def test_an_empty_column_is_no_problem():
    assert Column.of([]).take() == []
    assert Column.of([]).rows("x").tolist() == []


def test_recall_counts_distances_so_that_either_of_two_that_coincide_is_right():
    exact = np.array([[1.0, 2.0], [1.0, 1.0]], np.float32)
    assert recall_of(exact, exact, 0.0) == 1
    assert recall_of(np.array([[1.0, 3.0], [1.0, 1.0]], np.float32), exact, 0.0) == 0.75
    assert recall_of(np.array([[1.0, 2.001], [1.0, 1.0]], np.float32), exact, 0.01) == 1


def test_a_graph_finds_what_a_slow_loop_finds_also_where_items_coincide(tmp_path):
    rng = np.random.default_rng(0)
    vectors = np.repeat(rng.normal(size=(400, 8)), 5, axis=0).astype(np.float32)
    graph = Graph.build(vectors)
    assert graph.recall >= 0.99
    graph.save(tmp_path / "graph")
    loaded = Graph.load(tmp_path / "graph", graph.breadth, graph.recall)
    assert (loaded.vectors == vectors).all()
    queries = rng.normal(size=(50, 8)).astype(np.float32)
    distances = np.sort(((vectors[None] - queries[:, None]) ** 2).sum(2), axis=1)[:, :10]
    found, _ = loaded.search(queries, 10)
    assert (found <= distances[:, -1:] + 1e-4).mean() >= 0.99


def test_a_graph_that_cannot_reach_the_recall_is_none(monkeypatch):
    monkeypatch.setattr("bayestriplet.retrieval.graph.WANTED", 1.1)
    assert Graph.build(np.random.default_rng(0).normal(size=(300, 4)).astype(np.float32)) is None
