"""What only LanceDB promises: versions, whole changes, copies in memory."""

import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import lancedb
import numpy as np
import pytest

from bayestriplet.errors import InputError, StateError
from bayestriplet.retrieval import lance, lance_tables, memory
from bayestriplet.retrieval.conditions import Condition
from bayestriplet.retrieval.lance import LanceStore
from bayestriplet.retrieval.lance_tables import hash_manifests, reason_in_words
from bayestriplet.retrieval.memory import Memory
from bayestriplet.retrieval.sets import IndexedSet, Registration
from bayestriplet.retrieval.stores import open_store
from tests.retrieval.rows import DIM, make_rows


def local(tmp_path):
    return open_store(tmp_path / "run", str(tmp_path / "index"))


def versions(tmp_path):
    return len(lancedb.connect(tmp_path / "index").open_table("items").list_versions())


def test_a_change_is_one_version(tmp_path):
    store = local(tmp_path)
    store.write("print", DIM, [make_rows(range(30)), make_rows(range(30, 60))], [])
    assert versions(tmp_path) == 1
    store.write("print", DIM, [make_rows(range(50, 70), label="b"), make_rows([99])], ["set/0", "set/1"])
    assert versions(tmp_path) == 2


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_change_that_fails_leaves_the_last_version_and_no_files(tmp_path):
    def failing():
        yield make_rows(range(20, 40))
        raise OSError(28, "No space left on device")

    store = local(tmp_path)
    with pytest.raises(InputError, match="cannot be written; it is as it was: No space left on device"):
        store.write("print", DIM, failing(), [])
    assert files(tmp_path / "index") == [".lock"]
    store.write("print", DIM, [make_rows(range(20))], [])
    before = files(tmp_path / "index" / "items.lance")
    with pytest.raises(InputError, match="No space left"):
        store.write("print", DIM, failing(), ["set/1"])
    assert files(tmp_path / "index" / "items.lance") == before
    assert local(tmp_path).count() == 20


LIMITED = """
import resource, sys
from pathlib import Path
from bayestriplet.retrieval.stores import open_store
from tests.retrieval.rows import DIM, make_rows
store = open_store(Path("run"), sys.argv[1])
store.prepare()
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
store.write("print", DIM, [make_rows(range(100, 3000))], ["set/1"])
"""


@pytest.mark.parametrize("limit", [4_000, 150_000, 300_000])
def test_a_disk_that_fills_up_leaves_the_last_version_and_no_files(tmp_path, limit):
    local(tmp_path).write("print", DIM, [make_rows(range(100))], [])
    before = files(tmp_path / "index" / "items.lance")
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, tmp_path / "index", str(limit)], capture_output=True, text=True
    )
    assert "StoreError: " in done.stderr
    assert "cannot be written; it is as it was" in done.stderr.splitlines()[-1]
    assert files(tmp_path / "index" / "items.lance") == before
    assert local(tmp_path).count() == 100


KILLED = """
import sys
from pathlib import Path
from bayestriplet.retrieval.stores import open_store
from tests.retrieval.rows import DIM, make_rows
store = open_store(Path("run"), sys.argv[1])
store.count()
rows = make_rows(range(2, 2000), label="new")
import lancedb
print("ready", flush=True)
store.write("print", DIM, [rows], ["set/0", "set/1"])
print("done", flush=True)
"""


@pytest.mark.parametrize("before", [0, 2000])
@pytest.mark.parametrize("delay", [0.0, 0.02, 0.05, 0.1])
def test_a_crash_at_any_moment_leaves_a_whole_version(tmp_path, delay, before):
    if before:
        local(tmp_path).write("print", DIM, [make_rows(range(before), label="old")], [])
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, tmp_path / "index"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n"
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    process.wait()
    store = local(tmp_path)
    found = {item.label for item in store.items()}
    assert (found, store.count()) in [({"old"} if before else set(), before), ({"new"}, 1998)]
    store.write("print", DIM, [make_rows([5], label="after")], [])  # and can be changed
    assert {item.id: item.label for item in store.items()}["set/5"] == "after"


def test_a_second_process_waits_its_turn(tmp_path):
    store = local(tmp_path)

    def rows():
        with pytest.raises(StateError, match="is being changed by another process"):
            local(tmp_path).write("print", DIM, [make_rows([1])], [])
        yield make_rows([2])

    store.write("print", DIM, rows(), [])
    assert [item.id for item in store.items()] == ["set/2"]


def test_a_changed_table_is_noticed_by_a_store_that_has_searched(tmp_path):
    store = local(tmp_path)
    store.write("print", DIM, [make_rows(range(5))], [])
    assert store.count() == 5
    local(tmp_path).write("print", DIM, [make_rows(range(5, 8))], ["set/0"])
    assert store.count() == 7
    assert store.search(make_rows([6]).vectors, 1, [])[0][0].item.id == "set/6"
    assert len(list((tmp_path / "index" / "snapshot").iterdir())) == 1  # older copies are gone


def test_searching_a_table_that_has_not_changed_does_not_load_lancedb(tmp_path):
    store = local(tmp_path)
    store.write("print", DIM, [make_rows(range(5))], [])
    store.prepare()
    code = (
        "import sys, numpy\nfrom pathlib import Path\n"
        "from bayestriplet.retrieval.stores import open_store\n"
        f"store = open_store(Path('run'), {str(tmp_path / 'index')!r})\n"
        f"print(len(store.search(numpy.zeros((1, {DIM}), 'float32'), 3, [])[0]))\n"
        "print([name for name in ('lancedb', 'pyarrow', 'torch') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["3", "[]"]


DAMAGES = {
    "cut": lambda content: content[:-60],
    "empty": lambda _: b"",
    "zeros": lambda content: content[: len(content) // 2] + bytes(len(content) - len(content) // 2),
    "foreign": lambda _: b"{}",
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", ["about.json", "vectors.npy", "id.codes.npy", "label.text.npy"])
def test_a_damaged_copy_is_made_again(tmp_path, name, damage):
    store = local(tmp_path)
    store.write("print", DIM, [make_rows(range(50))], [])
    store.prepare()
    path = next((tmp_path / "index" / "snapshot").glob(f"*/{name}"))
    whole = path.read_bytes()
    path.write_bytes(DAMAGES[damage](whole))
    store, rows = local(tmp_path), make_rows(range(50))
    assert store.items() == list(rows.items)
    assert [hits[0].item for hits in store.search(rows.vectors, 1, [])] == list(rows.items)
    assert path.read_bytes() == whole


def test_another_table_in_the_same_place_is_noticed(tmp_path):
    store = local(tmp_path)
    store.write("print", DIM, [make_rows(range(5))], [])
    assert store.count() == 5
    shutil.rmtree(tmp_path / "index" / "items.lance")  # the copy stays
    local(tmp_path).write("print", DIM, [make_rows(range(5), source="other")], [])
    for one in (store, local(tmp_path)):
        assert one.items()[0].id == "other/0"
        assert set(one.thumbnails(["other/1"])) == {"other/1"}


def test_another_table_in_the_same_bucket_is_noticed(tmp_path):
    def bucket():
        return LanceStore(f"file://{tmp_path}/bucket", None, tmp_path / "copies")

    store = bucket()
    store.write("print", DIM, [make_rows(range(5))], [])
    assert store.count() == 5
    shutil.rmtree(tmp_path / "bucket")
    bucket().write("print", DIM, [make_rows(range(5), source="other")], [])
    for one in (store, bucket()):
        assert one.items()[0].id == "other/0"
        assert set(one.thumbnails(["other/1"])) == {"other/1"}


def test_ctrl_c_at_the_end_of_a_change_leaves_it_whole(tmp_path, monkeypatch):
    original = LanceStore._commit

    def interrupted(self, *arguments):
        original(self, *arguments)
        raise KeyboardInterrupt

    store = local(tmp_path)
    store.write("print", DIM, [make_rows(range(5))], [])
    monkeypatch.setattr(LanceStore, "_commit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.write("print", DIM, [make_rows(range(5, 9))], ["set/0"])
    assert sorted(item.id for item in local(tmp_path).items()) == [f"set/{n}" for n in range(1, 9)]


def test_threads_that_search_while_the_table_changes_are_all_answered(tmp_path, monkeypatch):
    store = local(tmp_path)
    store.write("print", DIM, [make_rows(range(5))], [])
    store.count()
    original = Memory.load

    def slow(*arguments):
        time.sleep(0.2)
        return original(*arguments)

    monkeypatch.setattr(Memory, "load", slow)
    local(tmp_path).write("print", DIM, [make_rows(range(5, 9))], [])
    with ThreadPoolExecutor(8) as pool:
        counts = list(pool.map(lambda _: (store.count(), store.fingerprint()), range(8)))
    assert counts == [(9, "print")] * 8


@pytest.mark.parametrize("what", ["_versions/*.manifest", "data/*.lance"])
def test_a_damaged_table_is_one_line(tmp_path, what):
    local(tmp_path).write("print", DIM, [make_rows(range(50))], [])
    path = next((tmp_path / "index" / "items.lance").glob(what))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    (tmp_path / "index" / "checksums.json").unlink()  # as one of an earlier version
    with pytest.raises(InputError, match=r"index cannot be read; delete it and index again: [^\n]+$"):
        local(tmp_path).count()


def test_large_tables_are_searched_approximately_with_the_recall_said(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "APPROXIMATE_FROM", 2000)
    store, rows = local(tmp_path), make_rows(range(2500))
    store.write("print", DIM, [rows], [])
    assert "approximate, with a recall@10 of " in store.prepare()
    opened = local(tmp_path)  # from the copy on disk
    queries = make_rows(range(200), seed=3).vectors
    exact = Memory("", "", rows.vectors, opened._memory(opened._key()).columns)
    found, right = opened.search(queries, 10, []), exact.search(queries, 10, [])
    pairs = [({h.item.id for h in a}, {h.item.id for h in b}) for a, b in zip(found, right, strict=True)]
    assert np.mean([len(a & b) / 10 for a, b in pairs]) >= 0.99
    some = opened.search(queries[:5], 10, [Condition("group", "g1")])  # among some items, exactly
    assert [[h.item.id for h in hits] for hits in some] == [
        [h.item.id for h in hits] for hits in exact.search(queries[:5], 10, [Condition("group", "g1")])
    ]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("lance error: LanceError(IO): no such file, /build/io.rs:1:2", "no such file"),
        (
            "Invalid input, Failed to connect: IO { source: Generic { store",
            "Invalid input, Failed to connect",
        ),
        ('IO { body: Some("<Error><Code>NoSuchBucket</Code><Message>...") }', "NoSuchBucket"),
        ("", "ValueError"),
    ],
)
def test_what_lancedb_says_becomes_a_few_words(said, words):
    assert reason_in_words(ValueError(said)) == words


def test_the_files_that_versions_are_told_by_are_still_where_lancedb_puts_them(tmp_path):
    """The version of a table in a folder is read from its manifests, without LanceDB.

    If this fails with a new release of LanceDB, its layout has changed: hash_manifests in
    retrieval/lance_tables.py has to look elsewhere, or searches would answer from old copies.
    """
    local(tmp_path).write("print", DIM, [make_rows(range(20))], [])
    table = lancedb.connect(tmp_path / "index").open_table("items")
    folder, seen = tmp_path / "index" / "items.lance" / "_versions", []

    def look():
        manifests = list(folder.glob("*.manifest"))
        assert len(manifests) == len(table.list_versions()), "LanceDB's manifests are not where they were"
        seen.append(hash_manifests(folder))

    look()
    table.delete("id = 'set/3'")
    look()
    table.update(where="id = 'set/4'", values={"label": "b"})
    look()
    table.merge_insert("id").when_matched_update_all().execute(table.head(2))
    look()
    table.add(table.head(1))
    look()
    table.restore(1)
    look()
    local(tmp_path).purge()
    table.checkout_latest()
    look()
    assert len(set(seen)) == len(seen) == 7, "two versions of a table have the same name"
    assert None not in seen


def find_bytes(folder, *wanted):
    """Return the files below a folder in which one of these stands."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [str(path.relative_to(folder)) for path in files if any(w in path.read_bytes() for w in wanted)]


@pytest.mark.parametrize("number", [1, 50])
def test_what_was_taken_out_and_purged_is_in_no_file(tmp_path, number):
    rows = make_rows(range(100))
    items = tuple(
        item._replace(group="Erika Muster", id=f"set/Erika Muster/{n}") if n < number else item
        for n, item in enumerate(rows.items)
    )
    pictures = tuple(b"picture of Erika %d" % n if n < number else b"other" for n in range(100))
    store = local(tmp_path)
    store.write("print", DIM, [replace(rows, items=items, thumbnails=pictures)], [])
    store.prepare()
    secrets = (b"Erika Muster", b"picture of Erika")
    store.write("print", DIM, [], [f"set/Erika Muster/{n}" for n in range(number)])
    assert find_bytes(tmp_path / "index", *secrets)  # versions and copies keep it
    store.purge()
    assert store.after_purge == f"Older versions are gone from {tmp_path / 'index'}."
    assert find_bytes(tmp_path / "index", *secrets) == []
    assert store.count() == local(tmp_path).count() == 100 - number
    store.prepare()
    assert find_bytes(tmp_path / "index", *secrets) == []
    assert versions(tmp_path) == 1
    query = make_rows([99]).vectors
    assert store.search(query, 1, [])[0][0].item.id == "set/99"
    assert store.thumbnails(["set/99"]) == {"set/99": b"other"}
    assert store.fingerprint() == "print"


def test_a_purge_keeps_the_sets_and_the_index_can_be_changed_after_it(tmp_path):
    own = IndexedSet("set", "/data/set", "", "set")
    store = local(tmp_path)
    store.write("print", DIM, [make_rows(range(5))], [], [Registration(None, own)])
    store.purge()
    assert local(tmp_path).sets() == {"set": own}
    store.write("print", DIM, [make_rows(range(5, 8))], ["set/0"])
    assert store.count() == 7
    with pytest.raises(StateError, match="holds no index"):
        open_store(tmp_path, str(tmp_path / "none")).purge()
    assert not (tmp_path / "none").exists()


PURGING = """
import os, sys
from pathlib import Path
import lancedb.table
from bayestriplet.retrieval.stores import open_store
lancedb.table.LanceTable.optimize = lambda *_, **__: os._exit(9)
open_store(Path("run"), sys.argv[1]).purge()
"""


def test_a_crash_while_purging_loses_nothing_and_it_can_be_done_again(tmp_path):
    store = local(tmp_path)
    store.write("print", DIM, [make_rows(range(50))], [])
    store.write("print", DIM, [], ["set/7"])
    done = subprocess.run([sys.executable, "-c", PURGING, tmp_path / "index"], check=False)
    assert done.returncode == 9
    assert {item.id for item in local(tmp_path).items()} == {f"set/{n}" for n in range(50) if n != 7}
    local(tmp_path).purge()
    assert find_bytes(tmp_path / "index", b"picture 7") == []


def test_a_copy_that_cannot_be_kept_does_no_harm(tmp_path):
    store = LanceStore(str(tmp_path / "index"), tmp_path / "index", tmp_path / "file" / "copies")
    (tmp_path / "file").write_text("in the way")
    store.write("print", DIM, [make_rows(range(5))], [])
    assert store.count() == 5


def test_old_versions_are_removed_but_for_the_last_and_those_of_a_day(tmp_path, monkeypatch):
    store = local(tmp_path)
    for number in range(6):
        store.write("print", DIM, [make_rows(range(number, number + 3))], [])
    assert versions(tmp_path) == 6
    monkeypatch.setattr(lance_tables, "YOUNG", timedelta(0))
    time.sleep(0.8)
    for number in range(3):
        store.write("print", DIM, [make_rows(range(10 + number, 11 + number))], [])
    kept = [one["version"] for one in lancedb.connect(tmp_path / "index").open_table("items").list_versions()]
    assert len(kept) >= lance_tables.VERSIONS
    assert min(kept) > 6
    assert len(local(tmp_path).items()) == 11
    assert len(store.thumbnails(["set/0", "set/12"])) == 2


def test_a_version_is_searched_on_while_the_table_changes(tmp_path):
    store = local(tmp_path)
    store.write("print", DIM, [make_rows(range(5))], [])
    pinned, query = store.pinned(), make_rows([3]).vectors
    key = pinned.version()
    local(tmp_path).write("print", DIM, [make_rows(range(5, 9))], ["set/3"])
    assert (pinned.version(), pinned.count(), pinned.fingerprint()) == (key, 5, "print")
    assert pinned.search(query, 1, ())[0][0].item.id == "set/3"
    assert set(pinned.find(["set/3", "set/8"])) == {"set/3"}
    assert store.pinned().version() == store.version() != key
    assert store.pinned().search(query, 1, ())[0][0].item.id != "set/3"


def test_a_copy_that_another_process_makes_is_waited_for(tmp_path, monkeypatch):
    local(tmp_path).write("print", DIM, [make_rows(range(5))], [])
    made, original = [], LanceStore._read

    def slow(self, *rest):
        made.append(threading.get_ident())
        time.sleep(0.3)
        return original(self, *rest)

    monkeypatch.setattr(LanceStore, "_read", slow)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: local(tmp_path).count(), range(4))) == [5] * 4
    assert len(made) == 1


def test_the_copy_of_a_large_table_is_made_by_another_process(tmp_path, monkeypatch):
    local(tmp_path).write("print", DIM, [make_rows(range(40))], [])
    monkeypatch.setattr(lance, "MANY", 40)
    monkeypatch.setattr(Memory, "make", classmethod(lambda *_: pytest.fail("was made here")))
    pinned = local(tmp_path).pinned(apart=True)
    assert (pinned.count(), pinned.fingerprint()) == (40, "print")


def test_a_copy_that_another_process_could_not_keep_is_made_here(tmp_path, monkeypatch):
    store = local(tmp_path)
    store.write("print", DIM, [make_rows(range(40))], [])
    monkeypatch.setattr(lance, "MANY", 40)
    monkeypatch.setattr(lance, "copy_apart", lambda *_: None)
    assert store.pinned(apart=True).count() == 40
