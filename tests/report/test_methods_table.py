from bayestriplet.report.methods_table import (
    cells,
    describe,
    describe_regime,
    floor_cells,
    to_csv,
    to_markdown,
)
from tests.evaluation.test_paired import row


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
    assert describe_regime(plain | {"per_class": 10}) == "mnist, 10 items per class"
    assert (
        describe_regime(plain | {"imbalance": 50.0, "label_noise": 0.2})
        == "mnist, imbalance 1:50, 20% wrong labels"
    )
    named = describe_regime({"data": "pathmnist:/data/path.npz", "batches": "random", "batch_size": 10})
    assert named == "path, random batches, batch 10"


def test_controls_stand_among_the_methods_without_a_number_and_are_set_against_the_best_of_these():
    table = cells([row("ba", 90.0, 91.0), row("vertices", 97.0, 98.5), row("but", 95.0, 96.0)], "mnist")
    assert [line[:2] for line in table[1:]] == [["", "vertices (control)"], ["1", "but"], ["2", "ba"]]
    assert [line[3].split("±")[0] for line in table[1:]] == ["+2.25", "-", "-5.00"]
