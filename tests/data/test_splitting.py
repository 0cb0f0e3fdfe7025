import numpy as np
import pytest

from bayestriplet.data.audit import data_warnings
from bayestriplet.data.sources import examine_data, open_data
from bayestriplet.data.splits import SPLITS
from bayestriplet.errors import DataError, InputError
from tests.data.pictures import make_folder, save_picture

LETTERS = "abcdefgh"


@pytest.fixture
def root(tmp_path):
    """Eight classes of four images."""
    return make_folder(tmp_path / "set", dict.fromkeys(LETTERS, 4))


@pytest.fixture
def manifest(tmp_path):
    """Eight classes of four images, two of each patient."""
    lines = ["path,label,group"]
    for number in range(32):
        save_picture(tmp_path / "img" / f"{number}.png", seed=number)
        lines.append(f"img/{number}.png,{LETTERS[number // 4]},p{number % 16}")
    (tmp_path / "list.csv").write_text("\n".join(lines))
    return tmp_path / "list.csv"


def classes_of(images):
    """Return the classes of every split, as one word each."""
    return tuple(
        "".join(sorted({images.classes[k] for k in images.labels[images.indices(split)]})) for split in SPLITS
    )


def write_splits(tmp_path, *rows, header="class,split"):
    (tmp_path / "classes.csv").write_text("\n".join([header, *rows]))
    return f"class:{tmp_path / 'classes.csv'}"


def test_whole_classes_are_split_by_seed(root):
    images = open_data(str(root), split_by="class", seed=3)
    found = classes_of(images)
    assert tuple(map(len, found)) == (4, 2, 2)
    assert sorted("".join(found)) == list(LETTERS)
    assert images.classes == tuple(LETTERS)
    assert classes_of(open_data(str(root), split_by="class", seed=3)) == found
    assert any(classes_of(open_data(str(root), split_by="class", seed=seed)) != found for seed in (4, 5))
    np.testing.assert_array_equal(
        examine_data(str(root), split_by="class", seed=3).images.splits, images.splits
    )


def test_decoded_images_that_are_kept_are_split_by_class_too(root, tmp_path):
    wanted = open_data(str(root), split_by="class", seed=1)
    for _ in range(2):
        images = open_data(str(root), split_by="class", seed=1, cache=tmp_path / "kept")
        np.testing.assert_array_equal(images.splits, wanted.splits)
        assert isinstance(images.pixels, np.memmap)


def test_a_bad_file_changes_the_split_of_no_class(root):
    before = classes_of(open_data(str(root), split_by="class"))
    (root / "c" / "2.png").write_bytes(b"")
    assert classes_of(open_data(str(root), split_by="class", skip_bad=True)) == before


def test_digits_can_be_split_by_class():
    images = open_data("digits", split_by="class", seed=2)
    assert tuple(map(len, classes_of(images))) == (6, 2, 2)
    np.testing.assert_array_equal(open_data("digits", split_by="item").splits, open_data("digits").splits)


def test_a_file_names_the_split_of_every_class(root, tmp_path):
    rows = [
        f"{name},{split}" for name, split in zip("hgfedcba", ["train"] * 4 + ["val", "test"] * 2, strict=True)
    ]
    assert classes_of(open_data(str(root), split_by=write_splits(tmp_path, *rows))) == ("efgh", "bd", "ac")


def test_a_file_may_leave_validation_out_and_then_nothing_validates(root, tmp_path):
    rows = [f"{name};{'train' if name < 'e' else 'test'}" for name in LETTERS]
    images = open_data(str(root), split_by=write_splits(tmp_path, *rows, header="class;split"))
    assert classes_of(images) == ("abcd", "", "efgh")


ALL = [
    f"{name},{split}" for name, split in zip(LETTERS, ["train"] * 4 + ["val"] * 2 + ["test"] * 2, strict=True)
]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([*ALL, "abba,train"], r"line 10 names 'abba', which is no class of .*set"),
        (ALL[1:], r"classes\.csv lacks the class 'a' of .*set; it must name all"),
        (ALL[3:], r"lacks the class 'a' and 2 more of "),
        ([*ALL[1:], "a,dev"], r"line 9 has the split 'dev'; it must be train, val or test"),
        ([*ALL, "a,train"], r"line 10 names 'a' again; every class must be there once"),
        ([f"{name},train" for name in LETTERS], r"gives test 0 of the classes; it needs at least 2"),
        ([*ALL[:5], "f,train", *ALL[6:]], r"gives val 1 of the classes; it needs at least 2"),
    ],
)
def test_a_wrong_file_of_classes_is_one_line(root, tmp_path, rows, message):
    with pytest.raises(DataError, match=message) as caught:
        open_data(str(root), split_by=write_splits(tmp_path, *rows))
    assert "\n" not in str(caught.value)


def test_a_file_of_classes_without_its_columns_is_one_line(root, tmp_path):
    with pytest.raises(DataError, match=r"lacks the column class; its first line must name class,split"):
        open_data(str(root), split_by=write_splits(tmp_path, *ALL, header="name,split"))
    with pytest.raises(DataError, match=r"gone\.csv cannot be read: No such file"):
        open_data(str(root), split_by=f"class:{tmp_path / 'gone.csv'}")


@pytest.mark.parametrize("split_by", ["clas", "class:", "group:x.csv", "", 3])
def test_another_word_is_refused_before_anything_is_read(split_by):
    with pytest.raises(InputError, match=r"split_by must be item, group, class or class:FILE\.csv; got "):
        open_data("digits", split_by=split_by)


def test_fewer_than_six_classes_are_one_line(tmp_path):
    root = make_folder(tmp_path / "few", dict.fromkeys("abcde", 4))
    (root / "a" / "0.png").write_bytes(b"")  # found only if images were opened
    message = r"few: splitting by class needs at least 6 classes; there are 5"
    with pytest.raises(DataError, match=message):
        open_data(str(root), split_by="class")


@pytest.mark.parametrize("split_by", ["class", "item", "group"])
def test_data_with_splits_of_their_own_are_not_split_again(tmp_path, split_by):
    for split in SPLITS:
        make_folder(tmp_path / "set" / split, dict.fromkeys(LETTERS, 1))
    (tmp_path / "list.csv").write_text(
        "path,label,split\n" + "\n".join(f"set/train/{x}/0.png,{x},train" for x in LETTERS)
    )
    parts = {f"{split}_images": np.zeros((8, 8, 8), dtype=np.uint8) for split in SPLITS}
    np.savez(tmp_path / "own.npz", **parts, **{f"{split}_labels": np.arange(8) for split in SPLITS})
    for name in ("set", "list.csv", "own.npz"):
        message = rf"{name} has splits of its own, and --split-by {split_by} is given: leave out --split-by"
        with pytest.raises(DataError, match=message):
            open_data(str(tmp_path / name), split_by=split_by)
        open_data(str(tmp_path / name))


def test_groups_are_what_is_split_by_unless_another_is_given(manifest, root):
    by_default = open_data(str(manifest)).splits
    np.testing.assert_array_equal(open_data(str(manifest), split_by="group").splits, by_default)
    images = open_data(str(manifest), split_by="item")
    assert (images.splits != by_default).any()
    assert images.groups is not None
    assert tuple(map(len, classes_of(open_data(str(manifest), split_by="class")))) == (4, 2, 2)
    with pytest.raises(
        DataError, match=r"set: --split-by group needs groups: a \.csv manifest with the column"
    ):
        open_data(str(root), split_by="group")


def test_classes_without_training_items_are_no_warning_where_classes_are_split(root):
    assert data_warnings(open_data(str(root), split_by="class")) == []


def test_too_few_items_to_measure_anything_are_one_line(root):
    message = (
        "no class has two test images, so nothing can be measured among them: add images, "
        "or split whole classes with --split-by class"
    )
    assert message in data_warnings(open_data(str(root)))
    for name in LETTERS:
        for i in (2, 3):
            (root / name / f"{i}.png").unlink()
    assert data_warnings(open_data(str(root)))[-1] == message  # nothing is left to validate or test with
    assert data_warnings(open_data(str(root), split_by="class")) == []
    for name in LETTERS:
        (root / name / "1.png").unlink()
    found = data_warnings(open_data(str(root), split_by="class"))
    assert found[-1] == "no class has two test images, so nothing can be measured among them: add images"
