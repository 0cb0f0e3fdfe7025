"""What Milvus does not promise, and what is left all the same."""

import signal
import subprocess
import sys
import time

import pytest

from bayestriplet.errors import InputError, StateError
from bayestriplet.retrieval.milvus import MilvusStore
from bayestriplet.retrieval.stores import open_store
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
        "MilvusStore(sys.argv[1]).write('print', DIM, [make_rows(range(9))], [])\n"
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
