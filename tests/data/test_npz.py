import zipfile

import numpy as np
import pytest
from typer.testing import CliRunner

from bayestriplet.cli import data
from bayestriplet.data.dataset import few_items
from bayestriplet.data.sources import open_data
from bayestriplet.errors import DataError
from tests.data.pictures import noise


def arrays(classes=9, shape=(28, 28, 3)):
    made = {}
    for number, (split, count) in enumerate((("train", 30), ("val", 12), ("test", 15))):
        made[f"{split}_images"] = noise(count, *shape, seed=number)
        made[f"{split}_labels"] = (np.arange(count) % classes).astype(np.uint8)[:, None]
    return made


def write(path, made):
    np.savez(path, **made)
    return str(path)


def test_pathmnist_has_its_splits_and_names(tmp_path):
    made = arrays()
    images = open_data("pathmnist:" + write(tmp_path / "pathmnist_28.npz", made))
    assert images.name == "pathmnist"
    assert images.classes == ("ADI", "BACK", "DEB", "LYM", "MUC", "MUS", "NORM", "STR", "TUM")
    assert (images.kind, images.size, images.channels) == ("histology", 28, 3)
    assert images.ids[30] == "val/0"
    assert (images.read(images.indices("test")) == made["test_images"]).all()
    assert (images.labels[images.indices("val")] == made["val_labels"][:, 0]).all()


@pytest.mark.parametrize(
    ("shape", "channels", "kind"), [((20, 20), 1, "digits"), ((20, 20, 3), 3, "histology")]
)
def test_another_file_has_numbers_for_names(tmp_path, shape, channels, kind):
    images = open_data(write(tmp_path / "blood.npz", arrays(4, shape)))
    assert images.name == "blood"
    assert images.classes == ("0", "1", "2", "3")
    assert (images.channels, images.kind) == (channels, kind)
    assert images.read([0]).shape == (1, 20, 20, channels)


def test_a_wanted_size_is_resized_to(tmp_path):
    images = open_data(write(tmp_path / "a.npz", arrays(4, (20, 20))), size=32, per_class=2)
    assert images.read([0]).shape == (1, 32, 32, 1)
    assert len(images.indices("train")) == 8


def drop(made):
    del made["val_labels"], made["test_images"]


def to_float(made):
    made["train_images"] = made["train_images"] / 255


def flatten(made):
    made["train_images"] = made["train_images"].reshape(30, -1)


def stretch(made):
    made["train_images"] = made["train_images"][:, :20]


def shorten(made):
    made["val_labels"] = made["val_labels"][:-1]


def to_many(made):
    made["val_labels"] = np.zeros((12, 5), dtype=np.uint8)


def to_real(made):
    made["val_labels"] = made["val_labels"] / 2


def to_objects(made):
    made["train_images"] = np.array([{}] * 30)


def to_other_side(made):
    made["val_images"] = noise(12, 64, 64, 3)


def to_negative(made):
    made["val_labels"] = made["val_labels"].astype(np.int64) - 1


def to_huge(made):
    made["val_labels"] = made["val_labels"].astype(np.int64) + 10**12


def to_single(made):
    for split in ("train", "val", "test"):
        made[f"{split}_labels"] *= 0


def to_none(made):
    for key in made:
        made[key] = made[key][:0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (drop, "lacks val_labels, test_images; a MedMNIST file has train_images"),
        (to_float, "train_images must be uint8 of shape .*; got float64"),
        (flatten, r"train_images must be uint8 of shape .*; got uint8 of shape \(30, 2352\)"),
        (stretch, r"got uint8 of shape \(30, 20, 28, 3\)"),
        (shorten, r"val_labels must be 12 whole numbers, one per image; got uint8 of shape \(11, 1\)"),
        (to_many, r"val_labels must be 12 whole numbers, .*\(12, 5\)"),
        (to_real, "val_labels must be 12 whole numbers, .*float64"),
        (to_objects, "train_images does not hold the object"),
        (to_other_side, "the splits have images of different shapes"),
        (to_negative, r"labels must be whole numbers from 0 up; got -1\.\."),
        (to_huge, r"labels must be whole numbers from 0 up; got 0\.\.1000000000008"),
        (to_single, "has the single class '0'"),
        (to_none, "holds no images"),
    ],
)
def test_a_wrong_file_is_one_line(tmp_path, change, message):
    made = arrays()
    change(made)
    with pytest.raises(DataError, match=message) as caught:
        open_data(write(tmp_path / "wrong.npz", made))
    assert "\n" not in str(caught.value)
    assert "wrong.npz" in str(caught.value)


def test_a_header_that_promises_more_than_there_is_is_refused_unread(tmp_path):
    made = arrays()
    path = tmp_path / "bomb.npz"
    write(path, made)
    header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (900000000, 28, 28, 3), }"
    header += b" " * (117 - len(header)) + b"\n"
    with zipfile.ZipFile(path) as whole:
        parts = {name: whole.read(name) for name in whole.namelist()}
    parts["train_images.npy"] = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    with zipfile.ZipFile(path, "w") as changed:
        for name, content in parts.items():
            changed.writestr(name, content)
    with pytest.raises(DataError, match=r"train_images does not hold the uint8 of shape \(900000000"):
        open_data(str(path))


@pytest.mark.parametrize("content", [b"", b"text", None])
def test_a_broken_archive_is_one_line(tmp_path, content):
    path = tmp_path / "broken.npz"
    whole = write(path, arrays())
    path.write_bytes(path.read_bytes()[:2000] if content is None else content)
    with pytest.raises(
        DataError, match=r"broken\.npz cannot be read as an \.npz file: .*; download it again"
    ):
        open_data(whole)


def test_damaged_bytes_are_found(tmp_path):
    path = tmp_path / "damaged.npz"
    np.savez_compressed(path, **arrays())
    content = bytearray(path.read_bytes())
    content[5000:5040] = bytes(40)
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"cannot be read as an \.npz file"):
        open_data(str(path))


def test_an_encrypted_archive_is_one_line(tmp_path):
    path = tmp_path / "locked.npz"
    write(path, arrays())
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        starts = [info.header_offset for info in archive.infolist()]
    for start in [start + 6 for start in starts] + [i + 8 for i in find_all(content, b"PK\x01\x02")]:
        content[start] |= 1  # the flag of encryption
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"locked\.npz cannot be read as an \.npz file: .*password"):
        open_data(str(path))


def find_all(content, pattern):
    place = content.find(pattern)
    while place >= 0:
        yield place
        place = content.find(pattern, place + 1)


def test_splits_of_different_classes_are_opened_and_checked_as_they_are(tmp_path):
    made = arrays(shape=(20, 20))
    for start, split in ((0, "train"), (5, "val"), (8, "test")):
        made[f"{split}_labels"] = start + np.arange(len(made[f"{split}_labels"])) % 3
    images = open_data(write(tmp_path / "glyphs.npz", made))
    for split in ("train", "val", "test"):
        assert (images.labels[images.indices(split)] == made[f"{split}_labels"]).all()
    assert images.classes[4] == "4"  # a label that no image has
    assert few_items(images) == []
    done = CliRunner().invoke(data.app, ["check", str(tmp_path / "glyphs.npz")])
    assert done.exit_code == 0
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in done.output.splitlines()]
    assert ["0", "10", "0", "0", "10"] in cells
    assert ["5", "0", "4", "0", "4"] in cells
    assert ["8", "0", "0", "5", "5"] in cells
    assert "training images" not in done.output


def test_classes_are_named_by_the_file(tmp_path):
    names = np.array(["Greek/alpha", "Greek/beta", "Latin/a", "Latin/b"])
    images = open_data(write(tmp_path / "glyphs.npz", arrays(4, (20, 20)) | {"classes": names}))
    assert images.classes == tuple(names)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (np.array(["a", "b", "c"]), r"classes must hold 4 different names; got 3"),
        (np.array(["a", "b", "c", "a"]), r"classes must hold 4 different names; got 3"),
        (np.arange(4), r"classes must be a list of names as text; got int64 of shape \(4,\)"),
        (np.array([["a", "b"], ["c", "d"]]), r"classes must be a list of names as text; got .* \(2, 2\)"),
        (np.array(["a", "b", "c", "d"], dtype=object), r"classes does not hold the object"),
    ],
)
def test_wrong_names_of_classes_are_one_line(tmp_path, names, message):
    with pytest.raises(DataError, match=message) as caught:
        open_data(write(tmp_path / "glyphs.npz", arrays(4, (20, 20)) | {"classes": names}))
    assert "\n" not in str(caught.value)
