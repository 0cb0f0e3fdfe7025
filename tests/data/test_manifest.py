import numpy as np
import pytest

from bayestriplet.data.sources import open_data
from bayestriplet.errors import DataError
from tests.data.pictures import save_picture


def write(tmp_path, text, pictures=12):
    for i in range(pictures):
        save_picture(tmp_path / "img" / f"{i}.png", 30, 30, 3, seed=i)
    path = tmp_path / "list.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def rows(*more, number=12):
    """Return lines of two classes, each with what ``more`` makes of its number."""
    return [",".join([f"img/{i}.png", "ab"[i % 2], *(str(make(i)) for make in more)]) for i in range(number)]


def test_paths_are_relative_to_the_file_and_classes_sorted(tmp_path):
    images = open_data(write(tmp_path, "\n".join(["path,label", *rows()])))
    assert images.name == "list"
    assert images.classes == ("a", "b")
    assert images.ids[3] == "img/3.png"
    assert images.groups is None
    assert images.read([0]).shape == (1, 30, 30, 3)
    assert set(images.splits) == {"train", "val", "test"}


def test_marks_spaces_other_columns_and_line_ends_do_not_matter(tmp_path):
    text = "\ufeffnote, label ,path\r\n" + "\r\n".join(
        f'"x, y", {"ab"[i % 2]} ,img/{i}.png' for i in range(6)
    )
    images = open_data(write(tmp_path, text + "\r\n\r\n"))
    assert images.classes == ("a", "b")
    assert len(images) == 6


@pytest.mark.parametrize("separator", [";", "\t", ","])
def test_the_header_line_shows_what_separates_the_columns(tmp_path, separator):
    given = ["train"] * 6 + ["val"] * 3 + ["test"] * 3
    lines = ["path,label,split", *rows(lambda i: given[i])]
    images = open_data(
        write(tmp_path, "\ufeff" + "\r\n".join(line.replace(",", separator) for line in lines))
    )
    assert images.classes == ("a", "b")
    assert images.splits.tolist() == given


def test_other_marks_in_names_and_labels_do_not_separate(tmp_path):
    lines = ['"note; more",path;label', *(f"img/{i}.png,{'ab'[i % 2]};x" for i in range(6))]
    with pytest.raises(DataError, match="lacks the column path; "):
        open_data(write(tmp_path, "\n".join(lines)))
    images = open_data(write(tmp_path, "\n".join(["path,label", *lines[1:]])))
    assert images.classes == ("a;x", "b;x")
    text = "path;label\n" + "\n".join(f'img/{i}.png;"{"ab"[i % 2]}; 1,5"' for i in range(6))
    assert open_data(write(tmp_path, text)).classes == ("a; 1,5", "b; 1,5")


def test_its_splits_are_kept(tmp_path):
    given = ["train"] * 6 + ["val"] * 3 + ["test"] * 3
    images = open_data(write(tmp_path, "\n".join(["path,label,split", *rows(lambda i: given[i])])))
    assert images.splits.tolist() == given


def test_groups_stay_whole(tmp_path):
    text = "\n".join(["path,label,group", *rows(lambda i: f"patient {i // 2}")])
    images = open_data(write(tmp_path, text), seed=3)
    assert images.groups is not None
    pairs = set(zip(images.groups.tolist(), images.splits.tolist(), strict=True))
    assert len(pairs) == len(np.unique(images.groups)) == 6
    assert set(images.splits) == {"train", "val", "test"}


def test_groups_and_splits_together(tmp_path):
    given = ["train"] * 8 + ["test"] * 4
    text = "\n".join(["path,label,split,group", *rows(lambda i: given[i], lambda i: i // 2)])
    images = open_data(write(tmp_path, text))
    assert (images.splits == "test").sum() == 4
    pairs = set(zip(images.groups.tolist(), images.splits.tolist(), strict=True))
    assert len(pairs) == 6


LISTED = "\n".join(["path,label", *rows()])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "lacks the column path and label; its first line must name path,label"),
        ("path,class\nimg/0.png,a", "lacks the column label"),
        ("path;class\nimg/0.png;a", "lacks the column label; .*separated by commas, semicolons or tabs"),
        ("path,label\n", "lists no images"),
        ("path,label\nimg/0.png\nimg/1.png,b", "has no label in line 2"),
        ("path,label\n,a\nimg/1.png,b", "has no path in line 2"),
        ("path,label,group\nimg/0.png,a,\nimg/1.png,b,\n", r"has no group in 2 lines \(2, 3\)"),
        ("path,label\nimg/0.png,a\nimg/./0.png,b", r"lists img/\./0\.png twice, in lines 2 and 3"),
        (LISTED + "\nimg/77.png,a", r"lists 1 missing file: line 14 img/77\.png; paths are relative to"),
        (
            "path,label\n" + "\n".join(f"no{i}.png,a" for i in range(7)),
            r"lists 7 missing files: line 2 no0\.png, .*line 6 no4\.png, \.\.\.; paths",
        ),
        ("path,label\nimg,a\nimg/1.png,b", "lists 1 missing file: line 2 img"),
        (
            "path,label,split\nimg/0.png,a,train\nimg/1.png,b,dev",
            "the split 'dev' in line 3; it must be train, val",
        ),
        ("path,label,split\nimg/0.png,a,val\nimg/1.png,b,test", "has no row with the split train"),
        (
            "path,label,split,group\nimg/0.png,a,train,p1\nimg/1.png,b,test,p1",
            "puts group 'p1' into train and test; a group must stay in one",
        ),
        (
            "path,label,group\nimg/0.png,a,p1\nimg/1.png,b,p2",
            "list.csv: 3 splits need at least 3 groups; there are 2",
        ),
        ("path,label\nimg/0.png,a\nimg/1.png,a", "has the single class 'a'"),
        (b"path,label\nimg/\xff.png,a", "is not UTF-8 text"),
        (b"path,label\nimg/0\x00.png,a", "cannot be read as CSV|missing file"),
    ],
)
def test_a_wrong_manifest_is_one_line(tmp_path, text, message):
    with pytest.raises(DataError, match=message) as caught:
        open_data(write(tmp_path, text))
    assert "\n" not in str(caught.value)
    assert "list.csv" in str(caught.value)


def test_an_unreadable_image_is_named(tmp_path):
    source = write(tmp_path, LISTED)
    (tmp_path / "img" / "4.png").write_bytes(b"text")
    with pytest.raises(DataError, match=r"1 bad file of 12: img/4\.png is not an image"):
        open_data(source)
    assert len(open_data(source, skip_bad=True)) == 11
