"""Teaching a trained run: what it says before, after, and after it has forgotten."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

import bayestriplet as bt
from bayestriplet.data.sources import open_data
from bayestriplet.errors import InputError, InputTypeError, StateError
from bayestriplet.retrieval.suggestions import mutual_information, suggest
from bayestriplet.retrieval.teaching import Teacher
from bayestriplet.runs import lessons
from bayestriplet.runs.predictive import open_predictive
from bayestriplet.runs.teaching import open_teaching
from tests.data.pictures import make_folder

DIGITS = load_digits()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run on digits without 6, 7 and 8, and the images of these and of the others."""
    path = tmp_path_factory.mktemp("runs") / "digits"
    options = {"backbone": "tests.training.networks:small", "dim": 16, "size": 8, "lr": 0.003}
    bt.train("digits", out=path, without="6,7,8", max_steps=150, validate_every=75, **options)
    images = open_data("digits", size=8)
    return path, images.read(np.arange(len(images))), np.array(images.classes)[images.labels]


@pytest.fixture
def run(trained, tmp_path):
    return bt.Run(shutil.copytree(trained[0], tmp_path / "run", ignore=shutil.ignore_patterns("*.ckpt")))


def examples(trained, names, number, start=0):
    rows = np.concatenate([np.flatnonzero(trained[2] == name)[start : start + number] for name in names])
    return trained[1][rows], trained[2][rows].tolist()


def test_new_classes_are_known_at_once_and_forgotten_without_a_trace(run, trained):
    asked, labels = examples(trained, "678", 60, 40)
    others, _ = examples(trained, "01234", 40)
    vectors, old = run.encode(asked), run.encode(others)
    before = run.class_probabilities(old), run.novelty(old), run.novelty(vectors).mean()
    index = bt.Index.open(run.path)
    index.add(list(others[:5]))
    assert "6" not in index.search(asked[0], k=1)[0].probabilities
    lesson = run.teach(*examples(trained, "678", 20))
    assert str(lesson) == "60 images of 3 new classes"
    assert run.classes[-3:] == ("6", "7", "8")
    shares = run.class_probabilities(vectors)
    right = np.array(run.classes)[shares.argmax(1)] == labels
    assert right.mean() > 0.7
    np.testing.assert_allclose(shares.sum(1), 1)
    assert run.novelty(vectors).mean() < before[2] - 5
    (answer,) = index.search(asked[0], k=1)  # opened before it was taught
    assert answer.against == "trained on or taught"
    assert answer.probabilities["6"] == pytest.approx(shares[0, -3])
    among_old = run.class_probabilities(old)[:, :7]
    np.testing.assert_allclose(among_old / among_old.sum(1, keepdims=True), before[0], atol=1e-12)
    log_prior = open_predictive(run.folder, run.encoder.fingerprint).log_prior
    assert np.exp(log_prior[-1]) == pytest.approx(0.1)  # as the average of seven old ones
    for name in "678":
        assert run.forget(name) == 20
    assert not run.folder.taught.exists()
    np.testing.assert_array_equal(run.class_probabilities(old), before[0])
    np.testing.assert_array_equal(run.novelty(old), before[1])


def test_percentages_stay_those_of_the_validation_items(run, trained):
    run.teach(*examples(trained, "67", 30))
    predictive = open_predictive(run.folder, run.encoder.fingerprint)
    kept = Teacher(run.folder, run.encoder).read().held_out
    assert len(kept) == len(predictive.held_out) > 100
    assert predictive.evidence.validation == len(kept)
    validation = open_teaching(run.folder, run.encoder.fingerprint, {}).validation
    np.testing.assert_allclose(kept, np.sort(predictive.novelty_scores(validation)))
    rows = [i for i, name in enumerate(trained[2]) if name not in "678"]
    assert 30 < np.median(run.novelty(run.encode(trained[1][rows]))) < 70


def test_a_taught_class_widens_what_pictures_look_like_and_percentages_stay_true(run, trained):
    white = np.full((3, 8, 8, 1), 255, np.uint8)
    white[1, 0, 0], white[2, 7, 7] = 250, 245
    rows = [i for i, name in enumerate(trained[2]) if name not in "678"]
    before = run.novelty(trained[1][rows])
    assert run.novelty(white).min() > 99
    assert 30 < np.median(before) < 70
    run.teach(white[:2], "blank")
    assert run.novelty(white[2:])[0] < 99
    after = run.novelty(trained[1][rows])
    assert 30 < np.median(after) < 70
    teacher = Teacher(run.folder, run.encoder)
    kept = open_teaching(run.folder, run.encoder.fingerprint, {})
    predictive = open_predictive(run.folder, run.encoder.fingerprint)
    scores = predictive.novelty_scores(kept.validation, kept.looks.astype(np.float64))
    np.testing.assert_allclose(teacher.read().pictured, np.sort(scores), rtol=1e-9)
    looks = predictive.look(white[:1])
    teacher.undo(run.encode(white[:1]), ["blank"], looks)
    assert teacher.read().looks.count.tolist() == [1.0]
    run.forget("blank")
    np.testing.assert_array_equal(run.novelty(trained[1][rows]), before)


def test_a_picture_is_as_novel_in_a_search_a_table_a_suggestion_and_python(run, trained, tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    Image.fromarray(np.zeros((8, 8), np.uint8)).save(folder / "black.png")
    Image.fromarray(trained[1][0, ..., 0]).save(folder / "digit.png")
    index = bt.Index.open(run.path)
    index.add(list(trained[1][:5]))
    files = [folder / "black.png", folder / "digit.png"]
    found = run.novelty(files)
    assert found[0] > 99 > found[1]
    assert [one.novelty for one in index.search(files, k=1)] == pytest.approx(found)
    assert [one.novelty for one in index.search(files, k=1, exclude_group="own")] == pytest.approx(found)
    table = run.predict(str(folder))
    assert table.novelty == pytest.approx(found)
    words = {one.evidence for one in index.search(files, k=1)}
    assert words == {table.evidence} == {run.novelty_evidence}
    assert "not measured on held-out classes" in table.evidence
    rows = suggest(run.encoder, open_predictive(run.folder, run.encoder.fingerprint), str(folder), 2).rows
    assert sorted(one.novelty for one in rows) == pytest.approx(sorted(found))
    vectors = run.encode(files)  # tell nothing of how the pictures look
    assert [one.novelty for one in index.search(vectors, k=1)] == pytest.approx(run.novelty(vectors))


def test_a_run_that_kept_nothing_of_how_pictures_look_goes_by_their_vectors(run, trained):
    teaching = open_teaching(run.folder, run.encoder.fingerprint, {})
    replace(teaching, appearance=None, looks=None, pictured=np.empty(0)).save(run.folder.teaching)
    pictures = trained[1][:20]
    np.testing.assert_array_equal(run.novelty(pictures), run.novelty(run.encode(pictures)))
    run.teach(*examples(trained, "6", 5))
    assert not Teacher(run.folder, run.encoder).read().looks.count.any()
    np.testing.assert_array_equal(run.novelty(pictures), run.novelty(run.encode(pictures)))


def test_more_examples_of_a_trained_class_enter_its_statistics_and_undo_takes_them_out(run, trained):
    teacher = Teacher(run.folder, run.encoder)
    vectors = run.encode(examples(trained, "3", 30)[0])
    before = run.class_probabilities(vectors)
    teacher.teach(vectors + 0.3, ["3"] * 30)
    moved = run.class_probabilities(vectors + 0.3)
    assert moved[:, 3].mean() > 0.5
    three = next(one for one in teacher.classes() if one.name == "3")
    assert (three.taught, three.origin) == (30, "trained and taught")
    assert three.trained > 50
    teacher.teach(vectors[:2], ["3"] * 2)
    teacher.undo(vectors[:2], ["3"] * 2)
    np.testing.assert_allclose(run.class_probabilities(vectors + 0.3), moved, atol=1e-9)
    with pytest.raises(InputError, match="'3' was taught 30 examples; 31 cannot be undone"):
        teacher.undo(np.concatenate([vectors, vectors[:1]]), ["3"] * 31)
    assert teacher.forget("3") == 30
    np.testing.assert_array_equal(run.class_probabilities(vectors), before)
    with pytest.raises(InputError, match=r"nothing was taught of class '3' \(it was trained"):
        teacher.forget("3")


def log_loss(predictive, vectors, labels):
    rows = [predictive.classes.index(name) for name in labels]
    return -predictive.log_probabilities(vectors)[np.arange(len(rows)), rows].mean()


def test_examples_say_how_sure_one_may_be_of_new_classes_and_undo_takes_that_back(run, trained):
    teacher = Teacher(run.folder, run.encoder)
    pixels, labels = examples(trained, "678", 1)
    run.teach(pixels, labels)
    assert teacher.read().adapted is None  # no example has another of its class beside it
    run.teach(*examples(trained, "678", 15, 1))
    taught = teacher.read()
    assert taught.adapted is not None
    asked = [examples(trained, names, number, 80) for names, number in (("678", 40), ("0123459", 20))]
    teaching = open_teaching(run.folder, run.encoder.fingerprint, {})
    plain = teacher.trained.taught(run.folder, teaching, replace(taught, adapted=None))
    adapted = open_predictive(run.folder, run.encoder.fingerprint)
    losses = [[log_loss(one, run.encode(x), names) for x, names in asked] for one in (plain, adapted)]
    assert sum(losses[1]) < sum(losses[0])
    more, names = examples(trained, "67", 4, 30)
    vectors, looks = run.encode(more), teacher.trained.look(more)
    teacher.teach(vectors, names, looks=looks)
    assert teacher.read().adapted != taught.adapted
    teacher.undo(vectors, names, looks)
    back = teacher.read()
    np.testing.assert_allclose(
        list(vars(back.adapted).values()), list(vars(taught.adapted).values()), rtol=1e-6
    )
    np.testing.assert_array_equal(back.kept.vectors, taught.kept.vectors)


def test_undo_is_exact_where_a_class_has_more_examples_than_are_kept(run, trained):
    teacher = Teacher(run.folder, run.encoder)
    asked = run.encode(examples(trained, "0123678", 20, 130)[0])
    first, names = examples(trained, "67", 110)
    teacher.teach(run.encode(first), names, looks=teacher.trained.look(first))
    before = run.class_probabilities(asked)
    for number in (1, 20):
        more, names = examples(trained, "67", number, 110)
        vectors, looks = run.encode(more), teacher.trained.look(more)
        teacher.teach(vectors, names, looks=looks)
        assert np.abs(run.class_probabilities(asked) - before).max() > 1e-6
        teacher.undo(vectors, names, looks)
        np.testing.assert_allclose(run.class_probabilities(asked), before, rtol=1e-6, atol=1e-9)


def test_many_classes_are_read_along_the_axes_and_agree_with_full_ones(run, trained, monkeypatch):
    run.teach(*examples(trained, "678", 30))
    vectors = run.encode(examples(trained, "678", 40, 60)[0])
    full = run.class_probabilities(vectors)
    monkeypatch.setattr(lessons, "MOST_FULL", 0)
    along = run.class_probabilities(vectors)
    assert (full.argmax(1) == along.argmax(1)).mean() > 0.8
    assert not np.array_equal(full, along)


def test_a_class_prior_moves_probabilities_and_old_ratios_stay(run, trained):
    vectors = run.encode(examples(trained, "678", 10, 60)[0])
    run.teach(*examples(trained, "6", 10))
    before = run.class_probabilities(vectors)
    teacher = Teacher(run.folder, run.encoder)
    teacher.set_weights({"6": 3.0})
    after = run.class_probabilities(vectors)
    odds = [one[:, 7] / one[:, 0] for one in (before, after)]
    np.testing.assert_allclose(odds[1] / odds[0], 3.0)
    np.testing.assert_allclose(after[:, 1] / after[:, 0], before[:, 1] / before[:, 0])
    shares = {one.name: one.share for one in teacher.classes()}
    teacher.set_weights({"3": 5.0})
    assert teacher.forget("3") == 0
    assert {one.name: one.share for one in teacher.classes()} == pytest.approx(shares)
    with pytest.raises(InputError, match="there is no class 'six'"):
        teacher.set_weights({"six": 1.0})
    with pytest.raises(InputError, match="must be above 0"):
        teacher.set_weights({"6": -1.0})


def test_images_of_other_sizes_and_channels_are_taught_as_they_are_searched(run, trained, tmp_path):
    pixels, _ = examples(trained, "6", 4)
    folder = tmp_path / "photos" / "six"
    folder.mkdir(parents=True)
    for i, one in enumerate(pixels):
        large = Image.fromarray(one[:, :, 0]).resize((40, 40), Image.Resampling.NEAREST)
        large.convert("RGB" if i % 2 else "L").save(folder / f"{i}.png")
    assert run.teach(str(folder.parent)).counts == {"six": 4}
    assert run.teach(pixels, "seven").new == ("seven",)
    taught = Teacher(run.folder, run.encoder).read()
    np.testing.assert_allclose(taught.statistics.mean[0], taught.statistics.mean[1], atol=0.05)


def test_bad_input_is_an_error_in_a_line_and_nothing_is_lost(run, trained, tmp_path):
    pixels, labels = examples(trained, "67", 3)
    run.teach(pixels, labels)
    before = run.folder.taught.read_bytes()
    teacher = Teacher(run.folder, run.encoder)
    flat = make_folder(tmp_path / "flat", {"a": 3}, shape=(8, 8))
    manifest = flat / "list.csv"
    manifest.write_text("path,label\na/0.png,six\na/1.png,\n")
    unlabelled = flat / "unlabelled.csv"
    unlabelled.write_text("path,label\na/0.png,6\na/1.png,\n")
    with pytest.raises(InputError, match=r"1 of 2 images of .* have no label"):
        run.teach(str(manifest))
    with pytest.raises(InputError, match="the run knows all classes of"):
        teacher.teach_set(str(unlabelled), only_new=True)
    assert teacher.teach_set(str(manifest), only_new=True).counts == {"six": 1}
    teacher.forget("six")
    with pytest.raises(InputError, match="labels must be 6, one per image; got 5"):
        run.teach(pixels, labels[:5])
    with pytest.raises(InputTypeError, match="list of names"):
        run.teach(pixels, [6] * 6)
    with pytest.raises(InputError, match="the run needs images"):
        run.teach("vectors:" + str(tmp_path / "none.npz"))
    other = tmp_path / "upper" / "A"
    other.mkdir(parents=True)
    Image.fromarray(pixels[0][:, :, 0]).save(other / "0.png")
    teacher.teach_set(str(other.parent), "x-ray")
    with pytest.raises(InputError, match="class 'X-Ray' is there as 'x-ray'"):
        teacher.teach_set(str(other.parent), "X-Ray")
    teacher.forget("x-ray")
    assert run.folder.taught.read_bytes() == before
    content = run.folder.model.read_bytes()
    run.folder.taught.write_bytes(
        before.replace(run.encoder.fingerprint.encode(), b"0" * len(run.encoder.fingerprint))
    )
    with pytest.raises((InputError, StateError), match=r"taught\.safetensors"):
        run.class_probabilities(run.encode(pixels))
    assert run.folder.model.read_bytes() == content


def test_a_run_without_the_file_of_new_classes_is_taught_by_its_posterior(run, trained):
    run.folder.teaching.unlink()
    asked, labels = examples(trained, "678", 60, 40)
    run.teach(*examples(trained, "678", 20))
    right = np.array(run.classes)[run.class_probabilities(run.encode(asked)).argmax(1)] == labels
    assert right.mean() > 0.7
    assert np.isfinite(run.novelty(run.encode(asked))).all()


def test_suggestions_are_the_images_whose_labels_would_tell_most(run, trained, tmp_path):
    run.teach(*examples(trained, "678", 2))
    predictive = open_predictive(run.folder, run.encoder.fingerprint)
    of_new = mutual_information(predictive, run.encode(examples(trained, "678", 40, 60)[0]))
    of_old = mutual_information(predictive, run.encode(examples(trained, "012", 40)[0]))
    assert of_new.mean() > of_old.mean()
    assert of_old.min() >= 0
    found = suggest(run.encoder, predictive, "digits", 5)
    assert len(found.rows) == 5
    bits = [one.information for one in found.rows]
    assert bits == sorted(bits, reverse=True)
    assert bits[0] > of_old.mean()
