import json
import os
import pickle
import subprocess
import sys
import warnings
from dataclasses import fields

import numpy as np
import pytest
from PIL import Image

from bayestriplet.data import decoded
from bayestriplet.data.audit import data_warnings
from bayestriplet.data.sources import open_data
from bayestriplet.errors import DataError, InputError
from tests.data.pictures import make_folder, noise, ramp, save_deep, save_picture


@pytest.fixture
def root(tmp_path):
    """Two classes of twelve images in files of one length, whatever they show."""
    for number, name in enumerate("ab"):
        for i in range(12):
            save_picture(tmp_path / "set" / name / f"{i:02}.bmp", 30, 30, 3, seed=100 * number + i)
    return tmp_path / "set"


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "kept" / "decoded"


def repaint(path, keep_time):
    """Replace what a file shows, in as many bytes; its time stays or changes."""
    before = path.stat()
    Image.fromarray(noise(30, 30, 3, seed=999)).save(path)
    assert path.stat().st_size == before.st_size
    time = before.st_mtime_ns + (0 if keep_time else 1_000_000)
    os.utime(path, ns=(before.st_atime_ns, time))


def assert_same(one, other):
    """Both sets are equal in everything but where their pixels are."""
    for field in fields(one):
        if field.name in ("pixels", "rows"):
            continue
        mine, theirs = getattr(one, field.name), getattr(other, field.name)
        if isinstance(mine, np.ndarray):
            np.testing.assert_array_equal(mine, theirs, err_msg=field.name)
            assert mine.dtype == theirs.dtype
        else:
            assert mine == theirs, field.name
    np.testing.assert_array_equal(one.read(range(len(one))), other.read(range(len(other))))


def test_images_are_decoded_once_and_then_read_from_the_folder(root, cache):
    first = open_data(str(root), cache=cache)
    assert isinstance(first.pixels, np.memmap)
    assert first.pixels.shape == (24, 30, 30, 3)
    before = first.read(range(24))
    repaint(root / "a" / "03.bmp", keep_time=True)
    again = open_data(str(root), cache=cache)
    np.testing.assert_array_equal(again.read(range(24)), before)  # what is kept, not what is there now
    assert isinstance(again.pixels, np.memmap)
    repaint(root / "a" / "03.bmp", keep_time=False)
    anew = open_data(str(root), cache=cache)
    where = anew.ids.index("a/03.bmp")
    np.testing.assert_array_equal(anew.read([where])[0], noise(30, 30, 3, seed=999))


def test_nothing_is_opened_the_second_time(root, cache):
    def steps():
        seen = []
        open_data(str(root), cache=cache, progress=lambda what, done, total: seen.append((what, done, total)))
        return seen

    assert steps() == [("checking images", 24, 24), ("keeping decoded images", 24, 24)]
    assert steps() == []
    for path in root.rglob("*.bmp"):
        time = path.stat().st_mtime_ns
        path.write_bytes(bytes(path.stat().st_size))  # no images any more
        os.utime(path, ns=(time, time))
    assert steps() == []


@pytest.mark.parametrize("options", [{}, {"seed": 7}, {"size": 17}, {"per_class": 3, "seed": 2}])
def test_the_set_is_the_one_without_a_folder(root, cache, options):
    wanted = open_data(str(root), **options)
    for _ in range(2):
        assert_same(open_data(str(root), cache=cache, **options), wanted)


def test_splits_follow_the_seed_from_one_folder(root, cache):
    for seed in (0, 1, 2):
        assert_same(open_data(str(root), cache=cache, seed=seed), open_data(str(root), seed=seed))
    assert len(list(cache.iterdir())) == 1


def test_a_manifest_keeps_its_groups_and_may_change_its_labels(root, cache):
    def write(names):
        lines = [f"a/{i:02}.bmp,{names[i % 2]},g{i // 2}" for i in range(12)]
        (root / "list.csv").write_text("\n".join(["path,label,group", *lines]))
        return str(root / "list.csv")

    for names in ("xy", "yz"):
        source = write(names)
        assert_same(open_data(source, cache=cache, seed=1), open_data(source, seed=1))
    assert len(list(cache.iterdir())) == 1


def test_bits_grey_and_bad_files_are_those_without_a_folder(tmp_path, cache):
    root = tmp_path / "deep"
    for i in range(8):
        save_deep(root / "ab"[i % 2] / f"{i}.png", np.roll(ramp(12), i))
    (root / "a" / "bad.png").write_bytes(b"text")
    wanted = open_data(str(root), skip_bad=True)
    assert (wanted.bits, wanted.channels) == (12, 1)
    for _ in range(2):
        with pytest.raises(DataError, match=r"1 bad file of 9: a/bad\.png is not an image"):
            open_data(str(root), cache=cache)
        assert_same(open_data(str(root), cache=cache, skip_bad=True), wanted)
    assert data_warnings(open_data(str(root), cache=cache, skip_bad=True)) == data_warnings(wanted)


def test_followed_links_and_sizes_are_kept_apart(tmp_path, root, cache):
    more = make_folder(tmp_path / "elsewhere", {"c": 12}, (30, 30, 3))
    (root / "c").symlink_to(more / "c", target_is_directory=True)
    for options in ({}, {"follow_links": True}, {"size": 20}, {}, {"follow_links": True}):
        assert_same(open_data(str(root), cache=cache, **options), open_data(str(root), **options))
    assert len(list(cache.iterdir())) == 3


def test_a_subset_stays_on_disk_and_a_copy_for_a_worker_is_small(root, cache):
    images = open_data(str(root), cache=cache)
    part = images.subset(np.array([20, 3, 11])).subset(np.array([2, 0]))
    assert isinstance(part.pixels, np.memmap)
    np.testing.assert_array_equal(part.read([0, 1]), images.read([11, 20]))
    content = pickle.dumps(part)
    assert len(content) < 5000
    np.testing.assert_array_equal(pickle.loads(content).read([0, 1]), images.read([11, 20]))


@pytest.mark.parametrize("name", ["pixels.npy", "inspections.json"])
@pytest.mark.parametrize("content", [None, b"", b"damaged"])
def test_a_damaged_folder_is_made_anew(root, cache, name, content):
    wanted = open_data(str(root), cache=cache).read(range(24))
    (folder,) = cache.iterdir()
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(content)
    for _ in range(2):
        np.testing.assert_array_equal(open_data(str(root), cache=cache).read(range(24)), wanted)
    assert [path.name for path in cache.iterdir()] == [folder.name]


@pytest.mark.parametrize("name", ["pixels.npy", "inspections.json"])
def test_a_single_flipped_bit_of_what_is_kept_is_noticed(root, cache, name):
    wanted = open_data(str(root), cache=cache).read(range(24))
    (folder,) = cache.iterdir()
    whole = (folder / name).read_bytes()
    for place in (20, len(whole) // 2, len(whole) - 1):
        content = bytearray(whole)
        content[place] ^= 1
        (folder / name).write_bytes(content)
        np.testing.assert_array_equal(open_data(str(root), cache=cache).read(range(24)), wanted)
        assert (folder / name).read_bytes() == whole


def test_what_an_earlier_version_kept_is_made_anew(root, cache):
    wanted = open_data(str(root), cache=cache).read(range(24))
    (folder,) = cache.iterdir()
    whole = (folder / "inspections.json").read_text()
    (folder / "inspections.json").write_text(json.loads(whole)["rows"])
    np.testing.assert_array_equal(open_data(str(root), cache=cache).read(range(24)), wanted)
    assert (folder / "inspections.json").read_text() == whole


def test_sets_in_memory_are_not_kept(cache):
    assert len(open_data("digits", cache=cache)) == 1797
    assert not cache.exists()


@pytest.mark.parametrize("limit", ["LIMIT", "SHARE"])
def test_what_takes_too_much_room_is_not_kept(root, cache, monkeypatch, limit):
    monkeypatch.setattr(decoded, limit, 1000 if limit == "LIMIT" else 1e-12)
    images = open_data(str(root), cache=cache)
    assert images.pixels is None
    assert_same(images, open_data(str(root)))
    assert list(cache.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_one_line(root, tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="file/kept cannot be written: Not a directory"):
        open_data(str(root), cache=tmp_path / "file" / "kept")


def test_another_process_may_finish_first(root, cache):
    """The other one makes the same folder while this one is still writing."""
    others = []

    def progress(what, done, total):
        if what == "keeping decoded images" and not others:
            others.append(open_data(str(root), cache=cache))

    images = open_data(str(root), cache=cache, progress=progress)
    assert_same(images, others[0])
    assert isinstance(images.pixels, np.memmap)
    assert len(list(cache.iterdir())) == 1


def test_processes_that_make_it_at_once_all_succeed(root, cache):
    code = (
        "import sys, hashlib; from pathlib import Path; from bayestriplet.data.sources import open_data;"
        "images = open_data(sys.argv[1], cache=Path(sys.argv[2]));"
        "print(type(images.pixels).__name__, hashlib.md5(images.read(range(24)).tobytes()).hexdigest())"
    )
    call = [sys.executable, "-c", code, str(root), str(cache)]
    for _ in range(2):
        running = [subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(4)]
        answers = [one.communicate(timeout=120) for one in running]
        assert [one.returncode for one in running] == [0] * 4, answers
        assert len({out for out, _ in answers}) == 1
        assert answers[0][0].startswith(b"memmap")
        assert len(list(cache.iterdir())) == 1


def test_the_files_are_decoded_without_warnings(root, cache):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        open_data(str(root), cache=cache)
