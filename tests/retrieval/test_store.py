"""What every store promises."""

from dataclasses import replace

import numpy as np
import pytest

from bayestriplet.errors import InputError, StateError
from bayestriplet.retrieval.conditions import Condition
from bayestriplet.retrieval.lance import LanceStore
from bayestriplet.retrieval.milvus import MilvusStore
from bayestriplet.retrieval.sets import IndexedSet, Registration, Removal
from bayestriplet.retrieval.stores import open_store
from tests.retrieval.rows import DIM, make_rows


@pytest.fixture(params=["folder", "bucket", "milvus"])
def reopen(request, tmp_path):
    """A function that opens the same, at first empty, store anew."""
    if request.param == "folder":
        return lambda: open_store(tmp_path / "run", str(tmp_path / "index"))
    if request.param == "bucket":  # the way of an object store, on the disk
        return lambda: LanceStore(f"file://{tmp_path}/bucket", None, tmp_path / "copies")
    return lambda: open_store(tmp_path / "run", str(tmp_path / "index.db"))


def test_an_empty_store_says_so(reopen):
    store = reopen()
    assert store.fingerprint() is None
    assert store.count() == 0
    assert store.items() == []
    with pytest.raises(StateError, match="holds no index"):
        store.search(np.zeros((1, DIM), np.float32), 1, [])
    assert reopen().fingerprint() is None  # asking has made nothing


def test_what_was_written_is_there_for_others(reopen):
    rows = [make_rows(range(40)), make_rows(range(40, 50), label="b")]
    reopen().write("print", DIM, iter(rows), [])
    store = reopen()
    assert (store.fingerprint(), store.count()) == ("print", 50)
    expected = {item.id: item for part in rows for item in part.items}
    assert {item.id: item for item in store.items()} == expected
    assert store.thumbnails(["set/3", "set/49", "set/none"]) == {
        "set/3": b"picture 3",
        "set/49": b"picture 49",
    }
    assert store.thumbnails([]) == {}
    assert store.prepare().startswith("search is")


def test_items_are_found_by_id_and_sampled_with_their_vectors(reopen):
    rows = [make_rows(range(40)), make_rows(range(40, 50), label="b")]
    reopen().write("print", DIM, iter(rows), [])
    store = reopen()
    expected = {
        item.id: (item, vector)
        for part in rows
        for item, vector in zip(part.items, part.vectors, strict=True)
    }
    odd = ["'; --", '"] or id != "', "\\", "\0", "../set/3", "ü\n"]
    found = store.find(["set/3", "set/49", "set/none", *odd])
    assert set(found) == {"set/3", "set/49"}
    assert store.find([]) == store.find(odd) == {}
    assert store.thumbnails(odd) == {}
    for one in [*found.values(), *store.sample(7), *store.sample(1000)]:
        assert one.item == expected[one.item.id][0]
        np.testing.assert_allclose(one.vector, expected[one.item.id][1], rtol=1e-6)
    assert len(store.sample(7)) == len({one.item.id for one in store.sample(7)}) == 7
    assert {one.item.id for one in store.sample(1000)} == set(expected)
    assert store.labels() == {"a": 40, "b": 10}


def test_the_version_changes_with_the_items_also_for_whoever_has_it_open(reopen):
    reader = reopen()
    assert reader.version() is None
    reopen().write("print", DIM, [make_rows(range(5))], [])
    first = reader.version()
    assert first is not None
    assert reader.version() == first
    assert set(reader.thumbnails(["set/4", "set/5"])) == {"set/4"}
    reopen().write("print", DIM, [make_rows(range(5, 9))], [])
    assert reader.version() != first
    assert set(reader.thumbnails(["set/4", "set/5"])) == {"set/4", "set/5"}
    assert set(reader.find(["set/8"])) == {"set/8"}


def test_every_change_gives_another_version(reopen):
    reader, writer, seen = reopen(), reopen(), []
    for rows, gone in (
        ([make_rows(range(5))], []),
        ([make_rows([3], label="relabelled")], []),
        ([make_rows([3], label="a")], []),
        ([make_rows([8])], ["set/1"]),
        ([], ["set/0"]),
        ([make_rows([0])], []),
    ):
        writer.write("print", DIM, rows, gone)
        seen.append(reader.version())
        assert reader.version() == reopen().version() == seen[-1]
    assert len(set(seen)) == len(seen)


def test_sets_are_registered_with_a_change_and_forgotten(reopen):
    one, other = IndexedSet("set", "/data/ü, 'set'", "", "set"), IndexedSet("m:test", "m", "test", "m")
    store = reopen()
    assert store.sets() == {}
    assert reopen().fingerprint() is None  # asking has made nothing
    store.write("print", DIM, [make_rows(range(5))], [], [Registration(None, one)])
    assert reopen().sets() == {"set": one}
    store.write("print", DIM, [], [], [Registration(None, other)])
    assert (reopen().sets(), store.count()) == ({"set": one, "m:test": other}, 5)
    moved = one._replace(data="/data/elsewhere")
    store.write("print", DIM, [], ["set/0"], [Registration(one, moved), Removal(other)])
    assert (reopen().sets(), store.count()) == ({"set": moved}, 4)
    with pytest.raises(StateError, match="set 'set' was changed by another process; run it again"):
        store.write("print", DIM, [make_rows([9])], [], [Registration(one, one)])
    assert (reopen().sets(), store.count()) == ({"set": moved}, 4)


def test_a_change_adds_replaces_and_removes_and_leaves_the_rest(reopen):
    store = reopen()
    store.write("print", DIM, [make_rows(range(30))], [])
    assert store.count() == 30
    store.write("print", DIM, [make_rows(range(20, 35), label="new", seed=1)], ["set/0", "set/7"])
    labels = {item.id: item.label for item in store.items()}
    assert labels == {f"set/{n}": "new" if n >= 20 else "a" for n in range(35) if n not in (0, 7)}
    found = store.search(make_rows([20], seed=1).vectors, 1, [])[0][0]
    assert (found.item.id, found.item.label) == ("set/20", "new")
    assert found.distance == pytest.approx(0, abs=1e-3)
    store.write("print", DIM, [], ["set/1"])
    assert store.count() == 32


def test_items_of_any_name_are_removed_and_no_others(reopen):
    odd = ["it's.png", "back\\slash.png", "x'] or id not in ['y.png", 'say "a".png', "ü, b.png"]
    plain, strange = make_rows(range(20)), make_rows(range(20, 25))
    items = tuple(one._replace(id=f"set/{name}") for one, name in zip(strange.items, odd, strict=True))
    store = reopen()
    store.write("print", DIM, [plain, replace(strange, items=items)], [])
    assert store.count() == 25
    for left, name in zip((24, 23, 22, 21, 20), odd, strict=True):
        store.write("print", DIM, [], [f"set/{name}"])
        assert store.count() == left
    assert {item.id for item in store.items()} == {f"set/{n}" for n in range(20)}


def test_many_neighbours_and_those_of_a_rare_label_are_exact(reopen):
    store, parts = reopen(), [make_rows(range(k, 2000, 10), label=f"l{k}") for k in range(10)]
    store.write("print", DIM, parts, [])
    queries = make_rows(range(5), seed=9).vectors
    everything = np.concatenate([part.vectors for part in parts])
    ids = [item.id for part in parts for item in part.items]
    for where, k, part in (([], 500, slice(None)), ([Condition("label", "l3")], 10, slice(600, 800))):
        for query, hits in zip(queries, store.search(queries, k, where), strict=True):
            distances = np.linalg.norm(everything[part] - query, axis=1)
            nearest = [ids[part][n] for n in distances.argsort()[:k]]
            assert [hit.item.id for hit in hits] == nearest


def test_a_sample_is_spread_over_the_items(reopen):
    parts = [make_rows(range(100 * k, 100 * k + 100), label=f"l{k}") for k in range(5)]
    store = reopen()
    store.write("print", DIM, parts, [])
    assert {one.item.label for one in store.sample(50)} == {f"l{k}" for k in range(5)}


def test_the_nearest_are_those_of_a_slow_loop(reopen):
    store, rows = reopen(), make_rows(range(300))
    store.write("print", DIM, [rows], [])
    queries = make_rows(range(5), seed=9).vectors
    for query, hits in zip(queries, store.search(queries, 7, []), strict=True):
        distances = [float(np.sqrt(((vector - query) ** 2).sum())) for vector in rows.vectors]
        order = sorted(range(300), key=lambda n: distances[n])[:7]
        assert [hit.item for hit in hits] == [rows.items[n] for n in order]
        assert [hit.distance for hit in hits] == pytest.approx([distances[n] for n in order], abs=1e-4)


def test_fewer_items_than_asked_for_are_all_found(reopen):
    store = reopen()
    store.write("print", DIM, [make_rows(range(3))], [])
    assert [len(hits) for hits in store.search(make_rows(range(2)).vectors, 10, [])] == [3, 3]


def test_conditions_hold_for_every_hit_whatever_is_in_them(reopen):
    store, odd = reopen(), "it's \"a\" \\ 'name' ü"
    store.write("print", DIM, [make_rows(range(20)), make_rows(range(20, 40), label=odd)], [])
    query = make_rows([3], seed=5).vectors
    hits = store.search(query, 40, [Condition("label", odd)])[0]
    assert sorted(hit.item.id for hit in hits) == sorted(f"set/{n}" for n in range(20, 40))
    hits = store.search(query, 40, [Condition("label", odd), Condition("group", "g1")])[0]
    assert sorted(hit.item.id for hit in hits) == sorted(f"set/{n}" for n in range(20, 40) if n % 3 == 1)
    assert store.search(query, 5, [Condition("label", "none")]) == [[]]


def test_items_of_a_group_are_left_out_exactly_and_those_without_one_stay(reopen):
    store, odd = reopen(), 'it\'s "P7" \\ ü'
    rows = make_rows(range(600))
    groups = ["", odd, "P8", "P9"]
    items = tuple(one._replace(group=groups[n % 4]) for n, one in enumerate(rows.items))
    store.write("print", DIM, [replace(rows, items=items)], [])
    assert store.groups() == dict.fromkeys(groups, 150)
    queries = make_rows(range(5), seed=9).vectors
    for left_out, k in (([odd], 10), ([odd, "P8"], 10), ([odd, "P8", "P9"], 1000), (["none"], 1000)):
        where = [Condition("group", name, is_excluded=True) for name in left_out]
        for query, hits in zip(queries, store.search(queries, k, where), strict=True):
            order = np.linalg.norm(rows.vectors - query, axis=1).argsort()
            expected = [items[n].id for n in order if items[n].group not in left_out][:k]
            assert [hit.item.id for hit in hits] == expected
    both = [Condition("group", "P8"), Condition("label", "a", is_excluded=True)]
    assert store.search(queries[:1], 3, both) == [[]]


def test_a_store_that_cannot_be_reached_is_one_line(tmp_path):
    with pytest.raises(InputError, match=r"http://127.0.0.1:1 cannot be read: Fail connecting"):
        MilvusStore("http://127.0.0.1:1").fingerprint()
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        LanceStore(str(tmp_path / "file" / "x"), tmp_path / "file" / "x", tmp_path).write("", 1, [], [])
    with pytest.raises(InputError, match=r"--store must be a folder, a .db file, or begin with s3://"):
        open_store(tmp_path, "ftp://there/x")


def test_a_file_that_is_no_milvus_is_one_line(tmp_path):
    (tmp_path / "x.db").write_text("not a database")
    with pytest.raises(InputError, match=r"x.db cannot be read: [^\n]+$"):
        open_store(tmp_path, str(tmp_path / "x.db")).fingerprint()
    assert [path.name for path in tmp_path.iterdir()] == ["x.db"]
