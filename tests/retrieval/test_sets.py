"""Sets of an index: distinguished by their path and split, moved, taken over, removed."""

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import bayestriplet as bt
from bayestriplet.errors import DataError, InputError, StateError
from bayestriplet.retrieval.sets import IndexedSet, Registration, Removal, apply_changes, choose_set
from tests.retrieval.test_index import DIGITS, counts, run, scan  # noqa: F401 (run is a fixture)

FIXTURE = Path(__file__).parents[1] / "fixtures" / "run-0.1.0.tar.gz"


@pytest.fixture(params=["index", "index.db"])
def opened(request, run, tmp_path):  # noqa: F811
    """A function that opens the same index anew, in LanceDB and in Milvus."""
    return lambda: bt.Index.open(run, str(tmp_path / request.param))


def fill(folder, numbers):
    """Write scans as files without classes."""
    folder.mkdir(parents=True, exist_ok=True)
    for place, number in enumerate(numbers):
        Image.fromarray(scan(number)).save(folder / f"{place}.png")
    return folder


def ids(index):
    return {item.id for item in index.store.items()}


def sources(index):
    return {item.id: item.source for item in index.store.items()}


def test_folders_of_the_same_last_name_are_sets_beside_each_other(opened, tmp_path):
    a, b = fill(tmp_path / "patientA" / "tiles", range(5)), fill(tmp_path / "patientB" / "tiles", range(5, 9))
    index = opened()
    assert counts(index.update(str(a))) == (5, 0, 0, 0)
    change = index.update(str(b))
    assert counts(change) == (4, 0, 0, 0)
    assert ids(index) == {f"tiles/{i}.png" for i in range(5)} | {f"patientB/tiles/{i}.png" for i in range(4)}
    assert {item.source for item in index.store.items()} == {"tiles", "patientB/tiles"}
    (b / "0.png").unlink()
    fill(tmp_path / "patientB" / "tiles" / "more", [20])
    Image.fromarray(scan(30)).save(b / "1.png")
    (b / "more" / "0.png").rename(b / "new.png")
    (b / "more").rmdir()
    change = index.update(str(b))
    assert (counts(change), change.set.name) == ((1, 1, 1, 2), "patientB/tiles")
    change = index.update(str(a))
    assert (counts(change), change.set.name) == ((0, 0, 0, 5), "tiles")
    only = index.search(scan(30), k=20, where={"source": "patientB/tiles"})[0].neighbours
    assert {one.path for one in only} == {str(path) for path in b.glob("*.png")}


def test_splits_of_one_set_stay_beside_each_other(opened):
    index = opened()
    train = counts(index.update("digits", split="train"))[0]
    assert counts(index.update("digits", split="test")) == (359, 0, 0, 0)
    assert len(index) == train + 359
    assert counts(index.update("digits", split="train")) == (0, 0, 0, train)
    assert counts(index.update("digits", split="test")) == (0, 0, 0, 359)
    assert {item.source for item in index.store.items()} == {"digits", "digits:test"}


def test_the_whole_set_holds_its_splits(opened):
    index = opened()
    assert counts(index.update("digits", split="test")) == (359, 0, 0, 0)
    assert counts(index.update("digits")) == (1438, 0, 0, 359)
    assert counts(index.update("digits", split="val")) == (0, 0, 0, 360)
    assert counts(index.update("digits", split="test")) == (0, 0, 0, 359)
    assert counts(index.update("digits", split="all")) == (0, 0, 0, 1797)
    assert len(index) == 1797


def test_what_is_gone_from_the_whole_set_is_gone_from_its_splits(opened, tmp_path):
    folder = tmp_path / "scans"
    for i in range(40):
        fill(folder / str(DIGITS.target[i]) / "x", [i])
        (folder / str(DIGITS.target[i]) / "x" / "0.png").rename(folder / str(DIGITS.target[i]) / f"{i}.png")
        (folder / str(DIGITS.target[i]) / "x").rmdir()
    index = opened()
    index.update(str(folder), split="test")
    held = sorted(item.path for item in index.store.items())
    index.update(str(folder))
    assert len(index) == 40
    Path(held[0]).unlink()
    assert counts(index.update(str(folder))) == (0, 0, 1, 39)


def test_an_item_that_goes_from_one_split_to_another_is_in_one_of_them(opened, tmp_path):
    folder = fill(tmp_path / "scans", range(6))

    def write(first):
        rows = [f"{i}.png,{i % 2},{'train' if i < first else 'test'}" for i in range(6)]
        (folder / "list.csv").write_text("\n".join(["path,label,split", *rows]))

    index = opened()
    write(3)
    for split in ("train", "test"):
        assert counts(index.update(str(folder / "list.csv"), split=split)) == (3, 0, 0, 0)
    write(4)  # one from test to train
    assert counts(index.update(str(folder / "list.csv"), split="train")) == (0, 1, 0, 3)
    assert counts(index.update(str(folder / "list.csv"), split="test")) == (0, 0, 0, 2)
    assert len(index) == 6


def test_a_moved_folder_goes_on_under_its_name(opened, tmp_path):
    old = fill(tmp_path / "scans", range(6))
    index = opened()
    index.update(str(old))
    new = old.rename(tmp_path / "elsewhere")
    change = index.update(str(new), name="scans")
    assert (counts(change), change.moved_from) == ((0, 6, 0, 0), str(old))
    assert {item.path for item in index.store.items()} == {str(path) for path in new.glob("*.png")}
    change = index.update(str(new))  # known by its path from now on
    assert (counts(change), change.set.name, change.moved_from) == ((0, 0, 0, 6), "scans", "")


def test_a_set_can_be_named(opened, tmp_path):
    a, b = fill(tmp_path / "a" / "tiles", range(3)), fill(tmp_path / "b" / "tiles", range(3, 6))
    index = opened()
    assert index.update(str(a), name="first").set.name == "first"
    assert index.update(str(b)).set.name == "tiles"
    assert index.update(str(a)).set.name == "first"
    assert ids(index) == {f"{name}/{i}.png" for name in ("first", "tiles") for i in range(3)}
    with pytest.raises(InputError, match=r"a/tiles is already indexed as 'first'; leave out --name, or"):
        index.update(str(a), name="second")
    index.update("digits", split="test", name="held")
    with pytest.raises(InputError, match="--name held is the split test of digits; choose another name"):
        index.update("digits", split="val", name="held")
    for bad in ("", "a\nb"):
        with pytest.raises(InputError, match="--name must be a line of text"):
            index.update(str(b), name=bad)


def test_a_symbolic_link_is_the_folder_it_leads_to(opened, tmp_path):
    folder = fill(tmp_path / "scans", range(3))
    (tmp_path / "link").symlink_to(folder)
    index = opened()
    index.update(str(folder))
    assert counts(index.update(str(tmp_path / "link")))[0] == 0
    assert len(index) == 3


@pytest.fixture
def old_run(tmp_path):
    """A run of version 0.1.0 with an index in LanceDB and one in Milvus Lite."""
    with tarfile.open(FIXTURE) as archive:
        archive.extractall(tmp_path / "old", filter="data")
    return tmp_path / "old" / "run"


@pytest.mark.parametrize("store", ["index", "milvus.db"])
def test_an_index_of_0_1_0_is_searched_and_taken_over_by_the_first_set_of_its_name(old_run, tmp_path, store):
    index = bt.Index.open(old_run, str(old_run / store))
    assert (len(index), {item.source for item in index.store.items()}) == (72, {"scans"})
    before = {item.id for item in index.store.items()}
    some = index.store.find([min(before)])[min(before)]
    assert index.search(some.vector, k=1)[0].neighbours[0].id == min(before)
    folder = tmp_path / "scans"
    for item in index.store.items():
        number = int(Path(item.id).stem)
        (folder / item.label).mkdir(parents=True, exist_ok=True)
        Image.fromarray(scan(number)).save(folder / item.label / f"{number}.png")
    change = index.update(str(folder))
    assert change.taken_over == 72
    assert change.set == IndexedSet("scans", str(folder), "", "scans")
    assert (change.added, change.removed, change.replaced) == (0, 0, 72)
    assert {item.id for item in index.store.items()} == before
    other = fill(tmp_path / "other" / "scans", range(3))
    assert counts(index.update(str(other))) == (3, 0, 0, 0)
    assert len(index) == 75


DYING = """
import os, sys
import bayestriplet as bt
from bayestriplet.retrieval.lance import LanceStore
from bayestriplet.retrieval.milvus import MilvusStore
LanceStore._commit = MilvusStore._upsert = lambda *_: os._exit(9)
bt.Index.open(sys.argv[1], sys.argv[2]).update(sys.argv[3])
"""


@pytest.mark.parametrize("name", ["index", "index.db"])
def test_a_crash_between_the_set_and_its_items_is_completed_by_the_next_update(run, tmp_path, name):  # noqa: F811
    a, b = fill(tmp_path / "a" / "tiles", range(5)), fill(tmp_path / "b" / "tiles", range(5, 9))
    place = str(tmp_path / name)
    code = "import sys\nimport bayestriplet as bt\nbt.Index.open(*sys.argv[1:3]).update(sys.argv[3])"
    subprocess.run([sys.executable, "-c", code, run, place, a], check=True)
    done = subprocess.run([sys.executable, "-c", DYING, run, place, b], check=False, env=os.environ)
    assert done.returncode == 9
    index = bt.Index.open(run, place)
    assert len(index) == 5
    assert counts(index.update(str(a))) == (0, 0, 0, 5)
    assert counts(index.update(str(b))) == (4, 0, 0, 0)
    assert set(index.store.sets()) == {"tiles", "b/tiles"}
    assert ids(index) == {f"tiles/{i}.png" for i in range(5)} | {f"b/tiles/{i}.png" for i in range(4)}


def test_an_update_that_fails_leaves_the_sets_as_they_were(run, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setattr("bayestriplet.retrieval.indexing.BATCH", 1)  # the bad one comes after good ones
    a = fill(tmp_path / "a" / "tiles", range(3))
    (a / "bad.png").write_bytes(b"not an image")
    index = bt.Index.open(run)
    with pytest.raises(DataError, match=r"bad\.png is not an image"):
        index.update(str(a))
    assert index.store.sets() == {}


def test_a_set_that_another_process_registered_meanwhile_is_not_overwritten():
    mine, theirs = IndexedSet("tiles", "/a/tiles", "", "tiles"), IndexedSet("tiles", "/b/tiles", "", "tiles")
    assert apply_changes({}, [Registration(None, mine)], "there") == {"tiles": mine}
    assert apply_changes({"tiles": mine}, [Removal(mine)], "there") == {}
    with pytest.raises(StateError, match="there: set 'tiles' was changed by another process; run it again"):
        apply_changes({"tiles": theirs}, [Registration(None, mine)], "there")


@pytest.mark.parametrize(
    ("known", "data", "expected"),
    [
        ([], "/x/tiles", "tiles"),
        (["/a/tiles"], "/b/tiles", "b/tiles"),
        (["/a/b/tiles", "/c/b/tiles"], "/d/b/tiles", "d/b/tiles"),
        (["/a/tiles", "/a/b/c"], "/b", "b"),
        (["/q/a", "/z/b"], "/y/a/b", "y/a/b"),  # ids of "a" may begin with "a/b/", too
        (["/mnist"], "mnist", "mnist-2"),
    ],
)
def test_ids_begin_with_the_shortest_path_that_no_other_set_has(known, data, expected):
    sets = {}
    for one in known:
        chosen = choose_set(sets, [], data=one, split="", last=Path(one).name)
        sets[chosen.after.name] = chosen.after
    chosen = choose_set(sets, [], data=data, split="", last=Path(data).name).after
    assert (chosen.prefix, chosen.name) == (expected, expected)


def test_vectors_are_those_of_the_encoder_also_for_items_of_later_sets(run, tmp_path):  # noqa: F811
    index = bt.Index.open(run)
    index.update(str(fill(tmp_path / "a" / "tiles", range(3))))
    index.update(str(fill(tmp_path / "b" / "tiles", range(3, 6))))
    stored = index.store.find(["b/tiles/1.png"])["b/tiles/1.png"]
    np.testing.assert_allclose(stored.vector, index.encoder.encode(scan(4)[None, :, :, None])[0], rtol=1e-5)
