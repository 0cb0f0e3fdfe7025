"""What Milvus does not promise, and what is left all the same."""

import hashlib
import itertools
import json
import signal
import subprocess
import sys
import threading
import time

import pytest

from bayestriplet.errors import InputError, StateError, StoreError
from bayestriplet.retrieval.milvus import MilvusStore
from bayestriplet.retrieval.stores import open_store
from bayestriplet.retrieval.table_sums import NAME, sizes_and_times
from tests.retrieval.rows import DIM, make_rows

WRITING = """
import resource, sys
from pathlib import Path
from bayestriplet.retrieval.stores import open_store
from tests.retrieval.rows import DIM, make_rows
store = open_store(Path("run"), sys.argv[1])
assert store.count() == 100
rows = [make_rows(range(start, start + 500), label="new") for start in range(0, 3000, 500)]
if len(sys.argv) > 2:
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
print("ready", flush=True)
store.write("print", DIM, rows, ["set/5000"])
"""


def write_old(place):
    """An index of 100 items, one of which is not among those of WRITING; in a process that ends."""
    code = (
        "from tests.retrieval.rows import *\nfrom bayestriplet.retrieval.milvus import MilvusStore\n"
        f"MilvusStore({str(place)!r}).write('print', DIM, [make_rows([*range(99), 5000], label='old')], [])"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def assert_can_be_completed(place):
    """What was there is there, and the change made again is whole."""
    store = MilvusStore(str(place))
    assert store.fingerprint() == "print"
    assert {f"set/{n}" for n in range(99)} <= {item.id for item in store.items()}
    store.write("print", DIM, [make_rows(range(3000), label="new")], ["set/5000"])
    assert {item.id: item.label for item in store.items()} == {f"set/{n}": "new" for n in range(3000)}


@pytest.mark.parametrize("delay", [0.0, 0.1, 0.3])
def test_a_change_that_was_broken_off_is_completed_by_making_it_again(tmp_path, delay):
    place = tmp_path / "index.db"
    write_old(place)
    process = subprocess.Popen([sys.executable, "-c", WRITING, place], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert_can_be_completed(place)


def test_a_disk_that_fills_up_is_one_line_and_loses_nothing(tmp_path):
    place = tmp_path / "index.db"
    write_old(place)
    done = subprocess.run(
        [sys.executable, "-c", WRITING, place, "60000"], capture_output=True, text=True, check=False
    )
    last = [line for line in done.stderr.splitlines() if "StoreError: " in line]
    assert len(last) == 1
    assert f"{place} cannot be written: " in last[0]
    assert_can_be_completed(place)


def test_a_file_in_use_by_another_process_is_one_line(tmp_path):
    place = tmp_path / "index.db"
    code = (
        "import sys\nfrom bayestriplet.retrieval.milvus import MilvusStore\n"
        "from tests.retrieval.rows import *\n"
        "store = MilvusStore(sys.argv[1])\n"
        "store.write('print', DIM, [make_rows(range(9))], [])\n"
        "assert store.count() == 9\n"
        "print('ready', flush=True)\nsys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, place], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n"
    with pytest.raises(InputError, match=r"index.db cannot be read: [^\n]+$"):
        open_store(tmp_path, str(place)).count()
    process.communicate("")
    assert open_store(tmp_path, str(place)).count() == 9


def test_a_purge_says_what_milvus_lite_keeps(tmp_path):
    place = tmp_path / "index.db"
    store = MilvusStore(str(place))
    store.write("print", DIM, [make_rows(range(9))], [])
    store.purge()
    assert store.after_purge == (
        "Milvus Lite keeps removed items in its files until it merges these: "
        f"to be rid of them now, delete {place} and index again."
    )
    assert store.count() == 9
    with pytest.raises(StateError, match="holds no index"):
        MilvusStore(str(tmp_path / "none.db")).purge()


@pytest.mark.parametrize(
    "pattern", ["partitions/*/data/*", "partitions/*/indexes/*", "manifest.json", "schema.json"]
)
@pytest.mark.parametrize("is_gone", [False, True])
def test_damage_to_a_file_of_milvus_lite_is_refused_with_the_name_of_the_file(tmp_path, pattern, is_gone):
    place = tmp_path / "index.db"
    write_old(place)
    (rows,) = place.glob(f"collections/*/{pattern}")
    content = bytearray(rows.read_bytes())
    content[len(content) // 2] ^= 1
    rows.unlink() if is_gone else rows.write_bytes(content)
    with pytest.raises(StoreError, match=rf"{rows.name} is damaged: .* delete it and index again"):
        MilvusStore(str(place)).count()


def test_files_that_milvus_lite_merges_are_those_that_are_written_down(tmp_path):
    place = tmp_path / "index.db"
    for first in range(0, 60, 5):  # as many changes as are merged
        MilvusStore(str(place)).write("print", DIM, [make_rows(range(first, first + 5))], [f"set/{first}"])
    names = json.loads((place / NAME).read_text())["files"]
    found = list(place.glob("collections/*/partitions/*/*/*"))
    assert 0 < len([path for path in found if path.suffix == ".parquet"]) < 24
    assert {path.relative_to(place).as_posix() for path in found} <= names.keys()
    assert MilvusStore(str(place)).count() == 48


def test_reading_a_milvus_lite_file_changes_nothing_that_has_a_checksum(tmp_path):
    """Also when the reader is killed; merges that were due are over by then."""
    place = tmp_path / "index.db"
    for first in range(0, 50, 10):
        MilvusStore(str(place)).write("print", DIM, [make_rows(range(first, first + 10))], [f"set/{first}"])
        for _ in range(3):
            before = sizes_and_times(place)
            code = (
                "import os, signal, sys\nfrom bayestriplet.retrieval.milvus import MilvusStore\n"
                "from tests.retrieval.rows import *\nstore = MilvusStore(sys.argv[1])\n"
                "assert store.search(make_rows(range(2)).vectors, 3, [])\n"
                "os.kill(os.getpid(), signal.SIGKILL)"
            )
            done = subprocess.run([sys.executable, "-c", code, place], check=False)
            assert done.returncode == -signal.SIGKILL
            assert sizes_and_times(place) == before
        assert before.keys() == json.loads((place / NAME).read_text())["files"].keys()


def test_a_store_goes_on_when_another_one_of_its_process_has_changed_the_table(tmp_path):
    place = str(tmp_path / "index.db")
    first, second = MilvusStore(place), MilvusStore(place)
    first.write("print", DIM, [make_rows(range(9))], [])
    assert second.count() == 9
    first.write("print", DIM, [make_rows(range(9, 12))], [])
    assert second.count() == first.count() == 12


def test_a_milvus_lite_file_from_before_there_were_checksums_is_opened(tmp_path):
    place = tmp_path / "index.db"
    write_old(place)
    (place / NAME).unlink()
    assert MilvusStore(str(place)).count() == 100


def test_sums_noted_with_another_version_of_milvus_lite_are_not_held_against_its_files(tmp_path):
    place = tmp_path / "index.db"
    write_old(place)
    (rows,) = place.glob("collections/*/manifest.json")
    rows.write_text(rows.read_text() + "\n")  # as another version might write it
    with pytest.raises(StoreError, match=r"manifest\.json is damaged"):
        MilvusStore(str(place)).count()
    noted = json.loads((place / NAME).read_text())
    (place / NAME).write_text(json.dumps(noted | {"by": "milvus-lite 0.0.1"}))
    assert MilvusStore(str(place)).count() == 100


def test_tables_of_others_in_the_same_milvus_lite_file_are_theirs(tmp_path):
    place = tmp_path / "index.db"
    others = "\n".join(
        [
            "import sys",
            "from pymilvus import MilvusClient",
            "client = MilvusClient(sys.argv[1])",
            "client.has_collection('theirs') or client.create_collection('theirs', dimension=3)",
            "client.insert('theirs', [{'id': int(sys.argv[2]), 'vector': [1.0, 0.0, 0.0]}])",
            "client.flush('theirs')",
        ]
    )
    subprocess.run([sys.executable, "-c", others, place, "1"], check=True)
    write_old(place)
    assert not any("theirs" in name for name in json.loads((place / NAME).read_text())["files"])
    subprocess.run([sys.executable, "-c", others, place, "2"], check=True)
    assert MilvusStore(str(place)).count() == 100


def test_a_second_change_notes_every_file_again(tmp_path):
    place = tmp_path / "index.db"
    for first in (0, 9):
        MilvusStore(str(place)).write("print", DIM, [make_rows(range(first, first + 9))], [])
        noted = json.loads((place / NAME).read_text())["files"]
        assert noted.keys() == sizes_and_times(place).keys()
        sums = {name: hashlib.sha256((place / name).read_bytes()).hexdigest() for name in noted}
        assert {name: entry[2] for name, entry in noted.items()} == sums


def test_threads_that_read_while_a_change_comes_to_rest_get_answers(tmp_path):
    place = str(tmp_path / "index.db")
    MilvusStore(place).write("print", DIM, [make_rows(range(9))], [])
    found, over = [], threading.Event()

    def read(stores):
        while not over.is_set():
            try:
                found.append(next(stores).count())
            except Exception as error:
                found.append(error)

    own, one = (MilvusStore(place) for _ in iter(int, 1)), itertools.repeat(MilvusStore(place))
    readers = [threading.Thread(target=read, args=[stores]) for stores in (own, one)]
    for reader in readers:
        reader.start()
    for first in range(9, 45, 9):
        MilvusStore(place).write("print", DIM, [make_rows(range(first, first + 9))], [])
    over.set()
    for reader in readers:
        reader.join()
    assert len(found) > 4
    assert set(found) <= set(range(9, 46))
