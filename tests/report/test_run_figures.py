import csv
import math
import shutil
import warnings

import numpy as np
import pytest
import torch
from matplotlib.text import Text
from PIL import Image
from rich.console import Console
from scipy.stats import binomtest, multivariate_normal

from bayestriplet.config import make_config
from bayestriplet.errors import InputError, MissingDependencyError
from bayestriplet.evaluation import figure_style, figures
from bayestriplet.evaluation.calibration import reliability
from bayestriplet.posterior.posterior import ClassPosterior
from bayestriplet.report.classes_figure import (
    bhattacharyya,
    classes_figure,
    confusion,
    posterior_distances,
    read_posterior,
)
from bayestriplet.report.curves_figure import Curves, curves_figure, read_curves, smooth
from bayestriplet.report.reliability_figure import (
    reliability_figure,
    selective_accuracy,
    wilson_interval,
)
from bayestriplet.report.retrieval_figure import Retrieval, choose_queries, retrieval_figure
from bayestriplet.report.run_figures import draw_run_figures
from bayestriplet.report.style import (
    METHOD_COLOURS,
    SMALL,
    class_styles,
    new_figure,
    readable,
    save_figure,
)
from bayestriplet.report.umap_figure import project, sample_evenly, umap_figure
from bayestriplet.runs.folder import RunFolder
from bayestriplet.training.run import TrainingRun

BACKBONE = "tests.training.networks:small"
AWKWARD = ["adenocarcinoma, well differentiated", "$5 and $6", "_hidden", "two\nlines", "0", "Ünïcode ß"]


def names_of(number):
    return [f"{AWKWARD[k % 6]} {k // 6}" for k in range(number)]


def assert_is_good(figure, path):
    """The PNG is 8 inches wide, its margin is white, nothing is cut off, no text is small."""
    save_figure(figure, path)
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    with Image.open(path) as image:
        assert image.format == "PNG"
        assert image.size == (1200, round(figure.get_figheight() * 150))
        pixels = np.asarray(image.convert("RGB"))
    assert len(np.unique(pixels[..., 0])) > 10
    for edge in (pixels[:3], pixels[-3:], pixels[:, :3], pixels[:, -3:]):
        assert (edge == 255).all()
    box = figure.get_tightbbox()  # of everything that is drawn, in inches
    assert min(box.x0, box.y0) >= 0
    assert box.x1 <= figure.get_figwidth()
    assert box.y1 <= figure.get_figheight()
    assert min(text.get_size() for text in figure.findobj(Text) if text.get_text()) >= SMALL


def words_of(figure):
    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


# The map


@pytest.mark.parametrize("number", [20, 30])
def test_a_map_names_every_class_and_cuts_nothing_off(number, tmp_path):
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(number), 12)
    positions = (10 * rng.normal(size=(number, 2))[labels] + rng.normal(size=(len(labels), 2))).astype("f")
    figure = umap_figure(positions, labels, names_of(number), "UMAP of made items", "How to read it.")
    assert_is_good(figure, tmp_path / "umap.png")
    (axes,) = figure.axes
    assert len(axes.texts) == number
    assert (axes.get_legend() is not None) == (number <= 20)


def test_names_at_the_same_place_are_moved_apart():
    labels = np.arange(6).repeat(2)
    positions = np.concatenate([np.zeros((6, 2)), np.full((6, 2), 1e-3)]).astype("f")
    figure = umap_figure(positions, labels, names_of(6), "t", "s")
    figure.draw_without_rendering()
    boxes = [Text.get_window_extent(text).padded(-2) for text in figure.axes[0].texts]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_absent_classes_have_no_name_in_the_map():
    figure = umap_figure(np.eye(4, 2, dtype="f"), np.array([0, 0, 2, 2]), ["a", "b", "c"], "t", "s")
    assert [text.get_text() for text in figure.axes[0].texts] == ["a", "c"]


def test_the_map_sample_is_seeded_and_keeps_the_shares_of_the_classes():
    labels = np.random.default_rng(0).choice(3, 9000, p=[0.5, 0.4, 0.1])
    chosen = sample_evenly(labels, 500, seed=1)
    assert len(set(chosen.tolist())) == 500
    assert (np.diff(chosen) > 0).all()
    np.testing.assert_allclose(np.bincount(labels[chosen]), np.bincount(labels) / 18, atol=1)
    np.testing.assert_array_equal(chosen, sample_evenly(labels, 500, seed=1))
    assert not np.array_equal(chosen, sample_evenly(labels, 500, seed=2))
    np.testing.assert_array_equal(sample_evenly(labels, 9000, 0), np.arange(9000))


def test_umap_is_the_same_for_a_seed_keeps_clusters_apart_and_takes_three_items():
    labels = np.repeat([0, 1], 40)
    items = (8 * np.eye(2, 5)[labels] + np.random.default_rng(0).normal(size=(80, 5))).astype("f")
    places = project(items, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(places, project(items, 0))
    centers = np.stack([places[labels == k].mean(0) for k in (0, 1)])
    nearest = np.linalg.norm(places[:, None] - centers, axis=2).argmin(1)
    assert (nearest == labels).mean() > 0.95
    assert np.isfinite(project(items[:3], 0)).all()
    with pytest.raises(InputError, match="a map needs at least 3 items; got 2"):
        project(items[:2], 0)


# Retrieval


def test_queries_are_seeded_one_a_class_and_two_are_misses():
    labels = np.arange(200) % 12
    nearest = (np.arange(200) + 12) % 192
    nearest[192:] = labels[192:]
    nearest[[5, 40, 77]] = [6, 41, 78]
    chosen = choose_queries(labels, nearest, seed=3)
    assert len(chosen) == len(set(labels[chosen])) == 8
    assert (labels[nearest[chosen]] != labels[chosen]).sum() == 2
    np.testing.assert_array_equal(chosen, choose_queries(labels, nearest, seed=3))
    assert not np.array_equal(chosen, choose_queries(labels, nearest, seed=4))
    assert len(choose_queries(np.array([0, 0, 1, 1]), np.array([1, 0, 3, 2]), 0)) == 2


@pytest.mark.parametrize(("channels", "side", "near"), [(1, 8, 10), (3, 64, 2)])
def test_retrievals_are_drawn_with_wrong_ones_named_and_pixels_kept(channels, side, near, tmp_path):
    rng = np.random.default_rng(0)
    rows = []
    for k, name in enumerate(names_of(3)):
        pixels = rng.integers(0, 256, (near + 1, side, side, channels), dtype=np.uint8)
        others = [name if i != k % near else "wrong" for i in range(near)]
        rows.append(Retrieval(pixels[0], name, pixels[1:], others))
    figure = retrieval_figure(rows, "Nearest neighbours", "How to read it.")
    assert_is_good(figure, tmp_path / "retrieval.png")
    assert words_of(figure).count("wrong") == 3
    pictures = [axes.images[0] for axes in figure.axes]
    assert len(pictures) == 3 * (near + 1)
    assert {p.get_interpolation() for p in pictures} == {"nearest" if side < 64 else "antialiased"}
    assert pictures[0].get_array().ndim == (2 if channels == 1 else 3)
    widths = [axes.spines["left"].get_linewidth() for axes in figure.axes]
    assert widths.count(3.0) == 3


# Curves


def write_metrics(path, rows):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["step", "epoch", "loss", "active", "lr", "recall@1", "seconds"])
        writer.writerows(rows)
    return path


def test_curves_are_read_and_the_first_best_step_is_marked(tmp_path):
    rows = [[20 * k, 0, 1 / k, 0.5, 0.1, 0.9 if k in (30, 60) else 0.5 if k == 90 else "", 1]
            for k in range(1, 101)]  # fmt: skip
    curves = read_curves(write_metrics(tmp_path / "metrics.csv", rows))
    assert curves.step[curves.best] == 600
    figure = curves_figure(curves, "Training", METHOD_COLOURS["but"])
    assert len(figure.axes) == 3
    assert "best: 90.0 at step 600" in words_of(figure)
    (tmp_path / "metrics.csv").unlink()
    assert_is_good(figure, tmp_path / "curves.png")


def test_without_active_triplets_or_validation_their_panels_are_left_away(tmp_path):
    rows = [[20, 0, 1.0, "", 0.1, "nan", 1]]
    curves = read_curves(write_metrics(tmp_path / "metrics.csv", rows))
    assert curves.best is None
    (tmp_path / "metrics.csv").unlink()
    figure = curves_figure(curves, "Training", "#000000")
    assert len(figure.axes) == 1
    assert_is_good(figure, tmp_path / "curves.png")


@pytest.mark.parametrize("width", [1, 2, 5, 12])
def test_smoothing_is_a_centred_mean(width):
    values = np.random.default_rng(0).normal(size=20)
    values[3] = math.nan
    padded = np.full(20 + 2 * width, math.nan)
    padded[width : 20 + width] = values
    first = width - width // 2
    expected = [
        np.nanmean(padded[i + first : i + first + width]) if width > 1 else values[i] for i in range(20)
    ]
    np.testing.assert_allclose(smooth(values, width), expected)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("step,loss\n", r"metrics.csv holds no steps: go on with `bayestriplet train --resume"),
        ("step,loss\n1,x\n", r"metrics.csv is not a log of a run: it needs numbers in columns step and loss"),
        ("a,b\n1,2\n", r"metrics.csv is not a log of a run"),
        ("step,loss\n,1\n", r"metrics.csv is not a log of a run"),
        ("step,loss\n1\n", r"metrics.csv holds no steps"),
        ("step,loss\n1,\udcff\n", r"metrics.csv is not a log of a run"),
    ],
)
def test_a_broken_metrics_file_is_named(text, message, tmp_path):
    (tmp_path / "metrics.csv").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(InputError, match=message):
        read_curves(tmp_path / "metrics.csv")


# Classes


def normals(number, dim, seed=0):
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(number, dim, dim + 2))
    return rng.normal(size=(number, dim)), roots @ roots.transpose(0, 2, 1) / dim


@pytest.mark.parametrize(("number", "dim"), [(1, 1), (2, 1), (4, 3), (3, 16)])
def test_the_distance_is_bhattacharyyas_formula_by_a_slow_loop(number, dim):
    mean, covariance = normals(number, dim)
    found = bhattacharyya(torch.from_numpy(mean), torch.from_numpy(covariance)).numpy()
    for a in range(number):
        for b in range(number):
            middle, shift = (covariance[a] + covariance[b]) / 2, mean[a] - mean[b]
            volumes = [np.linalg.slogdet(m)[1] for m in (middle, covariance[a], covariance[b])]
            expected = shift @ np.linalg.inv(middle) @ shift / 8 + (volumes[0] - sum(volumes[1:]) / 2) / 2
            np.testing.assert_allclose(found[a, b], expected, atol=1e-10)


def test_the_distance_is_minus_the_log_of_the_integrated_overlap():
    mean, covariance = normals(2, 2, seed=1)
    grid = np.stack(np.meshgrid(*[np.linspace(-25, 25, 501)] * 2), -1)
    densities = [multivariate_normal(m, c).pdf(grid) for m, c in zip(mean, covariance, strict=True)]
    overlap = np.sqrt(densities[0] * densities[1]).sum() * 0.1**2
    found = bhattacharyya(torch.from_numpy(mean), torch.from_numpy(covariance))
    np.testing.assert_allclose(found[0, 1], -np.log(overlap), rtol=1e-6)


def test_distances_of_posteriors_leave_out_classes_without_items():
    posterior = ClassPosterior(3, 2, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    items = torch.randn(20, 2, generator=generator, dtype=torch.float64)
    posterior.update(items, torch.arange(20) % 2 * 2)
    table = posterior_distances(posterior, 4)
    assert np.isnan(table[[1, 3]]).all()
    assert np.isnan(table[:, [1, 3]]).all()
    expected = bhattacharyya(posterior.mean[[0, 2]], posterior.covariance[[0, 2]])
    np.testing.assert_allclose(table[np.ix_([0, 2], [0, 2])], expected)


def test_confusion_is_in_percent_of_the_class_of_the_item():
    table = confusion(np.array([0, 0, 0, 0, 2]), np.array([0, 0, 0, 2, 0]), 3)
    np.testing.assert_array_equal(table, [[75, 0, 25], [math.nan] * 3, [100, 0, 0]])


@pytest.mark.parametrize("number", [12, 70])
def test_classes_are_drawn_with_numbers_while_they_are_legible(number, tmp_path):
    rng = np.random.default_rng(0)
    errors = confusion(rng.integers(0, number, 5000), rng.integers(0, number, 5000), number)
    distances = rng.gamma(2, 20, (number, number))
    errors[0], distances[0] = math.nan, math.nan
    figure = classes_figure(errors, distances, names_of(number), "Classes that are close")
    assert_is_good(figure, tmp_path / "classes.png")
    assert bool(figure.axes[0].texts) == (number <= 12)
    assert any("Bhattacharyya" in word for word in words_of(figure))


def test_a_perfect_confusion_and_coinciding_classes_can_be_drawn(tmp_path):
    figure = classes_figure(100 * np.eye(3), np.zeros((3, 3)), ["a", "b", "c"], "Classes")
    assert_is_good(figure, tmp_path / "classes.png")
    assert words_of(figure).count("100") == 3


# Style


def test_every_method_has_a_colour_of_its_own():
    methods = {"but", "bunca", "ba", "bsh", "bh", "ep", "dws", "nca", "proxy-nca"}
    assert figures.METHOD_COLOURS.keys() == methods
    assert len(set(METHOD_COLOURS.values())) == 9


@pytest.mark.parametrize("number", [1, 8, 10, 20, 21, 100])
def test_classes_differ_in_colour_or_marker(number):
    assert len(set(class_styles(number))) == number


def test_a_name_is_drawn_as_it_is_and_shortened_in_the_middle():
    assert readable("$5 and $6", 20) == r"\$5 and \$6"
    assert readable("two\nlines", 20) == "two lines"
    assert len(readable("a" * 50 + " 07", 12)) == 12
    assert readable("class with a long name 07", 12).endswith("07")


def test_a_figure_that_cannot_be_written_leaves_nothing(tmp_path):
    with pytest.raises(InputError, match=r"missing/a.png cannot be written: No such file or directory"):
        save_figure(new_figure(3, "t", "s"), tmp_path / "missing" / "a.png")


def test_a_missing_package_is_named_with_the_way_to_get_it(monkeypatch):
    def fail(name):
        raise ImportError(name)

    monkeypatch.setattr(figure_style.importlib, "import_module", fail)
    with pytest.raises(MissingDependencyError, match=r"pip install 'bayestriplet\[figures\]'"):
        new_figure(3, "t", "s")


# Reliability


def drawn_items(number, classes, seed=0):
    """Probabilities, and labels drawn by them."""
    rng = np.random.default_rng(seed)
    probabilities = rng.dirichlet(np.full(classes, 0.2), number)
    return probabilities, (probabilities.cumsum(1) > rng.random((number, 1))).argmax(1)


@pytest.mark.parametrize(("number", "classes"), [(3, 2), (2000, 10)])
def test_reliability_is_drawn_with_its_error(number, classes, tmp_path):
    probabilities, labels = drawn_items(number, classes)
    figure = reliability_figure(probabilities, labels, "test items of made ones")
    assert_is_good(figure, tmp_path / "reliability.png")
    error = 100 * reliability(probabilities, labels).error
    assert any(f"calibration error {error:.2f}%" in word for word in words_of(figure))
    assert f"all items: {100 * (probabilities.argmax(1) == labels).mean():.1f}%" in words_of(figure)


def test_probabilities_that_are_all_right_or_all_wrong_can_be_drawn(tmp_path):
    for k in (0, 1):
        figure = reliability_figure(np.eye(3)[[0, 1, 2, 0]], np.array([k, k + 1, 2 * (1 - k), k]), "items")
        save_figure(figure, tmp_path / f"{k}.png")


def test_the_interval_of_a_share_is_wilsons_as_scipy_has_it():
    right, number = np.array([0.0, 3, 17, 40]), np.array([4, 9, 20, 40])
    low, high = wilson_interval(right, number)
    for place in range(4):
        expected = binomtest(int(right[place]), int(number[place])).proportion_ci(method="wilson")
        assert (low[place], high[place]) == pytest.approx((expected.low, expected.high), abs=1e-6)


def test_accuracy_among_the_most_confident_is_that_of_a_slow_loop():
    confidence = np.array([0.5, 0.9, 0.7, 0.9])
    right = np.array([False, True, True, False])
    share, accuracy = selective_accuracy(confidence, right)
    np.testing.assert_allclose(share, [0.25, 0.5, 0.75, 1])
    np.testing.assert_allclose(accuracy, [1, 1 / 2, 2 / 3, 2 / 4])


# Runs


def uniform(vectors):
    return np.full((len(vectors), 10), 0.1)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run on digits, with its images."""
    options = {"data": "digits", "backbone": BACKBONE, "dim": 16, "max_steps": 30}
    out = tmp_path_factory.mktemp("runs") / "run"
    run = TrainingRun(make_config(options | {"validate_every": 10}, "test"), out, Console(quiet=True))
    run.fit()
    run.finish(export=False)
    return run


@pytest.fixture
def copied(trained, tmp_path):
    """A copy of the run that a test may break."""
    shutil.copytree(trained.folder.path, tmp_path / "run")
    return RunFolder.open(tmp_path / "run")


def test_all_figures_are_written_and_progress_is_told(trained, tmp_path, monkeypatch):
    for name in ("_draw_umap", "_draw_retrieval", "_draw_classes"):  # the command's test draws them
        monkeypatch.setattr(figures, name, lambda *_: new_figure(1, "t", "s"))
    told = []
    paths = draw_run_figures(
        trained.folder, trained.images, "test", uniform, tmp_path / "out", 0, lambda *now: told.append(now),
        backbone=BACKBONE,
    )  # fmt: skip
    assert paths == {name: tmp_path / "out" / name for name in figures.SHOWS}
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(figures.SHOWS)
    assert {"Embedding", "Drawing umap.png", "Drawing classes.png"} <= {progress[0] for progress in told}


def test_the_titles_recall_is_the_one_of_the_results(trained):
    encoder = figures.load_encoder(trained.folder.model, trusted=BACKBONE)
    items = figures.select_items(trained.images, "test", encoder)
    vectors = figures.embed(encoder, trained.images, items.indices)
    embedded = figures.embedded_items(items, vectors, trained.images.classes, "test")
    expected = trained.folder.read_results()["test"]["but"]["recall@1"]["value"]
    assert embedded.recall == pytest.approx(100 * expected)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("metrics.csv", None, r"metrics.csv is missing: put it back, or train again with --config .*toml$"),
        ("posterior.safetensors", None, r"posterior.safetensors is missing: go on with `bayestriplet train"),
        (
            "posterior.safetensors",
            b"junk",
            r"posterior.safetensors is not a posterior of 10 classes \(.*toml$",
        ),
    ],
)
def test_a_run_with_a_file_missing_or_broken_gives_one_line_and_no_figures(
    file, content, message, copied, trained, tmp_path
):
    if content is None:
        (copied.path / file).unlink()
    else:
        (copied.path / file).write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        draw_run_figures(copied, trained.images, "test", uniform, tmp_path / "figures", 0, backbone=BACKBONE)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "figures").exists()


def test_a_backbone_that_is_code_runs_only_when_it_is_named(trained, tmp_path):
    with pytest.raises(InputError, match=r"which is code: give --backbone tests.training"):
        draw_run_figures(trained.folder, trained.images, "test", uniform, tmp_path / "figures", 0)
    assert not (tmp_path / "figures").exists()


def test_a_posterior_of_other_classes_is_refused(copied):
    with pytest.raises(InputError, match=r"is not a posterior of 9 classes"):
        read_posterior(copied.posterior, 9)


def test_a_folder_that_cannot_be_made_and_too_few_items_are_refused(trained, tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match=r"file cannot be used for figures: .*; choose another --out"):
        draw_run_figures(
            trained.folder, trained.images, "test", uniform, tmp_path / "file", 0, backbone=BACKBONE
        )
    few = trained.images.subset(trained.images.indices("test")[:2])
    with pytest.raises(InputError, match="figures need at least 3 items; digits has 2 in split 'test'"):
        draw_run_figures(trained.folder, few, "test", uniform, tmp_path / "out", 0, backbone=BACKBONE)


def test_curves_of_one_row_can_be_drawn(tmp_path):
    one = Curves(np.array([10.0]), np.array([0.5]), np.array([0.2]), np.array([0.7]))
    assert_is_good(curves_figure(one, "Training", "#0072B2"), tmp_path / "curves.png")
