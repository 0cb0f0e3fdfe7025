"""Where neighbours are looked for, and what the tables say about it."""

import json

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

import bayestriplet as bt
from bayestriplet.evaluation.evaluate import ItemSet, raw_pixels
from bayestriplet.evaluation.evaluator import Evaluator
from bayestriplet.evaluation.galleries import choose_clusters
from bayestriplet.report.results import as_text, training_tables
from bayestriplet.training.events import PhaseEvent
from tests.cli.test_app import run as command
from tests.evaluation.test_own_groups import means, slow_figures

BACKBONE = "tests.training.networks:small"
SMALL = {"backbone": BACKBONE, "dim": 8, "size": 8, "max_steps": 20, "validate_every": 10, "workers": 0}
AMONG, AGAINST = "among the test items", "against the training items"
OTHERS = ", other groups only"


def write_slides(folder, slides, tiles=6):
    """Write digits as class/slide/tile.png; ``slides`` names the slides of every class."""
    found = load_digits()
    for name, members in slides.items():
        rows = iter(np.flatnonzero(found.target == int(name)))
        for slide in members:
            for _ in range(tiles):
                row = next(rows)
                path = folder / name / slide / f"{row}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(np.rint(found.images[row] * (255 / 16)).astype(np.uint8)).save(path)
    return folder


@pytest.fixture(scope="module")
def slides(tmp_path_factory):
    names = [f"s{number}" for number in range(12)]
    return write_slides(tmp_path_factory.mktemp("slides") / "tiles", dict.fromkeys("0123", names))


@pytest.fixture(scope="module")
def by_slide(slides, tmp_path_factory):
    return bt.train(str(slides), out=tmp_path_factory.mktemp("runs") / "run", **SMALL)


@pytest.fixture(scope="module")
def by_item(slides, tmp_path_factory):
    """A run whose slides are in several splits."""
    return bt.train(str(slides), out=tmp_path_factory.mktemp("runs") / "run", split_by="item", **SMALL)


def test_items_of_other_groups_are_measured_in_every_gallery_that_has_own_ones(by_item, by_slide):
    found = by_item.evaluate(backbone=BACKBONE)
    assert [found.gallery.name, *found.galleries] == [AMONG, AMONG + OTHERS, AGAINST, AGAINST + OTHERS]
    apart = by_slide.evaluate(backbone=BACKBONE)
    assert [apart.gallery.name, *apart.galleries] == [AMONG, AMONG + OTHERS, AGAINST]
    assert apart.galleries[AGAINST].title.endswith(" training items, other groups only")
    for one in (found, apart):
        assert set(one.retrieval) == {"bunca", "untrained", "raw pixels"}
        assert all(set(other.rows) == set(one.retrieval) for other in one.galleries.values())


def test_the_figures_of_every_gallery_are_those_of_loops(by_item):
    found = by_item.evaluate(backbone=BACKBONE)
    measured = Evaluator(by_item.path, backbone=BACKBONE)
    images, _ = measured.open(by_item.config.data)
    test, train = (images.indices(split) for split in ("test", "train"))
    nobody = np.full(len(images), "")
    embeddings = {
        "bunca": lambda rows: measured.vectors(ItemSet(images, rows, images.labels[rows])),
        "raw pixels": lambda rows: raw_pixels(images, rows),
    }
    for name, one in {found.gallery.name: found.gallery, **found.galleries}.items():
        groups = images.groups if name.endswith(OTHERS) else nobody
        for row, vectors in embeddings.items():
            gallery = ()
            if name.startswith("against"):
                gallery = vectors(train), images.labels[train], groups[train]
            expected = slow_figures(vectors(test), images.labels[test], groups[test], (1, 4, 8, 16), *gallery)
            assert one.queries == len(test) == len(expected)
            assert one.items == len(train if gallery else test)
            assert {key: score.value for key, score in one.rows[row].items()} == pytest.approx(
                means(expected)
            )


def test_results_of_a_training_are_those_of_evaluate(by_item):
    found, results = by_item.evaluate(backbone=BACKBONE), by_item.results
    assert results["test"] == found.to_json()["retrieval"]
    assert results["gallery"] == found.to_json()["gallery"]
    assert results["galleries"] == found.to_json()["galleries"]
    assert results["galleries"][AGAINST].keys() >= {"queries", "items", "dropped", "rows"}
    tables = as_text(training_tables(results))
    assert str(found).startswith(tables)
    assert max(map(len, tables.splitlines())) <= 80
    assert "Percent ± half the 95% interval; intervals resample groups (11)" in tables.splitlines()


def test_every_split_is_embedded_once_for_all_galleries(slides, tmp_path):
    training, measuring = [], []
    run = bt.train(str(slides), out=tmp_path / "run", split_by="item", on_event=training.append, **SMALL)
    run.evaluate(backbone=BACKBONE, on_event=measuring.append)
    for listened in (training, measuring):
        ended = [e.what for e in listened if isinstance(e, PhaseEvent) and e.total and e.done == e.total]
        for what in ("Embedding {}", "Embedding {}, untrained", "Reading {}"):
            assert [ended.count(what.format(items)) for items in ("training items", "test items")] == [1, 1]
        assert "Searching training items, raw pixels" in ended


def test_queries_whose_class_is_in_no_other_group_are_dropped_and_counted(tmp_path):
    members = {name: [f"s{number}" for number in range(12)] for name in "012"} | {"3": ["only"] * 5}
    folder = write_slides(tmp_path / "tiles", members)
    run = bt.train(str(folder), out=tmp_path / "run", split_by="item", **SMALL)
    found = run.evaluate(backbone=BACKBONE)
    images, _ = Evaluator(run.path, backbone=BACKBONE).open(run.config.data)
    lonely = int((images.groups[images.indices("test")] == "only").sum())
    assert lonely > 0
    for name in (AMONG + OTHERS, AGAINST + OTHERS):
        one = found.galleries[name]
        assert (one.dropped, one.queries) == (lonely, found.gallery.queries - lonely)
        assert one.title.startswith(f"{one.queries} test items of tiles")
    assert f"{lonely} more dropped: no item of their class in another group" in str(found)
    assert found.gallery.dropped == found.galleries[AGAINST].dropped == 0


def test_a_single_group_leaves_nothing_to_measure_in_other_groups(tmp_path):
    folder = write_slides(tmp_path / "tiles", {name: ["only"] * 6 for name in "012"})
    run = bt.train(str(folder), out=tmp_path / "run", split_by="item", **SMALL)
    found = run.evaluate(backbone=BACKBONE)
    assert list(found.galleries) == [AGAINST]
    assert found.gallery.resampled == "queries"  # of one group no interval can be had
    assert found.notes == (
        f"Not measured {AMONG}{OTHERS}: no query has an item of its class in another group.",
        f"Not measured {AGAINST}{OTHERS}: no query has an item of its class in another group.",
    )


def test_the_gallery_that_is_asked_for_comes_first_and_the_others_follow(by_item):
    found = by_item.evaluate(gallery="train", backbone=BACKBONE)
    assert [found.gallery.name, *found.galleries] == [AGAINST, AGAINST + OTHERS, AMONG, AMONG + OTHERS]
    plain = by_item.evaluate(backbone=BACKBONE)
    assert found.retrieval == plain.galleries[AGAINST].rows
    assert found.galleries[AMONG].rows == plain.retrieval
    done = command("evaluate", by_item.path, "--backbone", BACKBONE, "--gallery", "val", "--json")
    assert done.returncode == 0, done.stderr
    whole = json.loads(done.stdout)
    assert whole["gallery"]["name"] == "against the validation items"
    assert set(whole["galleries"]) == {
        f"against the validation items{OTHERS}", AMONG, AMONG + OTHERS, AGAINST, AGAINST + OTHERS
    }  # fmt: skip
    assert whole["galleries"][AMONG]["rows"]["bunca"] == found.to_json()["galleries"][AMONG]["rows"]["bunca"]
    assert {"queries", "items", "dropped", "resampled", "units"} < set(whole["gallery"])


def test_other_data_are_looked_for_among_themselves_and_in_the_data_that_is_named(by_item, slides):
    found = by_item.evaluate("digits", split="all", backbone=BACKBONE)
    assert (found.title, found.galleries) == ("1,797 items of digits among the items", {})
    # Only four of the ten digits were trained on.
    assert (found.gallery.resampled, found.gallery.units) == ("classes", 10)
    found = by_item.evaluate("digits", gallery=str(slides), backbone=BACKBONE)
    assert found.gallery.name == "against the test items of tiles"
    assert found.gallery.unmatched > 0
    assert "have no item of their class there and count as misses" in str(found)


def test_probabilities_resample_groups_too(by_item):
    found = by_item.evaluate(backbone=BACKBONE)
    assert (found.probability_scores.resampled, found.probability_scores.units) == ("groups", 11)
    lines = str(found).splitlines()
    assert lines[lines.index("Probabilities of test items, from the training items") + 8] == (
        "± half the 95% interval; intervals resample groups (11)"
    )


@pytest.mark.parametrize(
    ("groups", "trained", "expected"),
    [
        (["", "", "", ""], [0, 1], ("queries", 4)),
        (["a", "a", "b", ""], [0, 1], ("groups", 3)),
        (["a", "a", "b", ""], [0], ("classes", 2)),
        (["a", "a", "a", "a"], [0, 1], ("queries", 4)),
    ],
)
def test_intervals_resample_classes_never_trained_on_else_groups_else_queries(groups, trained, expected):
    what, number, clusters = choose_clusters(np.array([0, 0, 1, 1]), np.array(groups), np.array(trained))
    assert (what, number) == expected
    assert (clusters is None) == (what == "queries")
