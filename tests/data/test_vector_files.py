import builtins
import zipfile

import numpy as np
import pytest
from typer.testing import CliRunner

from bayestriplet.cli import data as data_commands
from bayestriplet.data.audit import data_warnings
from bayestriplet.data.sources import absolute_data, list_vector_data, open_data
from bayestriplet.errors import DataError, InputError, MissingDependencyError
from tests.data.vector_samples import NAMES, digit_vectors, write_npz

pyarrow = pytest.importorskip("pyarrow")


def write_parquet(path, vectors, metadata=None, **columns):
    from pyarrow import parquet

    table = pyarrow.table({"vectors": vectors, **columns})
    parquet.write_table(table.replace_schema_metadata(metadata), path)
    return f"vectors:{path}"


def write_slides(root, slides, form=lambda values: values, **more):
    """Write .h5 files with the features of digits; ``slides`` are paths with the label of each."""
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    vectors, labels = digit_vectors()
    for path, label in slides.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        with h5py.File(root / path, "w") as file:
            file["features"] = form(vectors[labels == label])
            for name, value in more.items():
                file[name] = value
    return f"vectors:{root}"


def test_an_npz_file_is_a_set_of_vectors(tmp_path):
    vectors, labels = digit_vectors()
    images = open_data(write_npz(tmp_path / "digits.npz", source="a network"), seed=3)
    assert (images.name, images.classes, images.length, images.noun) == ("digits", NAMES, 64, "vector")
    assert (images.labels == labels).all()
    assert images.ids[:3] == ("0", "1", "2")
    assert images.origin == "a network"
    assert (images.read([5, 1]) == vectors[[5, 1]]).all()
    assert [len(images.indices(split)) for split in ("train", "val", "test")] == [140, 30, 30]


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.dtype(">f4")])
def test_every_floating_type_is_read_as_float32(tmp_path, kind):
    vectors, _ = digit_vectors()
    images = open_data(write_npz(tmp_path / "a.npz", vectors=vectors.astype(kind)))
    assert images.read([0]).dtype == np.float32
    assert (images.read(range(len(images))) == vectors).all()  # sixteenths are exact in every type


def test_vectors_that_are_not_compressed_stay_on_the_disk(tmp_path):
    images = open_data(write_npz(tmp_path / "a.npz"))
    base = images.features
    while base is not None and not isinstance(base, np.memmap):
        base = base.base
    assert isinstance(base, np.memmap)
    assert images.subset(np.array([7, 3])).features is images.features  # nothing is copied
    assert (images.subset(np.array([7, 3])).read([1, 0]) == digit_vectors()[0][[3, 7]]).all()


def test_compressed_vectors_and_those_by_columns_are_the_same(tmp_path):
    vectors, labels = digit_vectors()
    np.savez_compressed(tmp_path / "a.npz", vectors=vectors, labels=labels)
    np.savez(tmp_path / "b.npz", vectors=np.asfortranarray(vectors), labels=labels)
    for name in ("a", "b"):
        images = open_data(f"vectors:{tmp_path / name}.npz")
        assert (images.read(range(len(images))) == vectors).all()
        assert images.classes == tuple("0123456789")
        assert images.origin == f"{name}.npz"


def test_labels_may_be_text_and_numbers_keep_their_order(tmp_path):
    _, labels = digit_vectors()
    texts = open_data(write_npz(tmp_path / "a.npz", labels=np.array(NAMES)[labels], classes=None))
    assert texts.classes == tuple(sorted(NAMES))
    numbers = open_data(write_npz(tmp_path / "b.npz", labels=labels * 5 - 1, classes=None))
    assert numbers.classes == tuple(str(5 * k - 1) for k in range(10))


def test_its_own_splits_groups_and_ids_count(tmp_path):
    splits = np.array(["train", "val", "test", "train"] * 50)
    ids, groups = np.array([f"tile{i}" for i in range(200)]), np.arange(200) % 4
    where = write_npz(tmp_path / "a.npz", splits=splits, ids=ids, groups=groups)
    images = open_data(where)
    assert (images.splits == splits).all()
    assert images.ids == tuple(ids)
    assert images.groups.tolist() == [str(k) for k in groups]
    with pytest.raises(DataError, match="has splits of its own, and --split-by class is given"):
        open_data(where, split_by="class")


def test_a_split_that_is_missing_is_taken_from_train(tmp_path):
    splits = np.array(["train"] * 150 + ["test"] * 50)
    images = open_data(write_npz(tmp_path / "a.npz", splits=splits))
    assert (images.splits == "test").sum() == 50
    assert (images.splits == "val").sum() > 10


def test_vectors_are_split_by_group_class_and_a_file_of_classes(tmp_path):
    groups = np.arange(200) % 20
    where = write_npz(tmp_path / "a.npz", groups=groups)
    for split_by in (None, "group"):
        images = open_data(where, split_by=split_by)
        homes = {(group, split) for group, split in zip(groups, images.splits, strict=True)}
        assert len(homes) == 20
    assert len(set(zip(groups, open_data(where, split_by="item").splits, strict=True))) > 20
    by_class = open_data(where, split_by="class")
    assert len(set(zip(by_class.labels, by_class.splits, strict=True))) == 10
    lines = [f"{name},{'train' if k < 6 else 'test'}" for k, name in enumerate(NAMES)]
    (tmp_path / "classes.csv").write_text("class,split\n" + "\n".join(lines))
    named = open_data(where, split_by=f"class:{tmp_path / 'classes.csv'}")
    assert set(named.labels[named.indices("test")]) == {6, 7, 8, 9}
    with pytest.raises(DataError, match=r"needs groups: .* or vectors with groups"):
        open_data(write_npz(tmp_path / "b.npz"), split_by="group")


def test_few_items_a_class_are_kept_to_train_with(tmp_path):
    images = open_data(write_npz(tmp_path / "a.npz"), per_class=3)
    assert len(images.indices("train")) == 30
    assert len(images.indices("test")) == 30


def replaced(row, value):
    vectors, _ = digit_vectors()
    vectors[row, 3] = value
    return vectors


SHORT = np.arange(5)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"vectors": None}, "lacks the array vectors"),
        ({"vectors": None, "vector": SHORT}, "lacks the array vectors; did you mean 'vector'"),
        ({"vectors": np.zeros(200)}, r"vectors must be float16, .* of shape \(items, length\)"),
        ({"vectors": np.zeros((200, 4), int)}, "vectors must be float16, float32 or float64"),
        ({"vectors": np.zeros((0, 4))}, "holds no vectors: vectors is empty"),
        ({"vectors": replaced(7, np.nan)}, "vectors holds NaN or infinite numbers in row 7; remove it"),
        ({"vectors": replaced(9, np.inf)}, "vectors holds NaN or infinite numbers in row 9"),
        ({"vectors": np.full((200, 4), 1e300)}, "vectors holds NaN or infinite numbers in row 0"),
        ({"labels": None}, "lacks labels; add an array of one label per vector"),
        ({"labels": SHORT}, r"labels must hold 200 values, one per vector; got an array of shape \(5,\)"),
        ({"labels": np.zeros(200)}, "labels must be whole numbers or text; got float64"),
        ({"labels": np.zeros(200, int)}, "has the single class 'zero'; at least two are needed"),
        ({"labels": np.array(["a", ""] * 100)}, r"labels is empty in 100 rows \(first: 1\)"),
        ({"labels": np.array([1, "a"] * 100, object)}, r"labels does not .*\(labels, dtype=str\)"),
        ({"classes": np.array(["a", "b"])}, "labels are numbers from 0 to 9, .* at least 10"),
        ({"classes": np.arange(10)}, "classes must be a list of names as text"),
        ({"splits": np.array(["train", "valid"] * 100)}, "splits holds 'valid' in row 1; it must be train"),
        ({"splits": np.array(["val", "test"] * 100)}, "splits names no vector train"),
        ({"splits": np.arange(200)}, "splits must be text"),
        ({"ids": np.arange(200) // 2}, "ids holds '0' 2 times, first in row 0; every id must be different"),
        ({"groups": np.zeros(200), "splits": None}, "groups must be whole numbers or text"),
        (
            {"groups": np.zeros(200, int), "splits": np.array(["train", "test"] * 100)},
            "puts group '0' into train and test",
        ),
        ({"source": np.array(["a", "b"])}, "source must be one text"),
    ],
)  # fmt: skip
def test_a_file_that_is_wrong_is_refused_in_a_line_that_names_it(tmp_path, more, message):
    where = write_npz(tmp_path / "wrong.npz", **more)
    with pytest.raises(DataError, match=rf"wrong\.npz.*{message}") as caught:
        open_data(where)
    assert "\n" not in str(caught.value)


def test_broken_files_and_wrong_names_are_refused(tmp_path):
    (tmp_path / "broken.npz").write_bytes(b"PK not a file")
    with pytest.raises(DataError, match=r"broken\.npz cannot be read as an \.npz file"):
        open_data(f"vectors:{tmp_path / 'broken.npz'}")
    whole = (tmp_path / "a.npz", write_npz(tmp_path / "a.npz"))[0].read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"cut\.npz cannot be read"):
        open_data(f"vectors:{tmp_path / 'cut.npz'}")
    with pytest.raises(DataError, match=r"there is no file or folder .*gone\.npz"):
        open_data(f"vectors:{tmp_path / 'gone.npz'}")
    (tmp_path / "a.txt").write_text("1 2 3")
    with pytest.raises(
        DataError, match=r"a\.txt: vectors are read from \.npz and \.parquet files and folders"
    ):
        open_data(f"vectors:{tmp_path / 'a.txt'}")
    with pytest.raises(InputError, match=r"needs to know where they are, such as vectors:features\.npz"):
        open_data("vectors:")


def test_a_header_that_promises_too_much_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, shape in (("vectors", "(900000000, 64)"), ("labels", "(200,)")):
            header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
            archive.writestr(
                f"{name}.npy", b"\x93NUMPY\x01\x00" + bytes([118, 0]) + header.encode() + b"\0" * 8
            )
    with pytest.raises(DataError, match=r"vectors does not hold the float32 of shape \(900000000, 64\)"):
        open_data(f"vectors:{path}")


def test_compressed_vectors_that_memory_cannot_hold_are_refused(tmp_path, monkeypatch):
    vectors, labels = digit_vectors()
    np.savez_compressed(tmp_path / "a.npz", vectors=vectors, labels=labels)
    monkeypatch.setattr("bayestriplet.data.vector_table.MEMORY_LIMIT", 1000)
    with pytest.raises(DataError, match=r"GB of memory; write them with numpy\.savez, without compression"):
        open_data(f"vectors:{tmp_path / 'a.npz'}")
    assert len(open_data(write_npz(tmp_path / "b.npz"))) == 200


@pytest.mark.parametrize(
    "form",
    [
        lambda values: pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(values.ravel()), values.shape[1]),
        lambda values: pyarrow.array(list(values)),
        lambda values: pyarrow.array(list(values), pyarrow.large_list(pyarrow.float64())),
        lambda values: pyarrow.array(list(values.astype(np.float16)), pyarrow.list_(pyarrow.float16())),
    ],
    ids=["fixed", "list", "large, double", "half"],
)
def test_a_parquet_file_is_a_set_of_vectors(tmp_path, form):
    vectors, labels = digit_vectors(150)
    names = [NAMES[k] for k in labels]
    where = write_parquet(
        tmp_path / "a.parquet",
        form(vectors),
        {"source": "UNI"},
        labels=names,
        groups=[str(k) for k in labels],
    )
    images = open_data(where, split_by="item")
    assert (images.read(range(len(images))) == vectors).all()
    assert [images.classes[k] for k in images.labels] == names
    assert images.origin == "UNI"
    assert images.groups.tolist() == [str(k) for k in labels]


@pytest.mark.parametrize(
    ("vectors", "columns", "message"),
    [
        (
            [[1.0, 2.0], [3.0]],
            {},
            "vectors has the length 1 in row 1, and 2 in row 0; all must have one length",
        ),
        ([[1.0, 2.0], None], {}, "vectors is empty in row 1"),
        ([None, [1.0, 2.0]], {}, "vectors is empty in row 0"),
        ([[1.0, 2.0], [3.0, None]], {}, "vectors holds NaN or infinite numbers in row 1"),
        ([1.0, 2.0], {}, "vectors must be lists of floating-point numbers; got double"),
        ([[1.0], [2.0]], {}, "lacks labels"),
        ([[1.0], [2.0]], {"labels": ["a", None]}, r"labels is empty in 1 row \(first: 1\)"),
        ([[1.0], [2.0]], {"labels": [1.5, 2.5]}, "labels must be whole numbers or text; got float64"),
        ([[1.0], [2.0]], {"labels": ["a", "b"], "splits": ["train", None]}, "splits holds '' in row 1"),
    ],
)
def test_a_parquet_file_that_is_wrong_is_refused(tmp_path, vectors, columns, message):
    where = write_parquet(tmp_path / "wrong.parquet", vectors, **columns)
    with pytest.raises(DataError, match=rf"wrong\.parquet.*{message}"):
        open_data(where)


def test_a_file_that_is_no_parquet_file_is_refused(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"PAR1 but nothing more")
    with pytest.raises(DataError, match=r"a\.parquet cannot be read as a \.parquet file"):
        open_data(f"vectors:{tmp_path / 'a.parquet'}")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"vector": [[1.0]]}), tmp_path / "b.parquet")
    with pytest.raises(DataError, match="lacks the column vectors; did you mean 'vector'"):
        open_data(f"vectors:{tmp_path / 'b.parquet'}")


@pytest.mark.parametrize(
    "form",
    [lambda values: values, lambda values: values[None], np.float16],
    ids=["plain", "one more axis", "half"],
)
def test_a_folder_of_slides_per_class_is_a_set_of_vectors(tmp_path, form):
    slides = {f"{NAMES[k]}/slide{k}{part}.h5": k for k in range(3) for part in "abcd"}
    places = np.stack([np.arange(20) * 256, np.arange(20) * 512], 1)
    images = open_data(write_slides(tmp_path / "slides", slides, form, coords=places))
    assert images.classes == ("one", "two", "zero")
    assert (images.length, len(images), images.name) == (64, 240, "slides")
    assert images.ids[1] == "one/slide1a/256,512"
    assert set(images.groups) == {f"slide{k}{part}" for k in range(3) for part in "abcd"}
    assert len(set(zip(images.groups, images.splits, strict=True))) == 12  # no slide is in two splits
    assert (images.read(range(20)) == digit_vectors()[0][20:40]).all()


def test_a_table_labels_slides_and_may_name_patients_and_splits(tmp_path):
    slides = {f"slide{k}{part}.h5": k for k in range(2) for part in "abc"}
    where = write_slides(tmp_path / "slides", slides)
    split = {"a": "train", "b": "val", "c": "test"}
    rows = [f"{name},{NAMES[k]},P{name[6]},{split[name[6]]}" for name, k in slides.items()]
    (tmp_path / "slides" / "labels.csv").write_text("file,label,group,split\n" + "\n".join(rows))
    images = open_data(where)
    assert images.classes == ("one", "zero")
    assert set(images.groups) == {"Pa", "Pb", "Pc"}
    assert set(images.groups[images.indices("val")]) == {"Pb"}
    assert images.ids[0] == "slide0a/0"


def test_slides_that_are_wrong_are_refused(tmp_path):
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    flat = write_slides(tmp_path / "flat", {"a.h5": 0, "b.h5": 1})
    with pytest.raises(
        DataError, match=r"flat has \.h5 files and no labels\.csv: it must be a folder per class"
    ):
        open_data(flat)
    table = tmp_path / "flat" / "labels.csv"
    for text, message in (
        ("file,label\na.h5,x\n", r"labels\.csv lacks b\.h5 \(1 of 2 files\); add lines"),
        ("file,label\na,x\nb,y\nc,z\n", r"labels\.csv: line 4 names 'c', and .*flat has no such \.h5 file"),
        ("file,label\na,x\na.h5,y\n", r"line 3 names 'a\.h5' again"),
        ("file,label\na,x\nb,\n", "line 3 has no label"),
        ("file,class\na,x\n", "lacks the column label"),
    ):
        table.write_text(text)
        with pytest.raises(DataError, match=message):
            open_data(flat)
    (tmp_path / "none").mkdir()
    with pytest.raises(DataError, match=r"none holds no \.h5 files"):
        open_data(f"vectors:{tmp_path / 'none'}")
    cases = {
        "lacks the dataset features": {"other": np.zeros((3, 4))},
        "features must be float16": {"features": np.zeros((2, 3, 4))},
        "features holds NaN or infinite numbers in row 1": {"features": np.array([[1] * 64, [np.nan] * 64])},
        "features has vectors of length 5, and": {"features": np.zeros((3, 5))},
        "coords must be 3 pairs": {"features": np.ones((3, 64)), "coords": np.zeros((2, 2), int)},
    }
    for number, (message, content) in enumerate(cases.items()):
        root = tmp_path / f"case{number}"
        where = write_slides(root, {"a/a.h5": 0})
        (root / "b").mkdir()
        with h5py.File(root / "b" / "b.h5", "w") as file:
            for name, value in content.items():
                file[name] = value
        with pytest.raises(DataError, match=rf"b\.h5.*{message}"):
            open_data(where)
    (root / "b" / "b.h5").write_bytes(b"no such format")
    with pytest.raises(DataError, match=r"b\.h5 cannot be read as an \.h5 file"):
        open_data(where)


def test_slides_that_point_to_other_files_are_not_followed(tmp_path):
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    where = write_slides(tmp_path / "slides", {"a/a.h5": 0, "b/b.h5": 1})
    (tmp_path / "secret").write_bytes(bytes(4 * 64))
    with h5py.File(tmp_path / "slides" / "b" / "b.h5", "w") as file:
        file["features"] = h5py.ExternalLink(str(tmp_path / "slides" / "a" / "a.h5"), "features")
    with pytest.raises(DataError, match=r"b\.h5 lacks the dataset features"):
        open_data(where)
    with h5py.File(tmp_path / "slides" / "b" / "b.h5", "w") as file:
        file.create_dataset("features", (1, 64), "f4", external=[(str(tmp_path / "secret"), 0, 256)])
    with pytest.raises(DataError, match=r"b\.h5: features lies in other files"):
        open_data(where)


@pytest.mark.parametrize(("name", "extra"), [("a.parquet", "search"), ("a.h5", "h5")])
def test_a_package_that_is_missing_is_named_with_its_extra(tmp_path, monkeypatch, name, extra):
    (tmp_path / name).write_bytes(b"")
    real = builtins.__import__

    def without(module, *rest):
        if module.split(".")[0] in ("pyarrow", "h5py"):
            raise ImportError(module)
        return real(module, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingDependencyError, match=rf"needs \w+: pip install 'bayestriplet\[{extra}\]'"):
        open_data(f"vectors:{tmp_path / name}")


def test_vectors_without_labels_can_be_listed(tmp_path):
    images = list_vector_data(write_npz(tmp_path / "a.npz", labels=None))
    assert images.classes == ("",)
    assert len(images) == 200


@pytest.mark.parametrize(("options", "name"), [({"size": 28}, "--size"), ({"skip_bad": True}, "--skip-bad")])
def test_what_only_images_have_is_refused(tmp_path, options, name):
    with pytest.raises(InputError, match=rf"{name} is for images; .*a\.npz holds vectors"):
        open_data(write_npz(tmp_path / "a.npz"), **options)


def test_the_path_becomes_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert absolute_data("vectors:a.npz") == f"vectors:{tmp_path / 'a.npz'}"


def test_identical_vectors_in_two_splits_are_warned_of(tmp_path):
    vectors, _ = digit_vectors()
    vectors[1] = vectors[0]
    splits = np.array(["train", "test"] * 100)
    warnings = data_warnings(open_data(write_npz(tmp_path / "a.npz", vectors=vectors, splits=splits)))
    assert warnings[-1] == "2 vectors have an identical one in another split: 0 (train) and 1 (test)"


def test_data_check_says_what_the_vectors_are(tmp_path):
    where = write_npz(tmp_path / "a.npz", groups=np.arange(200) % 20, source="UNI")
    done = CliRunner().invoke(data_commands.app, ["check", where, "--split-by", "group"])
    assert done.exit_code == 0, done.output
    assert "Stored: 200 of vectors of length 64" in done.output
    assert "Groups (patients, slides): 20" in done.output
    assert "Read as: vectors of length 64, from UNI" in done.output
    assert "No bad vectors." in done.output


@pytest.mark.parametrize("mark", [b"HEAP", b"TREE", b"SNOD"])
def test_slides_that_are_damaged_inside_are_one_line(tmp_path, mark):
    where = write_slides(tmp_path / "slides", {"x/a.h5": 0, "y/b.h5": 1})
    path = tmp_path / "slides" / "x" / "a.h5"
    content = path.read_bytes()
    assert mark in content
    path.write_bytes(content.replace(mark, b"XXXX"))
    with pytest.raises(DataError, match=r"a\.h5 cannot be read as an \.h5 file: "):
        open_data(where)
