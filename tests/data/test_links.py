import re

import pytest

from bayestriplet.data.sources import examine_data, list_data, open_data
from bayestriplet.errors import DataError
from tests.data.pictures import make_folder, save_picture


@pytest.fixture
def elsewhere(tmp_path):
    """Eight images of two classes, outside the folder that is opened."""
    return make_folder(tmp_path / "elsewhere", {"a": 4, "b": 4})


def link_files(root, elsewhere):
    for path in sorted(elsewhere.glob("*/*.png")):
        link = root / path.relative_to(elsewhere)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(path)
    return root


def link_folders(root, elsewhere):
    root.mkdir()
    for path in sorted(elsewhere.iterdir()):
        (root / path.name).symlink_to(path, target_is_directory=True)
    return root


def link_splits(root, elsewhere):
    root.mkdir()
    for split in ("train", "val", "test"):
        (root / split).symlink_to(elsewhere, target_is_directory=True)
    return root


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            link_files,
            "class folder .*set/a holds no images .*; 4 links lead outside the folder and are not followed: "
            "follow them with --follow-links",
        ),
        (
            link_folders,
            "set has no class folders; 2 links lead outside the folder and are not followed: .*-links",
        ),
        (link_splits, "set has no class folders; 3 links lead outside the folder"),
    ],
)
def test_a_folder_of_links_says_that_they_are_not_followed(tmp_path, elsewhere, make, message):
    root = make(tmp_path / "set", elsewhere)
    for listing in (open_data, examine_data, lambda data: list_data(data, size=28, channels=3)):
        with pytest.raises(DataError, match=message) as caught:
            listing(str(root))
        assert "\n" not in str(caught.value)


def test_a_single_link_is_one_link(tmp_path, elsewhere):
    root = make_folder(tmp_path / "set", {"a": 3})
    (root / "b").mkdir()
    (root / "b" / "0.png").symlink_to(elsewhere / "b" / "0.png")
    with pytest.raises(DataError, match="1 link leads outside the folder and is not followed: follow it"):
        open_data(str(root))


@pytest.mark.parametrize("make", [link_files, link_folders])
def test_links_are_followed_where_that_is_wanted(tmp_path, elsewhere, make):
    root = make(tmp_path / "set", elsewhere)
    images = open_data(str(root), follow_links=True)
    direct = open_data(str(elsewhere))
    assert (images.ids, images.classes, images.name) == (direct.ids, direct.classes, "set")
    assert (images.read(range(8)) == direct.read(range(8))).all()
    assert len(examine_data(str(root), follow_links=True).images) == 8
    assert list_data(str(root), size=28, channels=3, follow_links=True).ids == direct.ids


def test_linked_split_folders_are_followed(tmp_path, elsewhere):
    images = open_data(str(link_splits(tmp_path / "set", elsewhere)), follow_links=True)
    assert [len(images.indices(split)) for split in ("train", "val", "test")] == [8, 8, 8]


def test_linked_images_without_classes_are_listed(tmp_path, elsewhere):
    (tmp_path / "flat").mkdir()
    (tmp_path / "flat" / "one.png").symlink_to(elsewhere / "a" / "0.png")
    with pytest.raises(DataError, match="1 link leads outside the folder"):
        list_data(str(tmp_path / "flat"), size=28, channels=3)
    found = list_data(str(tmp_path / "flat"), size=28, channels=3, follow_links=True)
    assert found.ids == ("one.png",)


def test_crc_follows_links_too(tmp_path):
    names = ("ADI", "BACK", "DEB", "LYM", "MUC", "MUS", "NORM", "STR", "TUM")
    make_folder(tmp_path / "elsewhere", dict.fromkeys(names, 3))
    root = link_folders(tmp_path / "set", tmp_path / "elsewhere")
    with pytest.raises(DataError, match="9 links lead outside"):
        open_data(f"crc:{root}")
    assert open_data(f"crc:{root}", follow_links=True).classes == names


@pytest.mark.parametrize("follow", [False, True])
def test_links_in_a_circle_are_left_out(tmp_path, follow):
    root = make_folder(tmp_path / "outer" / "set", {"a": 3, "b": 3})
    (root / "self").symlink_to(root / "self")
    (root / "root").symlink_to(root, target_is_directory=True)
    (root / "up").symlink_to(tmp_path / "outer", target_is_directory=True)
    (root / "a" / "root").symlink_to(root, target_is_directory=True)
    (root / "a" / "self.png").symlink_to(root / "a" / "self.png")
    (root / "a" / "gone.png").symlink_to(tmp_path / "gone.png")
    images = open_data(str(root), follow_links=follow)
    assert (images.classes, len(images)) == (("a", "b"), 6)


def test_links_that_are_not_followed_are_counted(tmp_path, elsewhere):
    root = make_folder(tmp_path / "set", {"a": 3, "b": 3})
    (root / "a" / "linked.png").symlink_to(elsewhere / "a" / "0.png")
    (root / "c").symlink_to(elsewhere / "a", target_is_directory=True)
    (root / "a" / "notes.txt").write_text("x")
    examined = examine_data(str(root))
    assert (examined.ignored, examined.links) == (3, 2)
    examined = examine_data(str(root), follow_links=True)
    assert (examined.ignored, examined.links, len(examined.images)) == (1, 0, 11)


def write_files(root, names):
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")


@pytest.mark.parametrize(
    ("suffix", "advice"),
    [
        ("svs", "; cut whole slides into tiles first"),
        ("NDPI", "; cut whole slides into tiles first"),
        ("heic", "; convert them to PNG or JPEG"),
        ("gif", ", which are not read"),
    ],
)
def test_files_of_one_type_that_is_not_read_are_named(tmp_path, suffix, advice):
    root = make_folder(tmp_path / "set", {"a": 2})
    write_files(root, [f"b/1.{suffix}", f"b/2.{suffix.lower()}", "b/.hidden"])
    only = re.escape(f", only .{suffix.lower()} files{advice}")
    with pytest.raises(DataError, match=rf"class folder .*b holds no images \(png, .*\){only}$"):
        open_data(str(root))
    write_files(tmp_path / "flat", [f"1.{suffix}", f"2.{suffix}"])
    with pytest.raises(DataError, match=rf"flat holds no images \(png, .*\){only}$"):
        open_data(str(tmp_path / "flat"))


def test_files_of_several_types_are_not_named(tmp_path):
    root = make_folder(tmp_path / "set", {"a": 2})
    write_files(root, ["b/1.svs", "b/2.txt"])
    with pytest.raises(DataError, match=r"holds no images \(png, [^)]*\)$"):
        open_data(str(root))
    save_picture(root / "b" / "1.png")
    assert len(open_data(str(root))) == 3
