import numpy as np
import pytest
from PIL import Image

from bayestriplet.evaluation.paired import Row
from bayestriplet.report.methods_figures import learning_figure, recall_figure, regimes_figure
from bayestriplet.report.style import METHOD_COLOURS, save_figure


def rows(seed=0, seeds=3):
    rng = np.random.default_rng(seed)
    recalls = {f"recall@{k}": None for k in (1, 4, 8, 16)}
    return [
        Row(method, {key: tuple(rng.normal(90 + 0.5 * i, 0.5, seeds)) for key in recalls}, 10.0, "lr 0.001")
        for i, method in enumerate(METHOD_COLOURS)
    ]


def summary():
    rng = np.random.default_rng(1)
    learning = [
        [(step, step / 20 + i, 80 + step / 60 + rng.normal()) for step in (200, 400, 600)] for i in range(9)
    ]
    methods = {
        method: {"seeds": {str(s): {"learning": learning[i]} for s in range(2)}}
        for i, method in enumerate(METHOD_COLOURS)
    }
    return {"data": "mnist", "methods": methods}


@pytest.mark.parametrize(
    "draw",
    [
        lambda: recall_figure(
            rows(), {"raw pixels": {"recall@1": 89.0}, "untrained": {"recall@1": 10.0}}, "mnist"
        ),
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


def test_every_method_has_its_own_colour():
    assert len(set(METHOD_COLOURS.values())) == len(METHOD_COLOURS) == 9
