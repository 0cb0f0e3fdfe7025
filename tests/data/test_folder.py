import os
import pickle

import numpy as np
import pytest
from PIL import Image

from bayestriplet.data.dataset import few_items
from bayestriplet.data.folder import list_folder
from bayestriplet.data.sources import open_data
from bayestriplet.errors import DataError
from tests.data.pictures import make_folder, noise, save_picture


def counts(images):
    return {split: len(images.indices(split)) for split in ("train", "val", "test")}


def test_a_subfolder_is_a_class_split_70_15_15(tmp_path):
    images = open_data(str(make_folder(tmp_path / "pets", {"dog": 20, "cat": 20})))
    assert images.name == "pets"
    assert images.classes == ("cat", "dog")
    assert images.kind == "photo"
    assert counts(images) == {"train": 28, "val": 6, "test": 6}
    for name, label in zip(images.ids, images.labels, strict=True):
        assert name.split("/")[0] == images.classes[label]


def test_what_is_read_is_what_the_files_hold(tmp_path):
    root = make_folder(tmp_path, {"a": 4, "b": 4}, shape=(32, 32, 3))
    images = open_data(str(root))
    assert (images.size, images.channels) == (32, 3)
    where = images.ids.index("b/2.png")
    pixels = images.read([where, 0])
    assert pixels.shape == (2, 32, 32, 3)
    assert (pixels[0] == noise(32, 32, 3, seed=1002)).all()


def test_a_copy_sent_to_a_worker_reads_the_same(tmp_path):
    images = open_data(str(make_folder(tmp_path, {"a": 3, "b": 3})))
    copy = pickle.loads(pickle.dumps(images))
    assert (copy.read(range(6)) == images.read(range(6))).all()
    assert copy.ids == images.ids


@pytest.mark.parametrize(("side", "size"), [(12, 28), (100, 100), (300, 224)])
def test_the_size_is_that_of_the_images_within_bounds(tmp_path, side, size):
    assert open_data(str(make_folder(tmp_path, {"a": 2, "b": 2}, (side, side + 20)))).size == size


def test_mixed_sizes_are_read_at_224_and_a_wanted_size_wins(tmp_path):
    make_folder(tmp_path, {"a": 2, "b": 2})
    save_picture(tmp_path / "a" / "other.png", 50, 40, 3)
    assert open_data(str(tmp_path)).size == 224
    assert open_data(str(tmp_path), size=40).read([0]).shape == (1, 40, 40, 3)


def test_images_are_grey_only_if_all_are(tmp_path):
    make_folder(tmp_path, {"a": 2, "b": 2}, (30, 30))
    assert open_data(str(tmp_path)).channels == 1
    save_picture(tmp_path / "b" / "colour.png", 30, 30, 3)
    assert open_data(str(tmp_path)).channels == 3


def test_train_val_and_test_folders_are_used_as_they_are(tmp_path):
    for split, count in (("train", 5), ("val", 3), ("test", 2)):
        make_folder(tmp_path / split, {"a": count, "b": count})
    images = open_data(str(tmp_path), seed=5)
    assert counts(images) == {"train": 10, "val": 6, "test": 4}
    assert all(name.split("/")[0] == split for name, split in zip(images.ids, images.splits, strict=True))


@pytest.mark.parametrize(
    ("present", "expected"),
    [
        (("train", "test"), {"train": 34, "val": 6, "test": 40}),
        (("train", "val"), {"train": 34, "val": 40, "test": 6}),
        (("train",), {"train": 28, "val": 6, "test": 6}),
    ],
)
def test_a_missing_split_folder_is_taken_from_train(tmp_path, present, expected):
    for split in present:
        make_folder(tmp_path / split, {"a": 20, "b": 20})
    assert counts(open_data(str(tmp_path))) == expected


def test_slide_folders_in_a_class_are_groups_that_stay_together(tmp_path):
    slides = {f"{name}/s{i}": 4 for name in ("a", "b") for i in range(10)}
    images = open_data(str(make_folder(tmp_path, {**slides, "b/only": 4})))
    assert images.classes == ("a", "b")
    assert len(images) == 84
    assert all(name.split("/")[1] == group for name, group in zip(images.ids, images.groups, strict=True))
    assert set(images.groups) == {*(f"s{i}" for i in range(10)), "only"}  # of both classes: one slide
    homes = set(zip(images.groups.tolist(), images.splits.tolist(), strict=True))
    assert len(homes) == 11
    assert {split for _, split in homes} == {"train", "val", "test"}


def test_images_beside_slide_folders_have_no_group_and_are_split_one_by_one(tmp_path):
    make_folder(tmp_path, {"a": 40, "b": 40, "a/s1": 5, "b/s1": 5, "b/s2": 5})
    (tmp_path / "a" / "s1" / "notes.txt").write_text("x")
    (tmp_path / "a" / "empty").mkdir()
    images = open_data(str(tmp_path))
    assert len(images) == 95
    for name, group in zip(images.ids, images.groups, strict=True):
        assert group == (name.split("/")[1] if name.count("/") == 2 else "")
    for split in ("train", "val", "test"):  # those without a group are in all splits
        assert (images.groups[images.indices(split)] == "").any()
    for group in ("s1", "s2"):
        assert len(set(images.splits[images.groups == group])) == 1
    assert list_folder(tmp_path).ignored == 2


def test_split_folders_may_hold_slide_folders(tmp_path):
    make_folder(tmp_path / "train", {f"{name}/s{i}": 3 for name in ("a", "b") for i in range(6)})
    make_folder(tmp_path / "test", {"a/t1": 3, "b/t1": 3, "a": 2})
    images = open_data(str(tmp_path))
    assert (images.splits[np.char.startswith(images.groups, "t")] == "test").all()
    assert len(set(zip(images.groups.tolist(), images.splits.tolist(), strict=True))) == 8
    assert counts(images)["test"] == 8
    assert set(images.splits[np.char.startswith(images.groups, "s")]) == {"train", "val"}


def test_names_that_differ_by_extension_or_case_are_different_images(tmp_path):
    make_folder(tmp_path, {"a": 2, "b": 2})
    for name in ("x.png", "x.jpg", "X.png", "x.PNG"):
        Image.new("RGB", (12, 12)).save(tmp_path / "a" / name)
    images = open_data(str(tmp_path))
    assert len(images) == len(set(images.ids)) == 8


def test_other_files_hidden_ones_and_links_that_leave_are_ignored(tmp_path):
    root = make_folder(tmp_path / "set", {"a": 3, "b": 3})
    (root / "a" / "notes.txt").write_text("x")
    (root / "a" / ".hidden.png").write_bytes(b"x")
    (root / ".git").mkdir()
    (root / "__MACOSX").mkdir()
    (root / "readme.md").write_text("x")
    outside = save_picture(tmp_path / "outside" / "1.png")
    (root / "b" / "link.png").symlink_to(outside)
    (root / "c").symlink_to(outside.parent, target_is_directory=True)
    (root / "b" / "broken.png").symlink_to(root / "b" / "gone.png")
    images = open_data(str(root))
    assert images.classes == ("a", "b")
    assert len(images) == 6


def test_a_link_inside_the_folder_is_followed(tmp_path):
    root = make_folder(tmp_path, {"a": 3, "b": 3})
    (root / "a" / "again.png").symlink_to(root / "a" / "0.png")
    assert "a/again.png" in open_data(str(root)).ids


def empty(root):
    root.mkdir()


def no_classes(root):
    save_picture(root / "1.png")


def single(root):
    make_folder(root, {"a": 3})


def bare_class(root):
    make_folder(root, {"a": 3})
    (root / "b").mkdir()


def nested(root):
    make_folder(root / "b" / "inner", {"c": 2})
    make_folder(root, {"a": 3})


def nested_below_images(root):
    make_folder(root, {"a": 3, "b": 3})
    make_folder(root / "b" / "slide", {"deep/deeper": 2})


def bare_slides(root):
    make_folder(root, {"a": 3})
    (root / "b" / "slide" / "empty").mkdir(parents=True)


def slide_of_other_type(root):
    make_folder(root, {"a": 3})
    (root / "b" / "slide").mkdir(parents=True)
    (root / "b" / "slide" / "whole.svs").write_bytes(b"x")


def slide_in_two_splits(root):
    for split in ("train", "test"):
        make_folder(root / split, {"a/s1": 3, "b/s2": 3})


def no_train(root):
    make_folder(root / "val", {"a": 3, "b": 3})


def unlabelled_splits(root):
    make_folder(root, {"train": 3, "val": 3, "test": 3})


def other_beside(root):
    make_folder(root / "train", {"a": 3, "b": 3})
    make_folder(root, {"masks": 2})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (empty, r"set is empty; expected a folder of images for every class"),
        (no_classes, r"set has files but no class folders; expected"),
        (single, r"set has the single class 'a'; at least two are needed"),
        (bare_class, r"class folder .*b holds no images \(png, jpg"),
        (nested, r"slide folder .*b/inner holds folders of its own: images must lie directly in a class"),
        (nested_below_images, r"slide folder .*b/slide holds folders of its own"),
        (bare_slides, r"class folder .*b holds no images .*, neither directly nor in its folders"),
        (slide_of_other_type, r"class folder .*b holds no images .* only \.svs files; cut whole slides"),
        (slide_in_two_splits, r"set puts group 's1' into test and train; a group must stay in one"),
        (no_train, r"set has val but no train folder"),
        (unlabelled_splits, r"test has files but no class folders"),
        (other_beside, r"set has masks beside train, val or test; rename or move them"),
    ],
)
def test_a_wrong_layout_is_one_line(tmp_path, make, message):
    make(tmp_path / "set")
    with pytest.raises(DataError, match=message) as caught:
        open_data(str(tmp_path / "set"))
    assert "\n" not in str(caught.value)


def test_bad_files_are_listed_ten_at_most_with_their_number(tmp_path):
    make_folder(tmp_path, {"a": 4, "b": 4})
    for i in range(12):
        (tmp_path / "a" / f"bad{i:02}.png").write_bytes(b"" if i % 2 else b"text")
    with pytest.raises(DataError, match=r"has 12 bad files of 20: .*--skip-bad") as caught:
        open_data(str(tmp_path))
    message = str(caught.value)
    assert "a/bad00.png is not an image; a/bad01.png is empty" in message
    assert "bad09" in message
    assert "bad10" not in message


def test_bad_files_can_be_left_out(tmp_path):
    make_folder(tmp_path, {"a": 4, "b": 4})
    (tmp_path / "a" / "bad.png").write_bytes(b"")
    images = open_data(str(tmp_path), skip_bad=True)
    assert len(images) == 8
    assert "a/bad.png" not in images.ids


def test_a_class_of_only_bad_files_cannot_be_left_out(tmp_path):
    make_folder(tmp_path, {"a": 4, "b": 4, "c": 1})
    (tmp_path / "c" / "0.png").write_bytes(b"")
    with pytest.raises(DataError, match="every image of class c is bad"):
        open_data(str(tmp_path), skip_bad=True)


def test_every_file_is_checked_and_progress_reported(tmp_path, monkeypatch):
    monkeypatch.setattr("bayestriplet.data.files.BATCH", 5)
    steps = []
    open_data(str(make_folder(tmp_path, {"a": 6, "b": 6})), progress=lambda *step: steps.append(step))
    assert steps == [("checking images", done, 12) for done in (5, 10, 12)]


def test_an_unreadable_folder_is_one_line(tmp_path, monkeypatch):
    make_folder(tmp_path, {"a": 2, "b": 2})

    def refuse(self):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(type(tmp_path), "iterdir", refuse)
    with pytest.raises(DataError, match="cannot be read: Permission denied"):
        open_data(str(tmp_path))


def test_crc_is_nine_folders_of_histology(tmp_path):
    names = ("ADI", "BACK", "DEB", "LYM", "MUC", "MUS", "NORM", "STR", "TUM")
    for name in names:
        for i in range(4):
            save_picture(tmp_path / name / f"{name}-{i}.tif", 20, 20, 3)
    images = open_data(f"crc:{tmp_path}")
    assert (images.name, images.classes, images.kind, images.size) == ("crc", names, "histology", 224)
    (tmp_path / "TUM").rename(tmp_path / "XYZ")
    with pytest.raises(
        DataError, match="nine class folders of NCT-CRC-HE-100K: missing TUM; not its own XYZ"
    ):
        open_data(f"crc:{tmp_path}")


def test_a_subset_and_the_seed(tmp_path):
    root = make_folder(tmp_path, {"a": 20, "b": 20})
    images = open_data(str(root), per_class=3, seed=1)
    assert counts(images) == {"train": 6, "val": 6, "test": 6}
    assert images.ids == open_data(str(root), per_class=3, seed=1).ids
    assert images.ids != open_data(str(root), per_class=3, seed=2).ids
    assert len(images.paths) == len(images.labels) == 18
    assert all(os.fspath(path).endswith(name) for path, name in zip(images.paths, images.ids, strict=True))
    assert np.bincount(images.labels[images.indices("train")]).tolist() == [3, 3]


def test_classes_with_too_little_to_match_are_warned_of(tmp_path):
    images = open_data(str(make_folder(tmp_path, {"a": 6, "b": 30, "c": 30})))
    assert few_items(images) == [
        "classes with a single validation image, never a match: a",
        "classes with a single test image, never a match: a",
    ]
    (where,) = np.flatnonzero((images.labels == 0) & (images.splits == "test"))
    images.splits[(images.labels == 0) & (np.arange(len(images)) != where)] = "val"
    assert few_items(images) == [
        "classes with fewer than 2 training images: a",
        "classes with a single test image, never a match: a",
    ]


def test_all_items_are_a_split_too(tmp_path):
    images = open_data(str(make_folder(tmp_path, {"a": 6, "b": 7})))
    assert images.indices("all").tolist() == list(range(13))
