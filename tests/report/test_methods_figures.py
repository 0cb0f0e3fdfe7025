import numpy as np
import pytest
from matplotlib.collections import FillBetweenPolyCollection
from PIL import Image

from bayestriplet.evaluation.paired import Row
from bayestriplet.report.figure import save_figure
from bayestriplet.report.methods_figures import learning_figure, recall_figure, regimes_figure
from bayestriplet.report.style import METHOD_COLOURS
from tests.report.drawings import LONG_DATA, long_names_of, overlapping_texts, texts_inside, words_of

FLOORS = {"raw pixels": {"recall@1": 89.0}, "untrained": {"recall@1": 89.2}}


def rows(seed=0, seeds=3):
    rng = np.random.default_rng(seed)
    recalls = {f"recall@{k}": None for k in (1, 4, 8, 16)}
    return [
        Row(
            method, {key: tuple(rng.normal(90 + 0.5 * i, 0.5, seeds)) for key in recalls}, 10.0, {"lr": 0.001}
        )
        for i, method in enumerate(METHOD_COLOURS)
    ]


def summary(seeds=2, data="mnist"):
    rng = np.random.default_rng(1)
    learning = [
        [(step, step / 20 + i, 80 + step / 60 + rng.normal()) for step in (200, 400, 600)]
        for i in range(len(METHOD_COLOURS))
    ]
    methods = {
        method: {"seeds": {str(s): {"learning": learning[i]} for s in range(seeds)}}
        for i, method in enumerate(METHOD_COLOURS)
    }
    return {"data": data, "methods": methods}


@pytest.mark.parametrize(
    "draw",
    [
        lambda: recall_figure(rows(), {"raw pixels": FLOORS["raw pixels"]}, "mnist"),
        lambda: recall_figure(rows(seeds=1)[:1], {}, "mnist"),
        lambda: learning_figure(summary()),
        lambda: regimes_figure({f"regime {i}": rows(i) for i in range(5)}),
    ],
    ids=["recall", "one seed", "learning", "regimes"],
)
def test_comparisons_are_drawn_as_wide_pictures_that_are_not_blank(draw, tmp_path):
    save_figure(draw(), tmp_path / "figure.png")
    pixels = np.asarray(Image.open(tmp_path / "figure.png").convert("L"))
    assert pixels.shape[1] == 1200
    assert 0.005 < (pixels < 200).mean() < 0.5
    edge = np.concatenate([pixels[:, :4].ravel(), pixels[:, -4:].ravel(), pixels[-3:].ravel()])
    assert (edge > 250).all()  # nothing is cut off


@pytest.mark.parametrize("seeds", [1, 3])
def test_texts_stay_inside_and_apart_for_long_names(seeds):
    regimes = {name: rows(i, seeds) for i, name in enumerate(long_names_of(9))}
    for figure in (
        recall_figure(rows(seeds=seeds), FLOORS, LONG_DATA),
        learning_figure(summary(seeds, LONG_DATA)),
        learning_figure(summary(seeds, LONG_DATA), seconds=False),
        regimes_figure(regimes),
    ):
        assert texts_inside(figure)
        assert not overlapping_texts(figure)


def promises_intervals(figure):
    return any("95% interval" in word for word in words_of(figure))


@pytest.mark.parametrize("seeds", [1, 2])
def test_intervals_are_promised_only_where_they_are_drawn(seeds):
    several = seeds > 1
    recall = recall_figure(rows(seeds=seeds), {}, "mnist")
    bars = [line for line in recall.axes[0].lines if len(line.get_xdata()) == 2 and line.get_lw() > 2]
    assert promises_intervals(recall) == bool(bars) == several
    learning = learning_figure(summary(seeds))
    bands = [one for one in learning.axes[0].collections if isinstance(one, FillBetweenPolyCollection)]
    assert promises_intervals(learning) == bool(bands) == several
    regimes = regimes_figure({"a": rows(1, seeds), "b": rows(2, seeds)})
    assert promises_intervals(regimes) == bool(regimes.axes[0].collections) == several
    for figure in (recall, learning, regimes):
        assert any("One seed, so no intervals." in word for word in words_of(figure)) != several
        assert any("rings" in word.lower() for word in words_of(figure)) == (several and figure is recall)


def hollow(figure):
    lines = figure.axes[0].lines
    return [line for line in lines if line.get_markerfacecolor() == "white" and len(line.get_xdata())]


def test_methods_tied_with_the_best_are_hollow_and_those_of_one_seed_are_not_called_tied():
    figure = regimes_figure({"a": rows(1, 3)})
    assert hollow(figure)
    assert any("statistically tied with the best" in word for word in words_of(figure))
    one = regimes_figure({"a": rows(1, 1)})
    assert not hollow(one)
    assert not any("tied" in word for word in words_of(one))
    mixed = regimes_figure({"a": rows(1, 1), "b": rows(2, 3)})
    assert any("Without bars: one seed." in word for word in words_of(mixed))


def test_the_figure_of_recalls_names_queries_and_gallery():
    rows = [Row("but", {"recall@1": (90.0, 91.0)}, 1.0, {})]
    shown = " ".join(text.get_text() for text in recall_figure(rows, {}, "mnist").texts)
    assert "Queries: the test items; gallery: the other test items." in " ".join(shown.split())


def test_what_is_dashed_is_explained_only_where_a_floor_is_drawn():
    near, far = (
        recall_figure(rows(), FLOORS, "mnist"),
        recall_figure(rows(), {"untrained": {"recall@1": 10}}, "m"),
    )
    assert any("Dashed: without training." in word for word in words_of(near))
    assert not any("Dashed" in word or "untrained" in word for word in words_of(far))


@pytest.mark.usefixtures("bare_fonts")
def test_regimes_and_data_sets_without_glyphs_have_other_words():
    words = words_of(regimes_figure({"病理": rows(1), "mnist": rows(2)}))
    assert "regime 1" in words
    assert any("1 name cannot be drawn with the fonts" in word for word in words)
    assert any("test items of the data set" in word for word in words_of(recall_figure(rows(), {}, "病理")))


def test_every_method_has_its_own_colour():
    assert len(set(METHOD_COLOURS.values())) == len(METHOD_COLOURS) == 12
