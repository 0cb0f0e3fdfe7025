"""``export``, ``index`` and ``search`` as a person uses them."""

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

import bayestriplet as bt
from bayestriplet import priority
from bayestriplet.cli import app
from tests.data.test_images import png_header
from tests.retrieval.test_encoder import make_run

ROOT = Path(__file__).parents[2]
DIGITS = load_digits()


@pytest.fixture
def call(monkeypatch, capsys):
    """Run the command in this process; return exit code, output and errors."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["bayestriplet", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            app.main()
        said = capsys.readouterr()
        return stop.value.code, said.out, said.err

    return run


def assert_one_line(answer, *parts):
    code, _, errors = answer
    assert code == 1, answer
    assert len(errors.strip().splitlines()) == 1, errors
    assert errors.startswith("Error: ")
    for part in parts:
        assert part in errors


def save_scan(number, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.rint(DIGITS.images[number] * (255 / 16)).astype(np.uint8)).save(path)
    return path


@pytest.fixture(scope="module")
def indexed(digits_run, tmp_path_factory):
    """A run with an index of its test items."""
    from bayestriplet.retrieval.index import Index

    run = tmp_path_factory.mktemp("indexed") / "run"
    shutil.copytree(digits_run, run, ignore=shutil.ignore_patterns("*.ckpt"))
    index = Index.open(run)
    index.update("digits", split="test")
    index.store.prepare()
    return run


@pytest.fixture
def query(tmp_path):
    return save_scan(3, tmp_path / "three.png")


def test_a_training_leaves_the_encoder_that_export_makes(digits_run, call, tmp_path):
    run = shutil.copytree(digits_run, tmp_path / "run")
    before = (run / "encoder.onnx").stat().st_size
    (run / "encoder.onnx").unlink()
    assert_one_line(call("export", run), "--backbone tests.training.networks:small")
    code, said, _ = call("export", run, "--backbone", "tests.training.networks:small")
    assert code == 0
    assert said.startswith(f"{run}/encoder.onnx: 8 x 8 grey images to 16 numbers, ")
    assert abs((run / "encoder.onnx").stat().st_size - before) < 1000


def test_index_says_what_it_did_and_what_to_do_next(digits_run, call, tmp_path):
    run = shutil.copytree(digits_run, tmp_path / "run")
    for i in range(30):
        save_scan(i, tmp_path / "scans" / str(DIGITS.target[i]) / f"{i}.png")
    code, said, _ = call("index", run, tmp_path / "scans")
    assert code == 0
    lines = said.splitlines()
    began = f"Set scans ({tmp_path / 'scans'}): 30 added, 0 replaced, 0 removed, 0 unchanged; "
    assert lines[0].startswith(began)
    assert lines[0].endswith(" images/s")
    assert lines[1] == f"{run}/index holds 30 items; search is exact."
    assert lines[2] == f"Try next:  bayestriplet search {run} QUERY.png"
    assert "0 added, 0 replaced, 0 removed, 30 unchanged" in call("index", run, tmp_path / "scans")[1]
    store = tmp_path / "other"
    assert f"{store} holds 359 items" in call("index", run, "digits", "--split", "test", "--store", store)[1]
    assert (
        "0, 10 of 10 neighbours"
        in call("search", run, tmp_path / "scans" / "0" / "0.png", "--store", store)[1]
    )


def test_index_gives_way_to_a_server_and_search_does_not(indexed, query, call, monkeypatch):
    given, own = [], os.getpriority(os.PRIO_PROCESS, 0)
    monkeypatch.setattr(os, "setpriority", lambda *about: given.append(about))
    assert call("search", indexed, query)[0] == 0
    assert given == []
    monkeypatch.setattr(priority, "NICE", 19)
    assert call("index", indexed, "digits", "--split", "test")[0] == 0
    assert given == [(os.PRIO_PROCESS, 0, max(own, 19))]


def test_paths_of_an_answer_are_whole_lines_however_long(digits_run, call, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    run = shutil.copytree(digits_run, tmp_path / "run", ignore=shutil.ignore_patterns("index"))
    label = "adenocarcinoma, moderately differentiated, with a mucinous component"
    file = save_scan(0, tmp_path / "tiles of the second laboratory" / label / "0.png")
    call("index", run, tmp_path / "tiles of the second laboratory")
    said = call("search", run, file)[1]
    assert [line.rstrip() for line in said.splitlines() if line.rstrip().endswith(str(file))]
    assert "adenocarcinoma, moderately       " in said  # labels are folded


def test_index_says_which_set_was_updated_and_what_became_of_its_folder(digits_run, call, tmp_path):
    run = shutil.copytree(digits_run, tmp_path / "run", ignore=shutil.ignore_patterns("index"))
    a, b = tmp_path / "a" / "tiles", tmp_path / "b" / "tiles"
    for i in range(4):
        save_scan(i, a / f"{i}.png")
        save_scan(i + 4, b / f"{i}.png")
    assert call("index", run, a)[1].startswith(f"Set tiles ({a}): 4 added, ")
    code, said, errors = call("index", run, b)
    assert (code, errors) == (0, "")
    assert said.startswith(f"Set b/tiles ({b}): 4 added, 0 replaced, 0 removed, 0 unchanged; ")
    assert "Set digits, split test: 359 added, " in call("index", run, "digits", "--split", "test")[1]
    code, said, errors = call("index", run, "digits", "--split", "val")
    assert (code, said[:41], errors) == (0, "Set digits:val, split val (digits): 360 a", "")
    new = tmp_path / "c" / "tiles"
    shutil.move(a, new)
    code, said, errors = call("index", run, new)
    assert said.startswith(f"Set c/tiles ({new}): 4 added, ")
    assert errors == (
        f"Note: {a} is gone, and its items are still in the index: if it was moved to {new}, "
        "index that with --name tiles after --remove source=c/tiles\n"
    )
    assert call("index", run, "--remove", "source=c/tiles")[0] == 0
    code, said, errors = call("index", run, new, "--name", "tiles")
    assert errors == f"Note: set tiles was moved from {a} to {new}\n"
    assert said.startswith(f"Set tiles ({new}): 0 added, 4 replaced, ")
    assert call("index", run, new)[2] == ""


@pytest.mark.parametrize("name", ["index", "index.db"])
def test_index_takes_items_out_and_purges(digits_run, call, tmp_path, name):
    run = shutil.copytree(digits_run, tmp_path / "run", ignore=shutil.ignore_patterns("index"))
    rows = [
        f"{save_scan(i, tmp_path / f'{i}.png').name},{DIGITS.target[i]},patient{i % 3}" for i in range(30)
    ]
    (tmp_path / "list.csv").write_text("\n".join(["path,label,group", *rows]))
    store = ("--store", tmp_path / name)
    assert_one_line(call("index", run, *store, "--purge"), "holds no index")
    call("index", run, tmp_path / "list.csv", *store)
    code, said, _ = call("index", run, *store, "--remove", "group=patient1")
    assert (code, said.splitlines()[0]) == (0, "10 removed")
    assert said.splitlines()[1].startswith(f"{tmp_path / name} holds 20 items; ")
    assert len(said.splitlines()) == 2
    missing = call("index", run, *store, "--remove", "group=patient1")
    assert_one_line(missing, "no item of the index has group=patient1; there is group=patient")
    both = ("--remove", "group=patient2", "--remove", "label=2")
    number = sum(DIGITS.target[i] == 2 and i % 3 == 2 for i in range(30))
    assert call("index", run, *store, *both, "--purge")[1].splitlines()[0] == f"{number} removed"
    code, said, _ = call("index", run, *store, "--purge")
    sentence = "Older versions are gone from " if name == "index" else "Milvus Lite keeps removed items"
    assert (code, said[: len(sentence)]) == (0, sentence)


def test_index_says_what_it_needs_in_one_line(indexed, call):
    assert_one_line(call("index", indexed), "needs IMAGES to add, --remove FIELD=VALUE or --purge; got none")
    both = ("digits", "--remove", "label=1")
    assert_one_line(call("index", indexed, *both), "index takes IMAGES or --remove, not both: run it twice")
    assert_one_line(call("index", indexed, "digits", "--purge"), "index takes IMAGES or --purge, not both")
    for option in (("--split", "test"), ("--name", "x"), ("--skip-bad",)):
        assert_one_line(call("index", indexed, "--purge", *option), "are for IMAGES, which are not given")
    assert_one_line(
        call("index", indexed, "--remove", "label"), "--remove must be FIELD=VALUE, such as group=P7"
    )
    assert_one_line(call("index", indexed, "--remove", "lable=1"), "did you mean 'label'")
    twice = ("--remove", "label=1", "--remove", "label=2")
    assert_one_line(call("index", indexed, *twice), "--remove names label twice")


def test_search_prints_the_vote_and_a_table(indexed, query, call):
    code, said, errors = call("search", indexed, query, "-k", "4")
    assert (code, errors) == (0, "")
    assert "three.png: 3, 4 of 4 neighbours; probability 3 " in said
    assert "novelty " in said
    rows = [line.split() for line in said.splitlines() if line.split()[:1] in (["1"], ["2"], ["3"], ["4"])]
    assert [row[0] for row in rows] == ["1", "2", "3", "4"]
    assert all(row[1] == "3" and row[3].startswith("digits/digits/") for row in rows)


def test_novelty_goes_by_how_a_picture_looks_as_in_python(indexed, query, call, tmp_path):
    white = tmp_path / "white.png"
    Image.new("L", (8, 8), 255).save(white)
    code, out, _ = call("search", indexed, query, white, "--json")
    assert code == 0
    expected = bt.Run(indexed).novelty([query, white])
    assert [one["novelty"] for one in json.loads(out)] == pytest.approx(expected.tolist())
    by_vector = bt.Run(indexed).novelty(bt.Run(indexed).encode([query, white]))
    assert not np.allclose(expected, by_vector)


def test_json_has_the_keys_that_are_documented(indexed, query, call, tmp_path):
    found = json.loads(call("search", indexed, query, "--json", "--where", "label=3")[1])
    assert list(found) == [
        "query",
        "neighbours",
        "vote",
        "probabilities",
        "novelty",
        "excluded_group",
        "against",
        "evidence",
    ]
    assert list(found["neighbours"][0]) == ["rank", "id", "label", "distance", "path"]
    assert len(found["neighbours"]) == 10
    assert found["vote"] == {"label": "3", "share": 1.0, "tied": []}
    many = json.loads(call("search", indexed, tmp_path, query, "--json", "-k", "1")[1])
    assert [one["query"] for one in many] == [str(query), str(query)]
    assert isinstance(json.loads(call("search", indexed, tmp_path, "--json")[1]), list)


def test_a_tie_is_said_to_be_one(digits_run, query, call, tmp_path, monkeypatch):
    from bayestriplet.retrieval.index import Index

    run = shutil.copytree(digits_run, tmp_path / "run", ignore=shutil.ignore_patterns("index"))
    pixels = [np.rint(DIGITS.images[i] * (255 / 16)).astype(np.uint8) for i in range(4)]
    Index.open(run).add(pixels, labels=["8", "9", "8", "3"], ids=list("abcd"))  # the query is the last one
    said = call("search", run, query, "-k", "1")[1]
    assert "three.png: 3, 1 of 1 neighbours; " in said
    Index.open(run).add(pixels[3], labels=["3"], ids=["e"])
    answer = json.loads(call("search", run, query, "-k", "5", "--json")[1])
    assert answer["vote"] == {"label": "3", "share": 0.4, "tied": ["3", "8"]}
    assert "three.png: tie: 3 and 8, 2 of 5 neighbours each; " in call("search", run, query, "-k", "5")[1]
    Index.open(run).add(pixels[1], labels=["9"], ids=["f"])
    captions = []
    monkeypatch.setattr("bayestriplet.report.montage.save_figure", lambda figure, _: captions.append(figure))
    said = call("search", run, query, "-k", "6", "--montage", tmp_path / "montage.png")[1]
    assert "three.png: tie: 3, " in said
    assert " and " in said
    assert ", 2 of 6 neighbours each; " in said
    texts = [text.get_text() for text in captions[0].findobj(lambda one: hasattr(one, "get_text"))]
    assert any("three.png: tie: 3, " in text for text in texts), texts


def test_the_own_picture_can_be_left_out(indexed, call, tmp_path):
    ids = json.loads(call("search", indexed, save_scan(3, tmp_path / "a.png"), "--json")[1])["neighbours"]
    number = int(ids[0]["id"].split("/")[-1])
    own = save_scan(number, tmp_path / "own.png")
    nearest = json.loads(call("search", indexed, own, "--json")[1])["neighbours"][0]
    assert (nearest["id"], nearest["distance"]) == (f"digits/digits/{number}", 0.0)
    others = json.loads(call("search", indexed, own, "--json", "--exclude-self")[1])["neighbours"]
    assert nearest["id"] not in [one["id"] for one in others]


def test_other_patients_only(digits_run, call, tmp_path):
    run = shutil.copytree(digits_run, tmp_path / "run", ignore=shutil.ignore_patterns("index", "*.ckpt"))
    rows = []
    for i in range(30):
        save_scan(i, tmp_path / f"{i}.png")
        rows.append(f"{i}.png,{DIGITS.target[i]},P{i % 3}")
    (tmp_path / "list.csv").write_text("path,label,group\n" + "\n".join(rows))
    assert call("index", run, tmp_path / "list.csv")[0] == 0
    query = tmp_path / "4.png"
    code, said, errors = call("search", run, query, "--exclude-group", "P1", "-k", "30", "--json")
    assert (code, errors) == (0, "")
    found = json.loads(said)
    assert found["excluded_group"] == "P1"
    assert {int(Path(one["path"]).stem) % 3 for one in found["neighbours"]} == {0, 2}
    assert len(found["neighbours"]) == 20
    conditions = ["--where", "group!=P1", "--where", "group!=P2", "--where", "label!=3"]
    found = json.loads(call("search", run, query, *conditions, "-k", "30", "--json")[1])
    expected = {i for i in range(0, 30, 3) if DIGITS.target[i] != 3}
    assert {int(Path(one["path"]).stem) for one in found["neighbours"]} == expected
    assert found["excluded_group"] is None
    code, _, errors = call("search", run, query, "--exclude-group", "P9")
    assert (code, errors) == (0, "Note: the index has no group 'P9', so that nothing was left out\n")
    assert call("search", run, query, "--exclude-group", "")[0] == 0  # keeps the query's own group
    assert_one_line(call("search", run, query, "--where", "group!="), "--where group!= excludes nothing")
    both = ["--where", "label=3", "--where", "label!=3"]
    assert_one_line(call("search", run, query, *both), "label '3' is both asked for and excluded")


def test_a_montage_is_a_picture(indexed, query, call, tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (9, 9, 3), np.uint8)
    Image.fromarray(noise).save(tmp_path / "noise.png")
    picture = tmp_path / "out" / "montage.png"
    assert_one_line(call("search", indexed, query, "--montage", picture), "there is no folder")
    other = tmp_path / "montage.jpg"
    assert_one_line(call("search", indexed, query, "--montage", other), "--montage must name a .png file")
    picture.parent.mkdir()
    code, said, _ = call("search", indexed, query, tmp_path / "noise.png", "--montage", picture)
    assert code == 0
    assert said.splitlines()[-1] == f"{picture}: the query and its nearest neighbours"
    with Image.open(picture) as image:
        assert image.width == 1200
        assert len(set(image.convert("RGB").get_flattened_data())) > 100
    assert_one_line(call("search", indexed, *[query] * 17, "--montage", picture), "at most 16 queries")


def test_a_bad_query_is_one_line(indexed, call, tmp_path):
    (tmp_path / "note.png").write_text("not an image")
    assert_one_line(call("search", indexed, tmp_path / "note.png"), "note.png is not an image")
    whole = save_scan(1, tmp_path / "whole.png").read_bytes()
    (tmp_path / "cut.png").write_bytes(whole[:50])
    assert_one_line(call("search", indexed, tmp_path / "cut.png"), "cut.png is truncated")
    for side in (9_000, 12_000, 60_000):
        (tmp_path / "bomb.png").write_bytes(png_header(side, side))
        assert_one_line(
            call("search", indexed, tmp_path / "bomb.png"), f"has {side} x {side} pixels, more than 64"
        )
    (tmp_path / "empty.png").touch()
    assert_one_line(call("search", indexed, tmp_path / "empty.png"), "empty.png is empty")
    assert_one_line(call("search", indexed, tmp_path / "none.png"), "none.png: no such file")
    (tmp_path / "folder").mkdir()
    assert_one_line(call("search", indexed, tmp_path / "folder"), "holds no images")


def test_a_search_that_cannot_be_is_one_line(indexed, query, call, digits_run, tmp_path):
    assert_one_line(call("search", indexed, query, "-k", "0"), "k must be at least 1; got 0")
    assert_one_line(call("search", indexed, query, "-k", "1000000"), "k must be at most 10000; got 1000000")
    assert_one_line(
        call("search", indexed, query, "--where", "label=TUM"), "no item of the index has label=TUM"
    )
    assert_one_line(call("search", indexed, query, "--where", "lable=1"), "did you mean 'label'")
    assert_one_line(call("search", indexed, query, "--where", "label"), "must be FIELD=VALUE")
    twice = ["--where", "label=1", "--where", "label=2"]
    assert_one_line(call("search", indexed, query, *twice), "names label twice")
    bare = shutil.copytree(digits_run, tmp_path / "bare")
    assert_one_line(call("search", bare, query), "has no index yet", f"bayestriplet index {bare} IMAGES")
    store = tmp_path / "none"
    message = f"{store} holds no index: `bayestriplet index {bare} IMAGES --store {store}` makes one"
    assert_one_line(call("search", bare, query, "--store", store), message)
    (bare / "encoder.onnx").unlink()
    assert_one_line(call("search", bare, query), f"bayestriplet export {bare}")
    assert_one_line(call("search", tmp_path / "none", query), "no such run")
    make_run(tmp_path / "other", dim=16, channels=1, size=8, mean=(0.5,), deviation=(0.3,))
    other = call("search", tmp_path / "other", query, "--store", indexed / "index")
    assert_one_line(other, "was made with another encoder")
    assert_one_line(
        call("search", indexed, query, "--store", "http://127.0.0.1:1"), "127.0.0.1:1 cannot be read"
    )
    assert_one_line(call("index", indexed, tmp_path / "gone"), "there is no file or folder")
    assert_one_line(call("index", indexed, "digits", "--split", "tset"), "did you mean 'test'")


def test_a_damaged_table_is_one_line_and_can_be_made_anew(indexed, query, call, tmp_path):
    run = shutil.copytree(indexed, tmp_path / "run")
    shutil.rmtree(run / "index" / "snapshot")
    data = next((run / "index" / "items.lance" / "data").iterdir())
    data.write_bytes(data.read_bytes()[:100])
    for command in (("search", run, query), ("index", run, "digits")):
        again = f"bring back a copy of {run}/index, or delete it and index again"
        assert_one_line(call(*command), f"{data} is damaged: it is not what was written; {again}")
    shutil.rmtree(run / "index")
    assert call("index", run, "digits", "--split", "test")[0] == 0
    assert call("search", run, query)[0] == 0


def test_files_that_were_moved_are_noted_and_the_answer_given(digits_run, query, call, tmp_path):
    run = shutil.copytree(digits_run, tmp_path / "run")
    for i in range(20):
        save_scan(i, tmp_path / "scans" / str(DIGITS.target[i]) / f"{i}.png")
    call("index", run, tmp_path / "scans")
    (tmp_path / "scans").rename(tmp_path / "elsewhere")
    code, said, errors = call("search", run, query, "-k", "3", "--montage", tmp_path / "montage.png")
    assert (code, "3/3.png" in "".join(said.split())) == (3, True)
    assert errors.startswith("Note: 3 of these 3 files are no longer where they were indexed; ")
    assert (tmp_path / "montage.png").is_file()
    assert_one_line(call("index", run, tmp_path / "scans"), "there is no file or folder")
    (tmp_path / "elsewhere").rename(tmp_path / "scans")
    assert call("search", run, query, "-k", "3")[0] == 0


def test_ctrl_c_while_indexing_says_so_and_leaves_the_index_as_it_was(call, indexed, query, monkeypatch):
    @contextmanager
    def interrupted():
        yield lambda *_: signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("bayestriplet.cli.index.progress_bar", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it
    try:
        assert call("index", indexed, "digits") == (130, "", "Stopped.\n")
    finally:
        signal.signal(signal.SIGINT, before)
    code, said, _ = call("search", indexed, query, "-k", "2")
    assert (code, "3, 2 of 2 neighbours" in said) == (0, True)


def test_searching_needs_no_torch_and_no_lancedb(indexed, query):
    code = (
        "import sys; sys.modules['torch'] = sys.modules['lancedb'] = None; "
        "from bayestriplet.cli.app import main; main()"
    )
    command = [sys.executable, "-c", code, "search", indexed, query, "-k", "2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert "3, 2 of 2 neighbours" in done.stdout
