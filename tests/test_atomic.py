import os
import stat
import subprocess

import pytest

from bayestriplet.atomic import replacing, write_bytes, write_text
from bayestriplet.errors import InputError


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_written_and_replaced_whole(tmp_path):
    path = tmp_path / "file.txt"
    write_text(path, "first")
    write_text(path, "second, longer")
    assert path.read_text() == "second, longer"
    assert names(tmp_path) == ["file.txt"]


def test_a_block_that_raises_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "file.txt"
    write_text(path, "old")

    def fail():
        with replacing(path) as partial:
            partial.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert path.read_text() == "old"
    assert names(tmp_path) == ["file.txt"]


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_rights_are_what_the_umask_allows_whatever_the_writer_does(tmp_path, umask):
    before = os.umask(umask)
    try:
        write_bytes(tmp_path / "plain", b"x")
        with replacing(tmp_path / "private") as partial:
            partial.write_bytes(b"x")
            partial.chmod(0o600)
    finally:
        os.umask(before)
    for name in ("plain", "private"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o666 & ~umask


def test_a_folder_takes_the_place_of_another(tmp_path):
    for content in ("old", "new"):
        with replacing(tmp_path / "folder", folder=True) as partial:
            (partial / content).write_text(content)
    assert names(tmp_path / "folder") == ["new"]
    assert names(tmp_path) == ["folder"]


def test_what_cannot_be_written_is_one_line_that_names_the_file(tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(InputError, match=r"file/below cannot be written: Not a directory"):
        write_text(tmp_path / "file" / "below", "x")


def test_what_a_killed_process_has_left_is_removed_in_time(tmp_path):
    path, dead = tmp_path / "encoder.onnx", subprocess.Popen(["true"])
    dead.wait()
    names = (f"{dead.pid}", f"{dead.pid}-0a1b", f"{dead.pid}-ffff", f"{os.getpid()}-0a1b", "backup")
    left = [tmp_path / f".encoder.onnx.{name}" for name in names]
    for file in left:
        file.write_bytes(b"half")
        os.utime(file, (0, 0))
    left[2].touch()  # just written: perhaps by a process of another machine
    write_text(path, "whole")
    assert [file.exists() for file in left] == [False, False, True, True, True]
