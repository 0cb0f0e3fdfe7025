import math

import numpy as np
import pytest
from scipy import stats

from bayestriplet.errors import InputError
from bayestriplet.evaluation.paired import (
    Row,
    cells,
    describe,
    describe_regime,
    difference,
    floor_cells,
    half_width,
    rank,
    read_comparison,
    to_csv,
    to_markdown,
)


def row(method, *values):
    return Row(method, {f"recall@{k}": values for k in (1, 4, 8, 16)}, 12.0, "lr 0.001")


def test_the_interval_is_students():
    values = np.array([90.0, 92.0, 91.0, 95.0])
    low, high = stats.t.interval(0.95, 3, values.mean(), stats.sem(values))
    assert half_width(values) == pytest.approx((high - low) / 2)
    assert math.isnan(half_width(values[:1]))


def test_the_difference_to_the_best_is_paired_by_seed():
    best, other = row("but", 95.0, 97.0, 99.0), row("ba", 94.0, 96.1, 97.9)
    gap = difference(other, best)
    low, high = stats.ttest_rel(other.values["recall@1"], best.values["recall@1"]).confidence_interval(0.95)
    assert gap.value == pytest.approx(-1.0)
    assert gap.half_width == pytest.approx((high - low) / 2)
    assert gap.is_clear
    assert not difference(row("ba", 90.0, 99.0, 99.0), best).is_clear


def test_the_table_is_ranked_and_has_the_papers_figures_and_the_floors():
    table = cells([row("ba", 90.0, 91.0), row("but", 95.0, 96.0)], "mnist")
    assert [line[1] for line in table] == ["method", "but", "ba"]
    assert [line[-1] for line in table] == ["paper", "88.0", "79.3"]
    assert table[1][3] == "-"
    assert table[2][3].startswith("-5.00")
    assert cells([row("but", 80.0)], "pathmnist")[1][-1] == "79.1"
    assert cells([row("but", 80.0)], "flowers")[1][-1] == "-"
    assert cells([row("but", 80.0)], "flowers")[1][2] == "80.00"
    floors = floor_cells({"raw pixels": {f"recall@{k}": 50.0 for k in (1, 4, 8, 16)}})
    assert len(floors[0]) == len(table[0])
    assert to_markdown([*table, *floors]).count("\n") == 5
    assert to_csv(table).splitlines()[1].startswith("1,but,")


def test_chosen_options_are_told_in_words():
    assert describe({"lr": 0.005, "temperature": 0.1}) == "lr 0.005, temperature 0.1"
    chosen = {"lr": 0.001, "margin": 0.0, "normalize": False}
    assert describe(chosen) == "lr 0.001, soft margin, not normalised"


def test_a_regime_is_named_by_what_makes_it_special():
    plain = {"data": "mnist", "batches": "balanced"}
    assert describe_regime(plain) == "mnist"
    assert describe_regime(plain | {"per_class": 10}) == "mnist, 10 items a class"
    assert (
        describe_regime(plain | {"imbalance": 50.0, "label_noise": 0.2})
        == "mnist, imbalance 1:50, 20% wrong labels"
    )
    named = describe_regime({"data": "pathmnist:/data/path.npz", "batches": "random", "batch_size": 10})
    assert named == "path, random batches, batch 10"


def test_a_folder_without_a_comparison_or_with_a_broken_one_is_one_line(tmp_path):
    with pytest.raises(InputError, match=r"holds no finished comparison: it has no comparison.json"):
        read_comparison(tmp_path)
    (tmp_path / "comparison.json").write_text('{"methods": 3}')
    with pytest.raises(InputError, match="is not a comparison"):
        read_comparison(tmp_path)


def test_ranks_follow_the_mean_over_seeds():
    rows = [row("a", 1.0, 9.0), row("b", 6.0, 6.0), row("c", 2.0, 2.0)]
    assert [r.method for r in rank(rows)] == ["b", "a", "c"]
