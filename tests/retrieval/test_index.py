import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

import bayestriplet as bt
from bayestriplet.data.sources import open_data
from bayestriplet.data.thumbnails import make_thumbnail, read_thumbnail
from bayestriplet.errors import DataError, InputError, InputTypeError, StateError
from bayestriplet.retrieval.answers import Neighbour, take_vote
from bayestriplet.retrieval.items import Item, Rows
from tests.retrieval.test_encoder import make_run

DIGITS = load_digits()


def scan(number):
    """A digit as the run saw it in training."""
    return np.rint(DIGITS.images[number] * (255 / 16)).astype(np.uint8)


@pytest.fixture
def run(digits_run, tmp_path):
    """A copy of the run, without an index."""
    return shutil.copytree(digits_run, tmp_path / "run", ignore=shutil.ignore_patterns("index", "*.ckpt"))


@pytest.fixture
def scans(tmp_path):
    """Real scans as PNG files, a folder a class; by name, the number of the digit."""
    root = tmp_path / "scans"
    for i in range(100):
        of_class = root / str(DIGITS.target[i])
        of_class.mkdir(parents=True, exist_ok=True)
        Image.fromarray(scan(i)).save(of_class / f"{i}.png")
    return root


def counts(change):
    return change.added, change.replaced, change.removed, change.unchanged


def test_a_folder_is_indexed_and_again_only_what_is_different(run, scans):
    index = bt.Index.open(run)
    assert counts(index.update(str(scans))) == (100, 0, 0, 0)
    assert counts(index.update(str(scans))) == (0, 0, 0, 100)
    (scans / "0" / "0.png").unlink()
    Image.fromarray(scan(500)).save(scans / "1" / "1.png")
    Image.fromarray(scan(600)).save(scans / "2" / "new.png")
    assert counts(index.update(str(scans))) == (1, 1, 1, 98)
    assert len(index) == 100
    found = bt.Index.open(run).search(scan(500), k=1)[0].neighbours[0]
    assert (found.id, found.label, found.distance) == ("scans/1/1.png", "1", pytest.approx(0, abs=1e-5))
    assert found.path == str(scans / "1" / "1.png")


def test_large_files_get_large_thumbnails_and_those_of_an_older_index_stay(run, scans):
    old = make_thumbnail(np.zeros((96, 96, 1), np.uint8))  # as large as they were before
    index = bt.Index.open(run)
    vector = np.zeros((1, index.encoder.dim), np.float32)
    item = Item("older", "1", "", "", "older", "0" * 32)
    index.store.write(index.encoder.fingerprint, index.encoder.dim, [Rows((item,), vector, (old,))], [])
    for side in (60, 512):
        Image.fromarray(scan(1)).resize((side + 40, side)).save(scans / "1" / f"{side}.png")
    index.update(str(scans))
    index.add([scans / "1" / "512.png"], ids=["added"])
    sides = {"older": 96, "scans/1/1.png": 8, "scans/1/60.png": 60, "scans/1/512.png": 256, "added": 256}
    found = bt.Index.open(run).store.thumbnails(sides)
    assert {name: len(read_thumbnail(one)) for name, one in found.items()} == sides
    assert found["added"] == found["scans/1/512.png"]


def test_an_item_that_was_moved_to_another_class_is_another_item(run, scans):
    index = bt.Index.open(run)
    index.update(str(scans))
    (scans / "0" / "0.png").rename(scans / "1" / "0.png")
    assert counts(index.update(str(scans))) == (1, 0, 1, 99)
    assert index.search(scan(0), k=1)[0].neighbours[0].label == "1"


def test_a_folder_that_was_moved_keeps_its_items_with_new_paths(run, scans, tmp_path):
    index = bt.Index.open(run)
    index.update(str(scans))
    (tmp_path / "elsewhere").mkdir()
    moved = scans.rename(tmp_path / "elsewhere" / "scans")
    assert index.search(scan(7), k=3)[0].neighbours[0].id == "scans/7/7.png"  # still answers
    with pytest.raises(DataError, match="there is no file or folder"):
        index.update(str(scans))
    assert counts(index.update(str(moved), name="scans")) == (0, 100, 0, 0)
    assert index.search(scan(7), k=1)[0].neighbours[0].path == str(moved / "7" / "7.png")


def test_sets_of_other_names_stay(run, scans):
    index = bt.Index.open(run)
    index.update(str(scans))
    assert counts(index.update("digits", split="test")) == (359, 0, 0, 0)
    assert counts(index.update("digits")) == (1438, 0, 0, 359)
    assert counts(index.update("digits", split="val")) == (0, 0, 0, 360)
    assert len(index) == 1897
    only = index.search(scan(3), k=5, where={"source": "scans"})[0].neighbours
    assert {one.id.split("/")[0] for one in only} == {"scans"}


def test_a_manifest_gives_groups_and_a_changed_label_is_a_change(run, scans):
    rows = [
        f"{path.relative_to(scans)},{path.parent.name},p{int(path.stem) % 4}" for path in scans.rglob("*.png")
    ]
    manifest = scans / "list.csv"
    manifest.write_text("path,label,group\n" + "\n".join(rows))
    index = bt.Index.open(run)
    assert counts(index.update(str(manifest))) == (100, 0, 0, 0)
    found = index.search(scan(10), k=100, where={"group": "p2"})[0].neighbours
    assert {one.id for one in found} == {
        f"list/{p.relative_to(scans)}" for p in scans.rglob("*.png") if int(p.stem) % 4 == 2
    }
    manifest.write_text(
        "path,label,group\n" + "\n".join([rows[0].replace(f",{rows[0][0]},", ",other,"), *rows[1:]])
    )
    assert counts(index.update(str(manifest))) == (0, 1, 0, 99)


@pytest.mark.parametrize("name", [None, "index.db"])
def test_the_items_of_a_patient_can_be_left_out(run, tmp_path, name):
    store = None if name is None else str(tmp_path / name)
    index = bt.Index.open(run, store)
    groups = ["P7"] * 6 + ["P8"] * 3 + [""]
    index.add([scan(i) for i in range(10)], ids=[str(i) for i in range(10)], groups=groups)
    answer = index.search(scan(0), exclude_group="P7")[0]
    assert {one.id for one in answer.neighbours} == {"6", "7", "8", "9"}  # all that are left
    assert answer.excluded_group == answer.to_json()["excluded_group"] == "P7"
    same = index.search(scan(0), where=["group!=P7"])[0]
    assert (same.neighbours, same.excluded_group) == (answer.neighbours, None)
    assert [one.id for one in index.search(scan(0), where=["group!=P7", "group!=P8"])[0].neighbours] == ["9"]
    own = index.search(scan(6), where={"group": "P8"}, exclude_self=True, exclude_group="P7")[0]
    assert {one.id for one in own.neighbours} == {"7", "8"}
    assert index.search(scan(0), where={"group": ""}, exclude_group="P7")[0].neighbours[0].id == "9"
    assert (index.has_group("P7"), index.has_group("P9")) == (True, False)


def test_slide_folders_of_a_class_are_the_groups_of_its_items(run, tmp_path):
    for i in range(12):
        of_slide = tmp_path / "tiles" / "TUM" / f"slide{i % 3}" if i else tmp_path / "tiles" / "TUM"
        of_slide.mkdir(parents=True, exist_ok=True)
        Image.fromarray(scan(i)).save(of_slide / f"{i}.png")
    index = bt.Index.open(run)
    assert counts(index.update(str(tmp_path / "tiles"))) == (12, 0, 0, 0)
    assert {one.id: one.group for one in index.store.items()} == {
        "tiles/TUM/0.png": "", **{f"tiles/TUM/slide{i % 3}/{i}.png": f"slide{i % 3}" for i in range(1, 12)}
    }  # fmt: skip
    found = index.search(scan(4), k=12, exclude_group="slide1")[0].neighbours
    assert {int(Path(one.path).stem) for one in found} == {i for i in range(12) if i % 3 != 1}


def test_nothing_is_found_where_every_item_is_of_the_group_that_is_left_out(run):
    index = bt.Index.open(run)
    index.add([scan(i) for i in range(3)], groups=["P7"] * 3)
    assert index.search(scan(0), exclude_group="P7")[0].neighbours == ()
    with pytest.raises(InputError, match=r"no item of the index has group!=P7$"):
        index.search(scan(0), where=["group!=P7"])
    with pytest.raises(InputError, match="group 'P7' is both asked for and excluded"):
        index.search(scan(0), where={"group": "P7"}, exclude_group="P7")


def test_a_bad_file_is_named_and_nothing_changes_or_it_is_left_out(run, scans):
    index = bt.Index.open(run)
    index.update(str(scans))
    (scans / "3" / "note.png").write_bytes(b"not an image")
    (scans / "4" / "4.png").write_bytes((scans / "4" / "4.png").read_bytes()[:40])
    Image.fromarray(scan(600)).save(scans / "2" / "new.png")
    with pytest.raises(DataError, match=r"(note.png is not an image|4.png .*); .*--skip-bad"):
        index.update(str(scans))
    assert len(index) == 100
    assert counts(index.update(str(scans), skip_bad=True)) == (1, 0, 1, 99)
    for path in scans.rglob("*.png"):
        path.write_bytes(b"")
    with pytest.raises(DataError, match=r"scans: every image is bad, 0/0.png is empty"):
        index.update(str(scans), skip_bad=True)
    assert len(index) == 100


def test_a_single_class_and_colour_files_are_fine_for_a_grey_encoder(run, tmp_path):
    (tmp_path / "more" / "five").mkdir(parents=True)
    for i in range(3):
        Image.fromarray(scan(i)).convert("RGB").save(tmp_path / "more" / "five" / f"{i}.png")
    (tmp_path / "more" / "five" / "note.png").write_text("no image")
    index = bt.Index.open(run)
    index.update(str(tmp_path / "more"), skip_bad=True)
    assert len(index) == 3
    assert index.search(scan(1), k=1)[0].neighbours[0].distance == pytest.approx(0, abs=1e-5)


def test_images_without_labels_are_indexed_and_do_not_vote(run, scans, tmp_path):
    flat = tmp_path / "archive"
    flat.mkdir()
    for i in range(5):
        Image.fromarray(scan(i)).save(flat / f"{i}.png")
    index = bt.Index.open(run)
    assert counts(index.update(str(flat))) == (5, 0, 0, 0)
    answer = index.search(scan(3), k=2)[0]
    assert (answer.neighbours[0].id, answer.neighbours[0].label, answer.vote) == ("archive/3.png", "", None)
    manifest = tmp_path / "some.csv"
    manifest.write_text("path,label\narchive/0.png,zero\narchive/1.png,\n")
    assert counts(index.update(str(manifest))) == (2, 0, 0, 0)
    (tmp_path / "none.csv").write_text("path\narchive/0.png\n")
    assert counts(index.update(str(tmp_path / "none.csv"))) == (1, 0, 0, 0)
    labels = {one.id: one.label for one in index.search(scan(0), k=8)[0].neighbours}
    assert (labels["some/archive/0.png"], labels["some/archive/1.png"]) == ("zero", "")
    with pytest.raises(DataError, match="has files but no class folders"):
        open_data(str(flat))  # to train on, labels are needed


def test_queries_are_paths_folders_pixels_and_vectors(run, scans):
    index = bt.Index.open(run)
    index.update(str(scans))
    path = scans / "7" / "7.png"
    expected = index.search(path, k=4)
    assert expected[0].query == str(path)
    vector = index.encoder.encode(scan(7)[None, :, :, None])
    for same in ([str(path)], scan(7), scan(7)[..., None], [scan(7)], vector, vector[0], vector.tolist()):
        assert index.search(same, k=4)[0].neighbours == pytest.approx(expected[0].neighbours)
    many = index.search(scans / "7", k=1)
    assert [answer.neighbours[0].path for answer in many] == [answer.query for answer in many]
    assert len(many) == len(list((scans / "7").iterdir()))
    assert len(index.search(np.stack([scan(i) for i in range(5)]), k=1)) == 5


def test_the_querys_own_picture_can_be_left_out_however_often_it_is_there(run, scans):
    index = bt.Index.open(run)
    for i in range(12):
        shutil.copy(scans / "7" / "7.png", scans / "7" / f"copy{i}.png")
    index.update(str(scans))
    with_it = index.search(scan(7), k=5)[0].neighbours
    without = index.search(scan(7), k=5, exclude_self=True)[0].neighbours
    assert {one.distance for one in with_it} == {0.0}
    assert len(without) == 5
    assert [one.rank for one in without] == [1, 2, 3, 4, 5]
    assert min(one.distance for one in without) > 0
    assert len(index.search(scan(7), k=112, exclude_self=True)[0].neighbours) == 99


def test_images_are_added_one_by_one_and_stay(run, scans):
    index = bt.Index.open(run)
    change = index.add([scan(1), scan(2)], labels=["1", "2"], ids=["x", "y"], groups=["p", "q"])
    assert counts(change) == (2, 0, 0, 0)
    assert counts(index.add(scan(3), ids=["x"])) == (0, 1, 0, 0)
    index.add(scans / "7" / "7.png")
    index.update(str(scans))
    index.update("digits", split="test")
    ids = {item.id for item in index.store.items() if item.source == ""}
    assert ids == {"x", "y", str(scans / "7" / "7.png")}
    assert index.search(scan(3), k=1, where={"source": ""})[0].vote is None  # it has no label
    assert index.search(scan(2), k=1, where={"group": "q"})[0].neighbours[0].id == "y"
    with pytest.raises(InputError, match="labels must be 1, one per image; got 2"):
        index.add(scan(1), labels=["a", "b"])
    with pytest.raises(InputError, match="ids must differ"):
        index.add([scan(1), scan(1)])
    with pytest.raises(InputError, match="only images can be added"):
        index.add(np.zeros((1, 16)))


def make_patients(scans):
    """Write a manifest of the scans, of patients p0 to p3."""
    rows = [f"{p.relative_to(scans)},{p.parent.name},p{int(p.stem) % 4}" for p in scans.rglob("*.png")]
    (scans / "list.csv").write_text("\n".join(["path,label,group", *rows]))
    return scans / "list.csv"


@pytest.mark.parametrize("name", ["index", "index.db"])
def test_items_are_taken_out_by_what_is_known_of_them(run, scans, tmp_path, name):
    index = bt.Index.open(run, str(tmp_path / name))
    with pytest.raises(StateError, match="holds no index"):
        index.remove({"group": "p1"})
    with pytest.raises(StateError, match="holds no index"):
        index.purge()
    index.update(str(make_patients(scans)))
    index.update("digits", split="test")
    assert index.remove({"group": "p1"}) == 25
    assert index.remove({"id": "list/7/7.png"}) == 1
    sevens = sum(item.label == "7" and item.source == "list" for item in index.store.items())
    assert index.remove({"label": "7", "source": "list"}) == sevens
    assert {item.group for item in index.store.items()} == {"", "p0", "p2", "p3"}
    assert index.remove({"source": "digits"}) == 359
    assert set(index.store.sets()) == {"list"}
    with pytest.raises(InputError, match="no item of the index has group=p1; there is group=p"):
        index.remove({"group": "p1"})
    with pytest.raises(InputError, match=r"no item of the index has group=p2 and label=7$"):
        index.remove({"group": "p2", "label": "7"})
    with pytest.raises(InputError, match=r"remove must be one of 'id', 'label', .*did you mean 'group'"):
        index.remove({"grup": "p2"})
    with pytest.raises(InputError, match="remove needs a condition, such as group=NAME"):
        index.remove({})
    index.purge()
    left = len(index)
    assert counts(index.update(str(scans / "list.csv")))[0] == 100 - left  # they are in the list still


def test_a_patient_who_was_taken_out_and_purged_is_in_no_file(run, scans):
    index = bt.Index.open(run)
    folder = scans.rename(scans.parent / "Erika Muster")
    index.update("digits", split="test")
    index.update(str(folder))
    index.store.prepare()
    secrets = [b"Erika Muster", *index.store.thumbnails(["Erika Muster/7/7.png"]).values()]

    def held():
        files = [path for path in (run / "index").rglob("*") if path.is_file()]
        return [path for path in files if any(one in path.read_bytes() for one in secrets)]

    assert held()
    assert index.remove({"source": "Erika Muster"}) == 100
    index.purge()
    assert held() == []
    assert len(index) == 359
    assert set(index.store.sets()) == {"digits"}


def test_what_was_added_is_not_of_a_folder_of_any_name(run, scans):
    index = bt.Index.open(run)
    index.add([scan(0), scan(1)], labels=["0", ""])
    folder = scans.rename(scans.with_name("added"))
    assert counts(index.update(str(folder))) == (100, 0, 0, 0)
    assert len(index) == 102


@pytest.mark.parametrize("options", [{"labels": ["7", None]}, {"groups": [None, ""]}, {"ids": [1, 2]}])
def test_only_strings_describe_what_is_added(run, options):
    index = bt.Index.open(run)
    with pytest.raises(InputTypeError, match="must be strings, '' where unknown; got"):
        index.add([scan(0), scan(1)], **options)
    assert len(index) == 0


def test_a_label_whose_only_item_is_the_query_itself_is_known(run):
    index = bt.Index.open(run)
    index.add([scan(0), scan(1)], labels=["only", "other"])
    assert index.search(scan(0), where={"label": "only"}, exclude_self=True)[0].neighbours == ()
    with pytest.raises(InputError, match="no item of the index has label=none"):
        index.search(scan(0), where={"label": "none"}, exclude_self=True)


def test_probabilities_and_novelty_are_those_of_the_run(run):
    index = bt.Index.open(run)
    index.update("digits", split="train")
    answers = index.search(np.stack([scan(i) for i in range(200)]), k=10)
    labels = [str(label) for label in DIGITS.target[:200]]
    for answer in answers:
        assert list(answer.probabilities) == list("0123456789")
        assert sum(answer.probabilities.values()) == pytest.approx(1)
        assert 0 <= answer.novelty <= 100
    likely = [max(a.probabilities, key=a.probabilities.get) for a in answers]
    assert np.mean([a == b for a, b in zip(likely, labels, strict=True)]) > 0.85
    assert np.mean([a.vote.label == b for a, b in zip(answers, labels, strict=True)]) > 0.85
    noise = np.random.default_rng(0).integers(0, 256, (50, 8, 8), np.uint8)
    strange = np.median([a.novelty for a in index.search(noise)])
    assert strange > np.median([a.novelty for a in answers])


def test_a_run_without_a_predictive_file_answers_without_it(run):
    (run / "predictive.safetensors").unlink()
    index = bt.Index.open(run)
    index.update("digits", split="test")
    answer = index.search(scan(0))[0]
    assert (answer.probabilities, answer.novelty, answer.is_unlike) == (None, None, False)


def test_the_predictive_file_of_another_network_is_refused(run, tmp_path):
    make_run(tmp_path / "other", dim=16, channels=1, size=8, mean=(0.5,), deviation=(0.3,))
    shutil.copy(tmp_path / "other" / "encoder.onnx", run / "encoder.onnx")
    (run / "checksums.json").unlink()  # changed on purpose
    with pytest.raises(StateError, match=r"predictive.safetensors is of another network than the encoder"):
        bt.Index.open(run)
    (run / "predictive.safetensors").write_bytes(b"rubbish")
    with pytest.raises(InputError, match="cannot be read as a predictive"):
        bt.Index.open(run)


@pytest.mark.parametrize("name", ["index", "index.db"])
def test_the_index_of_another_encoder_is_refused(run, tmp_path, name):
    store = str(tmp_path / name)
    bt.Index.open(run, store).update("digits", split="test")
    make_run(tmp_path / "other", dim=16, channels=1, size=8, mean=(0.5,), deviation=(0.3,))
    with pytest.raises(StateError, match=r"was made with another encoder \(.*\) than that of .*other"):
        bt.Index.open(tmp_path / "other", store)
    assert len(bt.Index.open(run, store)) == 359


def test_milvus_holds_the_same_index(run, scans, tmp_path):
    here, there = bt.Index.open(run), bt.Index.open(run, str(tmp_path / "index.db"))
    for index in (here, there):
        assert counts(index.update(str(scans))) == (100, 0, 0, 0)
        assert counts(index.update(str(scans))) == (0, 0, 0, 100)
    (scans / "0" / "0.png").unlink()
    for index in (here, there):
        assert counts(index.update(str(scans))) == (0, 0, 1, 99)
    query = scan(321)
    one, other = here.search(query, k=5)[0], there.search(query, k=5)[0]
    assert [n.id for n in one.neighbours] == [n.id for n in other.neighbours]
    assert [n.distance for n in one.neighbours] == pytest.approx(
        [n.distance for n in other.neighbours], abs=1e-4
    )


def test_wrong_searches_are_told_before_any_work(run, scans):
    index = bt.Index.open(run)
    with pytest.raises(StateError, match=r"has no index yet: `bayestriplet index .*run IMAGES` makes one"):
        index.search(scan(1))
    index.update(str(scans))
    for k, match in ((0, "k must be at least 1; got 0"), (1_000_000, "k must be at most 10000; got 1000000")):
        with pytest.raises(InputError, match=match):
            index.search(scan(1), k)
    with pytest.raises(InputTypeError, match="k must be a whole number"):
        index.search(scan(1), 2.5)
    with pytest.raises(InputError, match=r"where must be one of .*; got 'labl'; did you mean 'label'"):
        index.search(scan(1), where={"labl": "1"})
    with pytest.raises(InputError, match="no item of the index has label=1O"):
        index.search(scan(1), where={"label": "1O"})
    with pytest.raises(InputError, match=r"vectors must have shape \(n, 16\); got \(3,\)"):
        index.search(np.zeros(3))
    with pytest.raises(InputError, match="finite"):
        index.search(np.full(16, np.nan))
    with pytest.raises(InputTypeError, match="queries must be paths"):
        index.search(None)
    with pytest.raises(InputError, match=r"an image must have shape \(H, W\)"):
        index.search([np.zeros((2, 2, 2, 2), np.uint8)])
    with pytest.raises(DataError, match="no such file"):
        index.search(scans / "none.png")
    pixels = {f"{s}_images": np.zeros((4, 8, 8, 3), np.uint8) for s in ("train", "val", "test")}
    labels = {f"{s}_labels": np.array([[0], [1], [0], [1]]) for s in ("train", "val", "test")}
    np.savez(scans / "colour.npz", **pixels, **labels)
    with pytest.raises(InputError, match="has 3 channels; the run was trained on 1"):
        index.update(str(scans / "colour.npz"))


def test_a_vote_goes_to_the_majority_and_a_tie_to_the_nearest():
    def near(*labels):
        return [Neighbour(i, "", label, float(i), "") for i, label in enumerate(labels, 1)]

    assert take_vote(near("a", "b", "b")).label == "b"
    assert take_vote(near("a", "b", "b")).share == pytest.approx(2 / 3)
    assert take_vote(near("a", "b", "b")).tied == ()
    assert take_vote(near("b", "a", "a", "b")).label == "b"
    assert take_vote(near("b", "a", "a", "b")).tied == ("b", "a")
    assert take_vote(near("c", "b", "", "a", "a", "b")).tied == ("b", "a")
    assert take_vote(near("", "c", "")).tied == ()
    assert take_vote(near("", "", "c")).share == pytest.approx(1 / 3)
    assert take_vote(near("", "")) is None
    assert take_vote([]) is None


def test_many_copies_need_more_than_one_look(run, scans, monkeypatch):
    index = bt.Index.open(run)
    index.add([scan(1)] * 30, ids=[f"copy {i}" for i in range(30)], labels=["1"] * 30)
    index.add([scan(i) for i in range(2, 12)], ids=[str(i) for i in range(2, 12)])
    asked = []
    search = index.store.search
    monkeypatch.setattr(
        index.store, "search", lambda v, k, w: asked.append(k) or search(v, k, w), raising=True
    )
    assert len(index.search(scan(1), k=3, exclude_self=True)[0].neighbours) == 3
    assert len(asked) > 1


def test_the_own_group_of_an_indexed_query_is_left_out_unless_asked_otherwise(run, scans):
    rows = [f"{p.relative_to(scans)},{p.parent.name},p{int(p.stem) % 4}" for p in scans.rglob("*.png")]
    (scans / "list.csv").write_text("path,label,group\n" + "\n".join(rows))
    index = bt.Index.open(run)
    index.update(str(scans / "list.csv"))
    groups = {f"list/{p.relative_to(scans)}": f"p{int(p.stem) % 4}" for p in scans.rglob("*.png")}
    files = [next(scans.rglob(f"{number}.png")) for number in (10, 21)]  # of groups p2 and p1
    for answer, own in zip(index.search(files, k=100), ("p2", "p1"), strict=True):
        assert answer.excluded_group == own
        assert {groups[one.id] for one in answer.neighbours} == {"p0", "p1", "p2", "p3"} - {own}
    for options in ({"exclude_group": ""}, {"where": ["group!=p0"]}):
        (answer,) = index.search(files[0], k=100, **options)
        assert answer.excluded_group is None
        assert "p2" in {groups[one.id] for one in answer.neighbours}
    (stranger,) = index.search(scan(1500), k=100)
    assert stranger.excluded_group is None
    assert len(stranger.neighbours) == 100
