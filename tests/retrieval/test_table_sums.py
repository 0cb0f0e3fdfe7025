"""Checksums of the files of a LanceDB table."""

import json
import shutil

import pytest

from bayestriplet.errors import StoreError
from bayestriplet.retrieval.stores import open_store
from bayestriplet.retrieval.table_sums import NAME, note_files, verify_files
from tests.retrieval.rows import DIM, make_rows


@pytest.fixture
def index(tmp_path):
    """The folder of a table of two versions, and no copy of it."""
    store = open_store(tmp_path / "run", str(tmp_path / "index"))
    store.write("print", DIM, [make_rows(range(30))], [])
    store.write("print", DIM, [make_rows(range(30, 40))], ["set/0"])
    shutil.rmtree(tmp_path / "index" / "snapshot", ignore_errors=True)
    return tmp_path / "index"


def count(index):
    return open_store(index.parent / "run", str(index)).count()


def change_a_byte(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_every_file_with_rows_is_written_down_and_the_table_is_opened(index):
    known = set(json.loads((index / NAME).read_text())["files"])
    for pattern in ("items.lance/data/*", "items.lance/_versions/*.manifest", "items.lance/_deletions/*"):
        assert {path.relative_to(index).as_posix() for path in index.glob(pattern)} <= known
    assert count(index) == 39


@pytest.mark.parametrize("pattern", ["items.lance/data/*", "items.lance/_versions/*.manifest"])
def test_a_changed_byte_is_refused_with_the_name_of_the_file_and_nothing_else_is_said(index, pattern, capfd):
    for path in sorted(index.glob(pattern)):
        whole = path.read_bytes()
        change_a_byte(path)
        with pytest.raises(StoreError, match=rf"{path.name} is damaged: .* delete it and index again"):
            count(index)
        path.write_bytes(whole)
    assert capfd.readouterr().err == ""
    assert count(index) == 39


def test_tables_from_before_there_were_checksums_are_opened_and_get_them_with_the_next_change(index):
    (index / NAME).unlink()
    verify_files(index)
    store = open_store(index.parent / "run", str(index))
    store.write("print", DIM, [make_rows([99])], [])
    assert len(json.loads((index / NAME).read_text())["files"]) > 3
    assert count(index) == 40


def test_what_is_no_list_of_checksums_is_refused_and_a_newer_one_by_its_format(index):
    for text, match in (
        ("{", "cannot be read: .*; delete it"),
        ("[]", "holds no checksums; delete it"),
        ('{"format": 1, "files": {"a": 1}}', "holds no checksums; delete it"),
        ('{"format": 2}', "has format 2; this version reads 1"),
    ):
        (index / NAME).write_text(text)
        with pytest.raises(StoreError, match=match):
            verify_files(index)


def test_a_purge_writes_down_what_is_left(index):
    store = open_store(index.parent / "run", str(index))
    store.purge()
    names = json.loads((index / NAME).read_text())["files"]
    assert all((index / name).is_file() for name in names)
    assert count(index) == 39


def test_files_that_did_not_change_are_not_read_again(index, monkeypatch):
    monkeypatch.setattr("bayestriplet.retrieval.table_sums._sum_of", lambda path: pytest.fail(path.name))
    note_files(index)
