import hashlib
import io
import json
import shutil
from dataclasses import asdict, replace

import numpy as np
import pytest
from PIL import Image

import bayestriplet as bt
from bayestriplet.data.audit import data_warnings
from bayestriplet.data.sources import list_data, open_data
from bayestriplet.errors import DataError
from bayestriplet.model.info import EncoderInfo
from bayestriplet.retrieval.index import Index
from bayestriplet.runs.encoder_files import fingerprint
from bayestriplet.service.decoding import Decoders
from bayestriplet.service.pictures import read_picture

BACKGROUND = [f"Script_{letter}" for letter in "ABCDEFG"]
EVALUATION = ["Atlantean", "Ge_ez"]


def draw(path, seed):
    """Write a stroke of black ink on white, 105 x 105 pixels of one bit."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    paper = np.full((105, 105), 255, dtype=np.uint8)
    row, column = rng.integers(20, 60, 2)
    paper[row : row + 8, column : column + 30] = 0
    Image.fromarray(paper).convert("1").save(path)


@pytest.fixture
def root(tmp_path):
    """Alphabets of two characters with two drawings each, in the official folders."""
    seed = 0
    for part, alphabets in (("images_background", BACKGROUND), ("images_evaluation", EVALUATION)):
        for alphabet in alphabets:
            for character in (1, 2):
                for drawing in (1, 2):
                    seed += 1
                    name = f"{seed:04}_{drawing:02}.png"
                    draw(tmp_path / "omniglot" / part / alphabet / f"character{character:02}" / name, seed)
    return tmp_path / "omniglot"


def test_alphabets_are_split_as_the_official_folders_say(root):
    images = open_data(f"omniglot:{root}")
    assert (images.name, images.kind, images.size, images.channels) == ("omniglot", "digits", 28, 1)
    assert len(images.classes) == 18
    assert images.classes[0] == "Atlantean/character01"
    found = {
        split: {images.classes[k].split("/")[0] for k in images.labels[images.indices(split)]}
        for split in ("train", "val", "test")
    }
    assert found == {"train": set(BACKGROUND[:2]), "val": set(BACKGROUND[2:]), "test": set(EVALUATION)}
    assert images.ids[0] == "images_background/Script_A/character01/0001_01.png"
    assert data_warnings(images) == []


def test_ink_is_white_on_black_in_every_way_of_reading(root, tmp_path):
    images = open_data(f"omniglot:{root}")
    pixels = images.read(range(len(images)))
    assert pixels[:, 0, 0].max() == 0
    assert pixels.max((1, 2, 3)).min() > 200
    assert 0.01 < (pixels > 127).mean() < 0.1
    plain = open_data(str(root / "images_background" / "Script_A"), size=28)
    np.testing.assert_array_equal(plain.read([0, 1]), 255 - pixels[:2])
    for _ in range(2):
        kept = open_data(f"omniglot:{root}", cache=tmp_path / "kept")
        assert isinstance(kept.pixels, np.memmap)
        np.testing.assert_array_equal(kept.read(range(len(kept))), pixels)
    listed = list_data(f"omniglot:{root}", size=28, channels=1)
    np.testing.assert_array_equal(listed.read(range(len(listed))), pixels)
    np.testing.assert_array_equal(images.subset(np.array([3, 5])).read([0, 1]), pixels[[3, 5]])


def test_folders_that_are_not_omniglot_are_one_line(root, tmp_path):
    with pytest.raises(DataError, match=r"omniglot has splits of its own, and --split-by class is given"):
        open_data(f"omniglot:{root}", split_by="class")
    (root / "images_evaluation" / "Atlantean").rename(root / "images_evaluation" / "Script_A")
    with pytest.raises(DataError, match=r"has the alphabet Script_A in both folders; it must be in one"):
        open_data(f"omniglot:{root}")
    (root / "images_evaluation").rename(tmp_path / "elsewhere")
    with pytest.raises(
        DataError, match=r"omniglot lacks images_evaluation; unpack images_background.zip and"
    ):
        open_data(f"omniglot:{root}")
    (root / "images_evaluation").mkdir()
    with pytest.raises(DataError, match=r"has 7 alphabets in images_background and 0 in images_evaluation"):
        open_data(f"omniglot:{root}")


@pytest.fixture
def run(root, tmp_path):
    """A run on Omniglot with an index of all its drawings."""
    made = bt.train(f"omniglot:{root}", out=tmp_path / "run",
                    width=0.25, dim=8, max_steps=4, workers=0)  # fmt: skip
    made.index(f"omniglot:{root}")
    return made


def test_a_drawing_as_in_the_official_folder_finds_itself(run, root, tmp_path):
    file = root / "images_evaluation" / "Atlantean" / "character01"
    drawing = min(file.iterdir())
    copy = shutil.copy(drawing, tmp_path / "query.png")
    assert run.encoder.info.invert
    for query in (drawing, copy, Image.open(copy)):
        nearest = run.search(query, k=1).answers[0].neighbours[0]
        assert (nearest.path, nearest.distance) == (str(drawing), pytest.approx(0, abs=1e-3))
    pixels = open_data(f"omniglot:{root}").read(range(2))
    paths = open_data(f"omniglot:{root}").paths[:2]
    np.testing.assert_allclose(run.encode(list(pixels)), run.encode(list(paths)), atol=1e-5)


def test_a_plain_folder_of_such_files_is_read_like_the_set(run, root, tmp_path):
    plain = shutil.copytree(root / "images_evaluation" / "Atlantean", tmp_path / "plain")
    assert run.index(str(plain)).added > 0
    nearest = run.search(min((plain / "character01").iterdir()), k=2).answers[0].neighbours
    assert [one.distance for one in nearest] == pytest.approx([0, 0], abs=1e-3)
    assert run.evaluate(str(plain), split="all").retrieval["bunca"]


def test_the_picture_of_an_indexed_drawing_is_its_file(run):
    item = Index.open(run.path).store.items()[0]
    decoders = Decoders(1)
    picture = read_picture(item, run.encoder.info, decoders)
    decoders.close()
    with Image.open(io.BytesIO(picture)) as shown, Image.open(item.path) as stored:
        away = np.abs(np.asarray(shown.convert("L"), int) - np.asarray(stored.convert("L"), int))
    assert away.max() < 30  # a JPEG of it


def test_files_of_earlier_runs_keep_their_fingerprint():
    info = EncoderInfo("resnet18", 0.25, 16, 1, 28, (0.5,), (0.2,), True, ("a", "b"))
    values = asdict(info)
    for later in ("inputs", "source", "invert"):
        del values[later]
    assert fingerprint(info, {}) == hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
    assert fingerprint(replace(info, invert=True), {}) != fingerprint(info, {})
