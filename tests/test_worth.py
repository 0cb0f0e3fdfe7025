"""The table and the picture of what class distributions are worth."""

import sys
from pathlib import Path

import numpy as np
import pytest

from bayestriplet.methods import COMPARED, METHODS

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

import worth

SIZES = np.full(40, 20)


def seeds_of(recalls):
    return {str(n): {"recall@1": value, "seconds": 1.0} for n, value in enumerate(recalls)}


def trained(values):
    measures = ("recall@4", "recall@8", "recall@16")
    methods = {
        method: {
            "chosen": {},
            "seeds": {
                seed: scores | dict.fromkeys(measures, 99.0) for seed, scores in seeds_of(recalls).items()
            },
        }
        for method, recalls in values.items()
    }
    return {"methods": methods}


def unseen(rates):
    """Return a part whose methods find items of every class at a rate, with seeds 0 and 1."""
    rng = np.random.default_rng(0)
    hits = {m: [" ".join(map(str, rng.binomial(SIZES, rate))) for _ in range(2)] for m, rate in rates.items()}
    return {
        "class sizes": " ".join(map(str, SIZES)),
        "methods": {
            m: {"seeds": {str(n): {"hits": text} for n, text in enumerate(h)}} for m, h in hits.items()
        },
    }


@pytest.fixture
def settings():
    recalls = {"bunca": (90.0, 92.0, 94.0), "but": (80.0, 82.0, 81.0), "nca": (89.0, 93.0, 93.5)}
    recalls |= {"vertices": (89.0, 91.0, 93.0), "means": (70.0, 75.0, 71.0), "no-noise": (92.0, 91.0, 94.0)}
    rates = dict.fromkeys(METHODS, 0.3) | {"bunca": 0.6, "dws": 0.5, "means": 0.1}
    quality = {
        "main": {"mnist": trained(recalls), "pathmnist": trained({"bunca": (1.0, 2.0)})},
        "regimes": {},
    }
    quality["regimes"]["10 items per class"] = trained(recalls | {"bunca": (95.0, 95.0, 95.1)})
    part = unseen(rates)
    under_way = {"methods": {name: entry for name, entry in part["methods"].items() if name != "bh"}}
    return worth.settings_of(quality, {}, {"parts": {"omniglot": part, "cub": part | under_way}}), part


def test_settings_without_controls_or_under_way_are_left_out(settings):
    names = [one.name for one in settings[0]]
    assert names == ["Omniglot, unseen characters", "MNIST, trained digits", "MNIST, 10 items per class"]


def test_leads_among_trained_classes_are_paired_by_seed(settings):
    one = settings[0][1]
    assert (one.first, one.tied) == ("bunca", ("nca",))
    assert one.leads["vertices"] == worth.Interval(1.0, 1.0, 1.0)
    gaps = np.array([1.0, -1.0, 0.5])  # to nca, the best that is neither ours nor a control
    half = 4.302652729911275 * gaps.std(ddof=1) / np.sqrt(3)
    lead = one.leads[worth.BASELINE]
    np.testing.assert_allclose([lead.value, lead.high - lead.value], [gaps.mean(), half])
    assert one.leads["vertices"].is_clear
    assert not lead.is_clear


def test_leads_among_unseen_classes_are_those_of_the_hits(settings):
    (one, *_), part = settings
    items = 2 * SIZES.sum()

    def recall(method):
        seeds = part["methods"][method]["seeds"].values()
        return 100 * sum(int(n) for seed in seeds for n in seed["hits"].split()) / items

    assert one.first == "bunca"
    for key, method in {"means": "means", worth.BASELINE: "dws"}.items():
        lead = one.leads[key]
        assert lead.value == pytest.approx(recall("bunca") - recall(method))
        assert lead.low < lead.value < lead.high
        assert lead.is_clear


def test_controls_are_never_first_or_tied(settings):
    for one in settings[0]:
        assert {one.first, *one.tied} <= set(COMPARED)


def test_the_table_has_a_row_per_setting_and_bold_leads_that_are_clear(settings):
    _, _, *rows = worth.worth_table(settings[0]).splitlines()
    assert len(rows) == 3
    assert rows[1].startswith("| MNIST, trained digits | bunca | nca | **+1.00 [+1.00, +1.00]** |")
    assert "| -0.33 [" in rows[1]  # less the rule without noise: tied, so not bold


def test_the_figure_names_every_setting_and_what_is_taken_off(settings):
    figure = worth.worth_figure(settings[0])
    figure.draw_without_rendering()
    (axes,) = figure.axes
    shown = [text.get_text() for text in axes.get_yticklabels()]
    assert shown == [one.name for one in reversed(settings[0])]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "less vertices only", "less class means only", "less BUNCA without noise", "less best baseline",
    ]  # fmt: skip
