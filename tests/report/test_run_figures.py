import shutil

import pytest

from bayestriplet.config import make_config
from bayestriplet.errors import InputError
from bayestriplet.evaluation.evaluator import Evaluator
from bayestriplet.report import run_figures
from bayestriplet.report.figure import new_figure
from bayestriplet.report.run_figures import draw_run_figures
from bayestriplet.runs.folder import RunFolder
from bayestriplet.training.run import TrainingRun

BACKBONE = "tests.training.networks:small"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a run on digits."""
    options = {"data": "digits", "backbone": BACKBONE, "dim": 16, "max_steps": 30}
    out = tmp_path_factory.mktemp("runs") / "run"
    run = TrainingRun(make_config(options | {"validate_every": 10}, "test"), out)
    run.fit()
    run.finish(export=False)
    return out


@pytest.fixture
def copied(trained, tmp_path):
    """A copy of the run that a test may break."""
    return shutil.copytree(trained, tmp_path / "run")


@pytest.fixture
def quick(monkeypatch):
    """The figures that take seconds are left blank."""
    for name in ("_draw_umap", "_draw_retrieval", "_draw_classes"):
        monkeypatch.setattr(run_figures, name, lambda *_: new_figure(1, "t", "s"))


def measure(run, progress=None):
    return Evaluator(run, backbone=BACKBONE, progress=progress)


@pytest.mark.usefixtures("quick")
def test_all_figures_are_written_and_progress_is_reported(trained, tmp_path):
    seen = []
    drawn = draw_run_figures(measure(trained, lambda *now: seen.append(now)), tmp_path / "out")
    assert drawn.paths == {name: tmp_path / "out" / name for name in run_figures.SHOWS}
    assert drawn.note == ""
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(run_figures.SHOWS)
    assert {"Embedding", "Drawing umap.png", "Drawing classes.png"} <= {progress[0] for progress in seen}
    assert str(drawn).splitlines()[0].startswith(f"{tmp_path / 'out' / 'umap.png'}: UMAP")


def test_the_titles_recall_is_the_one_of_the_results(trained):
    measured = measure(trained)
    images, _ = measured.open("digits")
    items = run_figures.select_items(images, "test", measured.encoder)
    vectors = run_figures.embed(measured.encoder, images, items.indices)
    embedded = run_figures.embedded_items(items, vectors, images.classes, "test")
    expected = RunFolder.open(trained).read_results()["test"]["bunca"]["recall@1"]["value"]
    assert embedded.recall == pytest.approx(100 * expected)


def test_the_figures_of_retrieval_name_the_gallery(trained):
    measured = measure(trained)
    images, _ = measured.open("digits")
    items = run_figures.select_items(images, "test", measured.encoder)
    vectors = run_figures.embed(measured.encoder, images, items.indices)
    embedded = run_figures.embedded_items(items, vectors, images.classes, "test")
    shown = " ".join(text.get_text() for text in run_figures._draw_retrieval(embedded, 0).texts)
    assert "Gallery: the other 358 test items." in " ".join(shown.split())


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("metrics.csv", None, r"metrics.csv is missing: put it back, or train again with --config .*toml$"),
        (
            "metrics.csv",
            b"step,loss\n",
            r"metrics.csv holds no steps: go on with `bayestriplet train --resume",
        ),
        ("metrics.csv", b"step,loss\n1\n", r"metrics.csv holds no steps"),
        ("posterior.safetensors", None, r"posterior.safetensors is missing: go on with `bayestriplet train"),
        ("posterior.safetensors", b"junk", r"posterior.safetensors cannot be read as a posterior: .*toml$"),
    ],
)
def test_a_run_with_a_file_missing_or_broken_gives_one_line_and_no_figures(
    file, content, message, copied, tmp_path
):
    if content is None:
        (copied / file).unlink()
    else:
        (copied / file).write_bytes(content)
        (copied / "checksums.json").unlink()  # changed on purpose
    with pytest.raises(InputError, match=message) as caught:
        draw_run_figures(measure(copied), tmp_path / "figures")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "figures").exists()


@pytest.mark.usefixtures("quick")
def test_without_a_predictive_distribution_the_note_says_which_figure_is_missing(copied, tmp_path):
    RunFolder.open(copied).predictive.unlink()
    drawn = draw_run_figures(measure(copied), tmp_path / "figures")
    assert "reliability.png" not in drawn.paths
    assert str(drawn).endswith("is missing; a new training writes it.")


def test_a_folder_that_cannot_be_made_is_refused(trained, tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match=r"file cannot be used for figures: .*; choose another --out"):
        draw_run_figures(measure(trained), tmp_path / "file")


def test_too_few_items_are_refused(trained):
    measured = measure(trained)
    images, _ = measured.open("digits")
    few = images.subset(images.indices("test")[:2])
    items = run_figures.select_items(few, "test", measured.encoder)
    vectors = run_figures.embed(measured.encoder, few, items.indices)
    with pytest.raises(InputError, match="figures need at least 3 items; digits has 2 in split 'test'"):
        run_figures.embedded_items(items, vectors, few.classes, "test")
