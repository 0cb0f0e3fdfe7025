"""The benchmark of classes never trained on: its data, its resampling and its table."""

import argparse
import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import bayestriplet as bt
from bayestriplet.data.npz import TISSUES
from bayestriplet.data.sources import absolute_data, open_data
from bayestriplet.methods import COMPARED, METHODS

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

import few_shot
import quality
import resampling
import searching
import unseen
import unseen_tables


def write_birds(path, items=4, length=12):
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(200), items)
    vectors = rng.normal(size=(200, length))[labels] + 0.7 * rng.normal(size=(len(labels), length))
    np.savez(path, vectors=vectors.astype(np.float16), labels=labels.astype(np.int16))
    return path


@pytest.fixture(scope="module")
def part(tmp_path_factory):
    """Two methods on small birds, with what the second time says."""
    out = tmp_path_factory.mktemp("unseen")
    data = absolute_data(f"vectors:{unseen.split_birds(write_birds(out / 'birds.npz'), out)}")
    base = searching.base_of(data, 4, **unseen.OPTIONS["cub"] | {"dim": 8})
    said, found = [], {}
    for _ in range(2):
        lines = searching.Lines(Console(file=io.StringIO(), width=120))
        for method in ("bunca", "vertices"):
            unseen.measure_part(base, method, (50, 51), False, found, out / "cub", 1, lines)
        said.append(lines.console.file.getvalue())
    return found, said


def test_all_methods_and_controls_are_rows_and_the_candidate_is_ours():
    assert sorted(unseen.ROWS) == sorted(METHODS)
    assert set(unseen.ROWS[: len(COMPARED)]) == set(COMPARED)
    assert unseen.CANDIDATE in quality.OURS
    assert set(unseen.SEEDS).isdisjoint({searching.TUNING_SEED, *range(20, 50)})


def test_a_fifth_of_the_first_hundred_species_validates_and_the_others_are_asked_about(tmp_path):
    images = open_data(f"vectors:{unseen.split_birds(write_birds(tmp_path / 'birds.npz'), tmp_path)}")
    species = np.array([int(name) for name in images.classes])[images.labels]
    of = {split: set(species[images.indices(split)].tolist()) for split in ("train", "val", "test")}
    assert of["test"] == set(range(100, 200))
    assert of["val"] == set(range(4, 100, 5))
    assert of["train"] == set(range(100)) - of["val"]


def test_training_items_have_coarse_labels_and_the_others_fine_ones(tmp_path):
    fine, coarse = (
        open_data("digits"),
        open_data(str(unseen.coarsen("digits", unseen.PARITY, tmp_path / "parity.npz"))),
    )
    for split in ("train", "val", "test"):
        rows, before = coarse.indices(split), fine.indices(split)
        assert np.array_equal(coarse.read(rows), fine.read(before))
        names = [coarse.classes[k] for k in coarse.labels[rows]]
        digits = fine.labels[before]
        assert names == [("odd" if k % 2 else "even") if split == "train" else str(k) for k in digits]


def test_of_many_coarse_items_an_equal_number_of_every_class_validates(tmp_path, monkeypatch):
    monkeypatch.setattr(unseen, "VALIDATION_ITEMS", 7)
    coarse = open_data(str(unseen.coarsen("digits", unseen.PARITY, tmp_path / "parity.npz")))
    labels = coarse.labels[coarse.indices("val")]
    assert np.unique(labels, return_counts=True)[1].tolist() == [7] * 10
    whole = open_data("digits")
    for split in ("train", "test"):
        assert len(coarse.indices(split)) == len(whole.indices(split))


def test_groups_of_tissues_hold_every_tissue_once():
    names = [name for group in unseen.TISSUE_GROUPS.values() for name in group]
    assert sorted(names) == sorted(TISSUES)


def test_resamples_of_classes_and_seeds_are_those_of_a_loop():
    rng = np.random.default_rng(3)
    sizes = rng.integers(2, 9, 7).astype(float)
    hits = {name: np.floor(rng.random((3, 7)) * sizes) for name in "ab"}
    found = resampling.resampled_recalls(hits, sizes, 50)
    rng = np.random.default_rng(resampling.SEED)
    classes, seeds = rng.integers(0, 7, (50, 7)), rng.integers(0, 3, (50, 3))
    for name, table in hits.items():
        for drawn, some, others in zip(found[name], classes, seeds, strict=True):
            shares = [sum(table[s, c] for c in some) / sum(sizes[c] for c in some) for s in others]
            assert drawn == pytest.approx(100 * np.mean(shares))
    assert resampling.recalls(hits, sizes)["a"] == pytest.approx(100 * hits["a"].sum() / (3 * sizes.sum()))


def test_a_difference_is_clear_where_every_class_has_it_and_not_where_there_is_none():
    sizes, rng = np.full(40, 20.0), np.random.default_rng(0)
    table = rng.integers(5, 15, (5, 40)).astype(float)
    drawn = resampling.resampled_recalls({"one": table, "same": table, "more": table + 1}, sizes)
    none = resampling.estimate(0.0, drawn["same"] - drawn["one"])
    assert (none.low, none.high, none.p, none.is_clear) == (0, 0, 1.0, False)
    more = resampling.estimate(5.0, drawn["more"] - drawn["one"])
    assert more.low == pytest.approx(5) == pytest.approx(more.high)
    assert (more.p, more.is_clear) == (2 / 2001, True)
    of_classes = 100 / 20 * table.mean(0).std() / np.sqrt(40)
    assert of_classes < drawn["one"].std() < 2 * of_classes  # the seeds add some


def test_a_part_counts_hits_by_class_as_the_comparison_counts_recall(part):
    found, said = part
    hits, sizes = unseen_tables.hits_of(found)
    assert sizes.tolist() == [4] * 100
    for method, table in hits.items():
        shown = [seed["recall@1"] for seed in found["methods"][method]["seeds"].values()]
        assert table.shape == (2, 100)
        assert (100 * table.sum(1) / sizes.sum()).tolist() == pytest.approx(shown, abs=0.006)
    assert "/" not in json.dumps(found["settings"]) + found["data"]
    assert said[0].count("validation") == 4
    assert said[1] == ""  # nothing is trained twice


def test_the_table_sets_every_method_beside_the_candidate(part):
    rows = [line.strip("| ").split(" | ") for line in unseen_tables.part_table(part[0], "bunca").splitlines()]
    assert rows[0] == list(unseen_tables.HEADS)
    shown = {row[0]: row[1:] for row in rows[2:]}
    assert set(shown) == {"bunca", "vertices (control)", "vectors as given"}
    assert shown["bunca"][1] == "candidate"
    values, gaps = unseen_tables.compare_with(part[0], "bunca")
    gap = gaps["vertices"]
    assert gap.value == pytest.approx(values["vertices"].value - values["bunca"].value)
    assert f"{gap.value:+.2f} [{gap.low:+.2f}, {gap.high:+.2f}]" in shown["vertices (control)"][1]


def test_a_part_that_is_still_under_way_has_no_table(part):
    found = json.loads(unseen.RESULTS.read_text())
    assert {"unseen omniglot", "unseen cub"} <= unseen_tables.unseen_tables(found).keys()
    assert unseen_tables.unseen_tables({"candidate": "bunca", "parts": {"cub": part[0]}}) == {}


def test_parts_without_a_file_are_left_out(tmp_path):
    options = argparse.Namespace(out=tmp_path, omniglot=None, cub=Path("cub.npz"), pathmnist=None)
    assert set(unseen.sources(options)) == {"parity", "cub"}


def test_few_shot_figures_have_half_intervals_over_seeds_and_single_runs_none():
    found = {
        "tasks": [[5, 1], [20, 5]],
        "rows": {
            "bunca, 400 steps": [[90.0, 80.0], [92.0, 80.0], [94.0, 80.0]],
            "raw pixels": [[50.0, 40.0]],
        },
        "published": {"elsewhere": [98.8, 98.9]},
    }
    head, _, *rows = unseen_tables.few_shot_table(found).splitlines()
    assert head == "| embedding | 5-way 1-shot | 20-way 5-shot |"
    assert rows == [  # 4.303 is Student's t of two degrees of freedom, 2 the standard deviation
        f"| bunca, 400 steps | 92.0±{4.302653 * 2 / 3**0.5:.1f} | 80.0±0.0 |",
        "| raw pixels | 50.0 | 40.0 |",
        "| elsewhere | 98.8 | 98.9 |",
    ]


def test_the_best_baseline_is_neither_ours_nor_a_control():
    values = {"bunca": 90, "but": 80, "vertices": 70, "dws": 50, "nca": 60}
    part = {"methods": {name: {"seeds": {"1": {"recall@1": value}}} for name, value in values.items()}}
    assert few_shot.best_baseline(part) == "nca"


def test_few_shot_accuracies_of_a_run_are_those_of_its_test_items(tmp_path):
    data = absolute_data(f"vectors:{unseen.split_birds(write_birds(tmp_path / 'birds.npz', 7), tmp_path)}")
    base = searching.base_of(data, 4, **unseen.OPTIONS["cub"] | {"dim": 8})
    lines = searching.Lines(Console(file=io.StringIO(), width=120))
    (found,) = few_shot.measure(base, "bunca", (50,), {}, tmp_path / "out", lines)
    (run,) = (tmp_path / "out" / "runs").iterdir()
    tasks = bt.Run(run).evaluate(few_shot=True).few_shot.tasks
    assert found == [round(100 * task.rows["bunca"].value, 2) for task in tasks]
