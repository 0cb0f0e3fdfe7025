import pickle
import subprocess
import sys

import numpy as np
import pytest

from bayestriplet.data.sources import list_data, open_data
from bayestriplet.errors import DataError, InputError, InputTypeError


def test_digits_are_the_scans_of_scikit_learn_split_60_20_20():
    from sklearn.datasets import load_digits

    images = open_data("digits")
    assert images.pixels.shape == (1797, 8, 8, 1)
    assert (images.pixels.min(), images.pixels.max()) == (0, 255)
    assert np.abs(images.pixels[..., 0] / (255 / 16) - load_digits().images).max() < 0.04
    sizes = [len(images.indices(split)) for split in ("train", "val", "test")]
    assert np.abs(np.array(sizes) - 1797 * np.array([0.6, 0.2, 0.2])).max() < 1
    assert (images.kind, images.channels, images.size) == ("digits", 1, 8)
    assert len(set(images.ids)) == 1797


def test_a_set_in_memory_is_resized_only_when_asked():
    assert open_data("digits", size=8).size == 8
    images = open_data("digits", size=20, per_class=2)
    assert images.read([3, 1]).shape == (2, 20, 20, 1)
    assert images.size == 20


def test_a_subset_keeps_everything_in_step():
    whole, part = open_data("digits"), open_data("digits", per_class=7)
    assert np.bincount(part.labels[part.indices("train")]).tolist() == [7] * 10
    where = [whole.ids.index(name) for name in part.ids]
    assert (whole.labels[where] == part.labels).all()
    assert (whole.splits[where] == part.splits).all()
    assert (whole.pixels[where] == part.pixels).all()


def test_a_set_in_memory_can_be_sent_to_workers():
    images = open_data("digits", per_class=2)
    copy = pickle.loads(pickle.dumps(images))
    assert (copy.read([0, 5]) == images.read([0, 5])).all()


def test_reading_nothing_gives_no_images():
    assert open_data("digits").read([]).shape == (0, 8, 8, 1)


@pytest.mark.parametrize("indices", [[-1], [1797]])
def test_a_position_outside_is_refused(indices):
    with pytest.raises(InputError, match=r"indices must lie in 0\.\.1796"):
        open_data("digits").read(indices)


def test_an_unknown_split_is_refused():
    with pytest.raises(
        InputError,
        match=r"split must be one of 'train', 'val', 'test', 'all'; got 'tset'; did you mean 'test'",
    ):
        open_data("digits").indices("tset")


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (
            "mnits",
            InputError,
            r"there is no data set 'mnits'; did you mean 'mnist'\? .*mnist, digits, crc, pathmnist",
        ),
        ("pathmnst:/x.npz", InputError, "there is no data set 'pathmnst'; did you mean 'pathmnist'"),
        ("", InputError, "there is no data set ''"),
        (
            "crc",
            InputError,
            "crc needs to know where it is: crc:/path/to/.*; see 'bayestriplet data get crc'",
        ),
        ("pathmnist:", InputError, "pathmnist needs to know where it is"),
        ("mnist:/x", InputError, "mnist takes no path; got mnist:/x"),
        ("crc:/no/such", DataError, "there is no file or folder /no/such; see 'bayestriplet data get crc'"),
        ("no/such/folder", DataError, "there is no file or folder no/such/folder"),
        ("~nobody-of-this-name/x", DataError, "there is no file or folder ~nobody"),
        ("x" * 5000, DataError, "cannot be read: File name too long"),
        ("list.csv", DataError, r"there is no file or folder list\.csv"),
    ],
)
def test_what_does_not_exist_is_one_line(data, error, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message):
        open_data(data)


def test_another_file_is_one_line(tmp_path):
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(
        DataError, match=r"a\.txt is neither a folder of images, a \.csv manifest nor an \.npz file"
    ):
        open_data(str(tmp_path / "a.txt"))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"seed": -1}, InputError, "seed must be at least 0; got -1"),
        ({"per_class": 0}, InputError, "per_class must be at least 1; got 0"),
        ({"size": 0}, InputError, "size must be at least 1; got 0"),
        ({"size": 2.5}, InputTypeError, "size must be a whole number"),
        ({"size": 5000}, InputError, "size 5000 would take 45 GB of memory for 1797 images"),
    ],
)
def test_wrong_options_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        open_data("digits", **options)


def test_data_needs_neither_torch_nor_scikit_learn_to_be_imported():
    code = "import sys, bayestriplet.data.sources; print({'torch', 'sklearn'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "set()", done.stderr


def test_data_can_be_listed_without_opening_a_file(tmp_path):
    (tmp_path / "only" / "one").mkdir(parents=True)
    (tmp_path / "only" / "one" / "bad.png").write_bytes(b"not an image")
    images = list_data(str(tmp_path / "only"), size=28, channels=3)
    assert (images.ids, images.classes, images.size, images.channels) == (("one/bad.png",), ("one",), 28, 3)
    with pytest.raises(DataError, match=r"bad.png is not an image; .*--skip-bad"):
        images.read([0])
    digits = list_data("digits", size=28, channels=3)
    assert (len(digits), digits.size, digits.channels) == (1797, 28, 1)
    with pytest.raises(DataError, match="there is no file or folder"):
        list_data(str(tmp_path / "none" / "here"), size=28, channels=3)
