import time
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from bayestriplet.data.audit import data_warnings
from bayestriplet.data.dataset import LabelledImages, few_items
from bayestriplet.data.digests import digests_of
from bayestriplet.data.sources import list_data, open_data
from tests.data.pictures import make_folder, noise, ramp, save_deep, save_picture


def in_memory(labels, count=None, name="own"):
    """Return a set in memory whose images all differ, with these labels, all to train on."""
    classes = tuple(sorted(set(labels)))
    pixels = noise(len(labels), 8, 8, 1, seed=5)
    return LabelledImages(
        name=name,
        classes=classes,
        labels=np.array([classes.index(label) for label in labels], dtype=np.int64),
        splits=np.full(len(labels), "train", dtype="<U5"),
        ids=tuple(f"item/{i}" for i in range(len(labels))),
        channels=1,
        size=8,
        kind="photo",
        pixels=pixels,
    )


def doubts(images, **options):
    """Return the warnings beyond those of classes with few items."""
    few = few_items(images)
    found = data_warnings(images, **options)
    assert found[: len(few)] == few
    assert all("\n" not in one for one in found)
    return found[len(few) :]


def test_a_clean_set_has_no_warnings(tmp_path):
    assert data_warnings(open_data(str(make_folder(tmp_path, {"a": 20, "b": 20})))) == []
    assert data_warnings(in_memory(["a", "b"] * 20)) == []


def test_classes_with_few_items_are_warned_of_here_too(tmp_path):
    images = open_data(str(make_folder(tmp_path, {"a": 6, "b": 30})))
    assert data_warnings(images) == few_items(images) != []


@pytest.mark.parametrize(
    "labels",
    [
        ["AC;X", "AC;Y", "AD;X", "MEL;X"],
        ["Effusion|Mass", "Effusion", "Mass|Nodule", "Nodule|Effusion"],
        ["cat, dog", "dog, cow", "cat, cow", "cat, dog, cow"],
    ],
)
def test_labels_of_several_values_are_asked_about(labels):
    (found,) = doubts(in_memory(labels * 5))
    several = [label for label in sorted(labels) if any(mark in label for mark in ";|,")]
    assert found == (
        f"{len(several)} of 4 labels hold several values, such as {several[0]!r}: are these classes at all?"
    )


@pytest.mark.parametrize(
    "labels",
    [
        ["carcinoma, ductal", "carcinoma, lobular", "normal"],
        ["a;b", "c", "d", "e"],
        ["T-cell/B-cell", "a+b", "c&d"],
        ["; leading", "trailing;", "plain"],
    ],
)
def test_marks_that_separate_nothing_are_no_reason_to_ask(labels):
    assert doubts(in_memory(labels * 5)) == []


@pytest.mark.parametrize("number", ["{:.3f}", "{:.3e}", "-{:.4f}"])
def test_labels_that_are_measured_numbers_are_asked_about(number):
    values = np.random.default_rng(0).uniform(0, 1, 60)
    labels = [number.format(value) for value in values]
    (found,) = doubts(in_memory(labels))
    kinds = sorted(set(labels))
    assert found == (
        f"the labels are {len(kinds)} different decimal numbers for 60 images, such as {kinds[0]!r}: "
        f"are these classes at all?"
    )


@pytest.mark.parametrize("labels", [["0.5", "1.0", "2.0"] * 10, list("0123456789"), ["1.2.3", "1.2.4"]])
def test_numbers_that_recur_or_count_are_classes(labels):
    assert doubts(in_memory(labels)) == []


def test_classes_that_differ_by_case_or_space_are_named():
    labels = ["Tumor"] * 4 + ["tumor"] * 3 + ["stroma "] * 2 + ["stroma"] * 5 + ["fat"] * 2
    (found,) = doubts(in_memory(labels))
    assert found == (
        "4 classes differ only in letter case or surrounding space: 'Tumor' (4 images) and 'tumor' (3 images)"
    )


def test_identical_images_in_two_classes_or_splits_are_named_with_their_number(tmp_path):
    root = make_folder(tmp_path, {"a": 20, "b": 20})
    Image.open(root / "a" / "3.png").save(root / "b" / "copy.bmp")  # another file, the same pixels
    Image.open(root / "a" / "3.png").save(root / "b" / "more.png")
    Image.open(root / "a" / "5.png").save(root / "b" / "other.tif")
    images = open_data(str(root))
    splits = np.full(len(images), "train", dtype="<U5")
    splits[[images.ids.index("b/other.tif"), images.ids.index("b/7.png")]] = "test"
    images = replace(images, splits=splits)
    assert doubts(images) == [
        "5 images have an identical one in another class: a/3.png (a) and b/copy.bmp (b)",
        "2 images have an identical one in another split: a/5.png (train) and b/other.tif (test)",
    ]
    kept = images.subset(np.flatnonzero(images.labels == 0))
    assert doubts(kept) == []


def test_identical_images_in_memory_are_found_too():
    images = in_memory(["a", "b"] * 30)
    images.pixels[7] = images.pixels[4]
    assert doubts(images) == [
        "2 images have an identical one in another class: item/4 (a) and item/7 (b)",
    ]


def test_identical_images_of_one_class_and_split_are_no_warning():
    images = in_memory(["a", "b"] * 30)
    images.pixels[6] = images.pixels[4]
    assert doubts(images) == []


def test_dark_images_of_16_bits_that_differ_are_not_identical(tmp_path):
    for i in range(6):
        save_deep(tmp_path / "ab"[i % 2] / f"{i}.png", np.roll(ramp(8, 16) // 8, i, axis=1))
    save_deep(tmp_path / "a" / "bright.png", ramp(16))
    assert doubts(open_data(str(tmp_path))) == []


def test_images_of_other_shapes_are_not_identical(tmp_path):
    make_folder(tmp_path, {"a": 3, "b": 3})
    Image.new("L", (10, 40), 7).save(tmp_path / "a" / "wide.png")
    Image.new("L", (40, 10), 7).save(tmp_path / "b" / "high.png")
    assert doubts(open_data(str(tmp_path))) == []


def test_files_that_were_not_opened_are_not_compared(tmp_path):
    root = make_folder(tmp_path, {"a": 3, "b": 3})
    save_picture(root / "b" / "copy.png", seed=0)
    assert doubts(list_data(str(root), size=28, channels=3)) == []


@pytest.mark.parametrize("name", ["mnist", "digits", "pathmnist"])
def test_named_sets_are_compared_only_where_they_are_checked(name):
    images = in_memory(["a", "b"] * 30, name=name)
    images.pixels[7] = images.pixels[4]
    assert doubts(images) == []
    assert len(doubts(images, thorough=True)) == 1


def test_a_folder_with_the_name_of_a_named_set_is_compared(tmp_path):
    root = make_folder(tmp_path / "digits", {"a": 8, "b": 8})
    save_picture(root / "b" / "copy.png", seed=0)
    assert any("another class: a/0.png (a) and b/copy.png (b)" in one for one in doubts(open_data(str(root))))


def test_as_many_images_as_mnist_are_compared_in_well_under_a_second():
    pixels = noise(70_000, 28, 28, 1)
    began = time.perf_counter()
    digests = digests_of(pixels)
    assert time.perf_counter() - began < 0.8
    assert len(np.unique(digests)) == 70_000
    images = replace(in_memory(["a", "b"] * 35_000), pixels=pixels, size=28)
    began = time.perf_counter()
    assert doubts(images) == []
    assert time.perf_counter() - began < 1.5
