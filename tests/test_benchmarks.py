"""What the benchmarks compute besides measuring."""

import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from scipy.stats import ttest_1samp

from bayestriplet.config import make_config
from bayestriplet.data.batches import KINDS
from bayestriplet.evaluation.paired import Row
from bayestriplet.methods import METHODS
from bayestriplet.training.trials import Trial, run_trials
from bayestriplet.training.tuning import LEAST_RUNS

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

import ablation
import long
import quality
import searching
import tables
from ablation_tables import CORRECTIONS, DISTRIBUTIONS, corrections_table, distributions_table, recipe_table


def row(method, values):
    return Row(method, {f"recall@{k}": tuple(values) for k in (1, 4, 8, 16)}, 1.0, {})


def test_holms_correction_is_that_of_a_worked_example():
    assert tables.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert tables.holm([0.9, 0.8]) == [1.0, 1.0]


def test_a_lead_is_paired_by_seed_between_the_best_of_both_sides():
    rows = [
        row("but", (90, 91, 92)),
        row("bunca", (95, 96, 98)),
        row("nca", (94, 95.5, 96)),
        row("ba", (1, 2, 3)),
    ]
    gap = tables.lead(rows)
    assert gap.value == pytest.approx(np.mean([1, 0.5, 2]))
    assert tables.p_value(rows) == pytest.approx(ttest_1samp([1, 0.5, 2], 0).pvalue)


def test_a_row_that_breaks_down_says_why_instead_of_a_change():
    rows = {"whole": [90.0, 92.0], "worse": [88.0, 90.5], "broken": [80.0, "the loss is not finite"]}
    _, _, *lines = recipe_table({"mnist": {"default BUT": rows}}).splitlines()
    assert [line.split(" | ")[-1].rstrip(" |") for line in lines] == [
        "91.00±12.71", "-1.75±3.18", "cannot be trained: the loss is not finite"
    ]  # fmt: skip


def test_what_distributions_are_worth_is_told_of_settings_with_few_rows_too():
    few = {row: [90.0 + i, 92.0 + i] for i, row in enumerate(DISTRIBUTIONS)}
    every = few | {"noise 1": [80.0, 82.0]}
    settings = {"mnist": dict.fromkeys(ablation.DEFAULT, every), "few": dict.fromkeys(ablation.DEFAULT, few)}
    _, _, *lines = distributions_table(settings).splitlines()
    assert [line.split(" | ")[1] for line in lines] == ["mnist", "few"] * 2
    assert lines[3].strip("| ").split(" | ") == [
        "default BUNCA", "few", "91.00±12.71", *(f"**+{i}.00±0.00**" for i in range(1, 5))
    ]  # fmt: skip
    assert recipe_table(settings).splitlines()[0].endswith("| mnist |")


def test_a_correction_is_worth_what_it_adds_to_what_is_printed():
    groups = {}
    for group, *rows in CORRECTIONS.values():
        groups.setdefault(group, {}).update({row: [80.0, 81.0] for row in rows})
    groups["paper's protocol"]["BUT as corrected"] = [84.0, 85.5]
    groups["paper's protocol"]["expectation fed back"] = ["a scatter is not finite"] * 2
    lines = {line.split(" | ")[0].strip("| "): line for line in corrections_table(groups).splitlines()}
    assert "| 80.50±6.35 | 84.75±9.53 | **+4.25±3.18** |" in lines["inverse: one too many in the covariance"]
    assert (
        "cannot be trained: a scatter is not finite" in lines["feedback: an expectation taken for a sample"]
    )


def comparison(rate, **recalls):
    measures = ("recall@1", "recall@4", "recall@8", "recall@16")
    return {
        "methods": {
            method: {
                "chosen": {"lr": rate},
                "seeds": {str(i): dict.fromkeys((*measures, "seconds"), v) for i, v in enumerate(values)},
            }
            for method, values in recalls.items()
        }
    }


def test_a_lower_rate_is_the_next_rung_of_the_ladder_and_the_lowest_stays():
    lower = quality.a_rung_lower({"nca": {"lr": 0.01, "temperature": 3.0}, "ba": {"lr": 0.0002}})
    assert lower == {"nca": {"lr": 0.005, "temperature": 3.0}, "ba": {"lr": 0.0002}}


def test_others_at_a_lower_rate_are_set_against_the_better_of_their_two_rates():
    regimes = {
        "few": comparison(0.01, bunca=(90, 92), nca=(80, 84)),
        "one": comparison(0.01, bunca=(90, 92), ba=(60, 61)),
    }
    slower = {"few": comparison(0.005, nca=(85, 86)), "one": comparison(0.005, ba=(50, 54))}
    table = tables.lower_rate_table(regimes, slower)
    head, _, few, one = (line.strip("| ").split(" | ") for line in table.splitlines())
    assert head[2:4] == ["nca, lr 0.005", "ba, lr 0.005"]
    assert few[3] == one[2] == "no positives"
    assert few[2:] == ["85.50±6.35", "no positives", "nca 85.50±6.35", "+5.50±6.35", "0.058"]
    assert one[3:] == ["52.00±25.41", "ba 60.50±6.35", "**+30.50±6.35**", "0.021"]


TITLES = {"main": "", "other way": "varied tiles", "regimes": "the regimes", "lower rate": "the regimes"}


def committed(name):
    return json.loads((tables.RESULTS / f"{name}.json").read_text())


def is_of_today(methods):
    drawn = (name for name in methods if METHODS[name].draws)
    return all(searching.is_of_today(methods[name], name) for name in drawn)


def tables_of_earlier_recipes():
    """Return what committed figures are of that were not measured with what methods draw with today."""
    quality_found = committed("quality")
    for kind, title in TITLES.items():
        for name, part in quality_found[kind].items():
            if not is_of_today(part["methods"]):
                yield title or {"mnist": "MNIST", "pathmnist": "PathMNIST"}[name]
    if not is_of_today(quality_found["curves"]["methods"]):
        yield "learning"
    if not is_of_today(committed("pretrained")["methods"]["methods"]):
        yield "photographs"
    if any(
        committed(name)["about"]["recipes"] != quality.RECIPES for name in ("ablation", "ablation-validation")
    ):
        yield "the ablations"
    if any(run["recipe"] != quality.RECIPES["BUNCA"] for run in committed("long").values()):
        yield "the long trainings"
    assert all(is_of_today(part["methods"]) for part in committed("unseen")["parts"].values())


def test_the_documents_say_which_tables_are_of_earlier_recipes():
    found = list(dict.fromkeys(tables_of_earlier_recipes()))
    text = (tables.RESULTS.parents[1] / "docs" / "experiments.md").read_text()
    said = f"{', '.join(found[:-1])} and {found[-1]}"
    assert f"The tables of {said} are of the recipes before that." in " ".join(text.split())
    assert "BUNCA's spread then stayed at 0.8 and its noise was 0.5" in " ".join(text.split())
    assert quality.EARLIER["BUNCA"].items() >= {"spread": 0.8, "noise": 0.5}.items()


def test_the_committed_comparison_is_of_the_present_batches():
    found = json.loads(quality.RESULTS.read_text())
    for kind, settings in (("main", quality.MAIN), ("other way", quality.OTHER_WAY)):
        assert list(found[kind]) == list(settings)
        for name, entry in found[kind].items():
            assert entry["settings"].items() >= settings[name].items()
            assert ("augment" in entry["settings"]) == ("augment" in settings[name])
    assert found["curves"]["settings"].items() >= quality.MAIN["pathmnist"].items()


@pytest.mark.parametrize(("data", "classes"), [("mnist", 10), ("pathmnist", 9)])
def test_a_batch_of_a_main_setting_holds_five_items_of_every_class(data, classes):
    labels = np.arange(60 * classes) % classes
    config = searching.base_of(data, 3, **quality.MAIN[data]).resolved(classes)
    batches = KINDS["balanced"](labels, config.batch_size, 3, seed=0)
    assert [np.bincount(labels[rows]).tolist() for rows in batches] == [[5] * classes] * 3


@pytest.mark.parametrize(
    ("kind", "data"), [("main", "mnist"), ("main", "pathmnist"), ("other way", "pathmnist")]
)
def test_options_were_chosen_by_validation_alone_and_for_all_methods(data, kind):
    main = json.loads(quality.RESULTS.read_text())[kind][data]
    assert set(main["searched"]) == set(main["methods"]) >= set(searching.METHODS)
    for method, tried in main["searched"].items():
        options = [{k: v for k, v in run.items() if k != "validation"} for run in tried]
        assert len(options) == len({json.dumps(o, sort_keys=True) for o in options})
        assert len(options) >= (LEAST_RUNS // 2 if METHODS[method].on_sphere else LEAST_RUNS)
        best = max(run["validation"] for run in tried if run["validation"] is not None)
        assert main["methods"][method]["chosen"] | {"validation": best} in tried, method
        if METHODS[method].learned:
            assert {run["loss_rate"] for run in tried} >= {0.1, 1.0, 10.0}


@pytest.mark.parametrize("data", list(quality.OTHER_WAY))
def test_images_are_varied_where_the_best_method_finds_more_validation_items_by_it(data):
    found = json.loads(quality.RESULTS.read_text())
    best = {
        kind: max(run["validation"] or 0 for tried in found[kind][data]["searched"].values() for run in tried)
        for kind in ("main", "other way")
    }
    assert best["main"] > best["other way"]


def test_every_regime_is_also_ablated_by_what_distributions_are_worth():
    assert {name for name in ablation.SETTINGS if name not in quality.MAIN} == set(quality.REGIMES)
    for name, setting in ablation.SETTINGS.items():
        for group in ablation.DEFAULT:
            assert set(setting.rows(group)) >= set(DISTRIBUTIONS), (name, group)


def test_the_committed_long_trainings_are_of_a_known_recipe():
    found = json.loads(long.RESULTS.read_text())
    assert list(found) == list(long.RUNS)
    for name, run in found.items():
        asked, shown = long.RUNS[name], run["options"] | {"max_steps": run["steps"]}
        assert run["recipe"] in (quality.RECIPES["BUNCA"], quality.EARLIER["BUNCA"])
        assert {option: shown[option] for option in asked if option in shown} == {
            option: value for option, value in asked.items() if option in shown
        }


@pytest.mark.parametrize(("file", "split"), [("ablation.json", "test"), ("ablation-validation.json", "val")])
def test_the_committed_ablations_are_of_known_recipes_and_the_present_rows(file, split):
    found = json.loads((tables.RESULTS / file).read_text())
    recipes = found["about"]["recipes"]
    assert recipes in (quality.RECIPES, quality.EARLIER)
    assert found["about"] == {"steps": ablation.STEPS, "split": split, "recipes": recipes}
    settings = list(ablation.SETTINGS) if split == "test" else ["pathmnist", "10 items per class"]
    assert list(found["settings"]) == settings
    for name, groups in found["settings"].items():
        assert tuple(groups) == ablation.SETTINGS[name].groups
        assert all(list(rows) == ablation.SETTINGS[name].rows(group) for group, rows in groups.items())
        assert all(len(values) == 5 for rows in groups.values() for values in rows.values())


def test_an_ablation_keeps_its_runs_apart_and_adds_whole_settings_to_the_results(tmp_path):
    about = {"steps": 300, "split": "test", "recipes": quality.RECIPES}
    path = tmp_path / "ablation.json"

    def measured(setting, value):
        groups = ablation.SETTINGS[setting].groups
        rows = {group: {row: [value] for row in reversed(ablation.ROWS[group])} for group in groups}
        return {"about": about, "settings": {setting: rows}}

    ablation.publish(measured("pathmnist", 1.0), path)
    ablation.publish(measured("mnist", 2.0), path)
    found = json.loads(path.read_text())
    assert list(found["settings"]) == ["mnist", "pathmnist"]
    assert list(found["settings"]["pathmnist"]["default BUT"]) == list(ablation.ROWS["default BUT"])
    begun = measured("10 items per class", 4.0)
    begun["settings"]["10 items per class"]["default BUT"]["spread 0"].clear()
    ablation.publish(begun, path)  # a setting that is not whole yet is left out
    assert list(json.loads(path.read_text())["settings"]) == ["mnist", "pathmnist"]
    other = measured("mnist", 3.0) | {"about": about | {"steps": 5}}
    ablation.publish(other, path)  # figures of another kind are not mixed with these
    assert list(json.loads(path.read_text())["settings"]) == ["mnist"]


def test_a_training_that_breaks_down_is_a_line_not_an_error(tmp_path):
    """A search for options meets such runs: off the sphere, or with too high a rate."""
    said = io.StringIO()
    config = make_config(
        {"data": "digits", "method": "proxy-nca", "normalize": False, "lr": 1e30, "max_steps": 4,
         "backbone": "tests.training.networks:small", "dim": 8}, "test"
    )  # fmt: skip
    run_trials([Trial(config)], tmp_path, 1, searching.Lines(Console(file=said, width=120)))
    assert said.getvalue().rstrip().endswith("broke down")


def test_the_benchmark_of_scale_runs_and_prints_its_tables():
    file = Path(__file__).parent.parent / "benchmarks" / "scale.py"
    done = subprocess.run([sys.executable, file, "--quick"], capture_output=True, text=True, check=True)
    for part in ("random batches", "64 fixed classes", "peak memory", "b512_k100"):
        assert part in done.stdout
