"""What a run expects of new classes, fitted on classes that are held out."""

import numpy as np
import pytest
import torch

from bayestriplet import ClassPosterior
from bayestriplet.evaluation.embeddings import Embedded
from bayestriplet.evaluation.predictive_of import fit_predictive
from bayestriplet.evaluation.teaching_fit import (
    SHARE,
    Episode,
    Odds,
    fit_teaching,
    pooled_statistics,
    usual_share,
)
from bayestriplet.runs.statistics import Statistics
from bayestriplet.runs.teaching import NewClasses, Teaching


def made(classes, number, wide, seed, dim=8):
    """Items of classes that are so many times as wide as trained ones."""
    rng = np.random.default_rng(seed)
    centers = 3 * np.random.default_rng(seed + 100).normal(size=(classes, dim))
    labels = np.repeat(np.arange(classes), number)
    x = centers[labels] + np.sqrt(wide) * rng.normal(size=(len(labels), dim))
    return Embedded(x.astype(np.float32), labels)


def fitted(new_width, new_classes=12):
    train, val = made(6, 60, 1.0, 0), made(6, 30, 1.0, 0)
    new = made(new_classes, 30, new_width, 7)
    new = Embedded(new.vectors, new.labels + 6)
    posterior = ClassPosterior(6 + new_classes, 8, dtype=torch.float64)
    posterior.update(torch.from_numpy(train.vectors), torch.from_numpy(train.labels))
    names = tuple(map(str, range(6 + new_classes)))
    predictive = fit_predictive(posterior, names, "e", train, val)
    return fit_teaching(predictive, train, val, new), predictive, val


def test_wider_held_out_classes_give_a_wider_prior_and_the_file_keeps_everything(tmp_path):
    narrow, predictive, val = fitted(1.0)
    wide = fitted(8.0)[0]
    assert narrow.new.widening < wide.new.widening
    assert wide.evidence.classes == 12
    assert 0.5 < wide.evidence.auroc <= 1
    assert wide.evidence.validation == len(val.labels)
    wide.save(tmp_path / "teaching.safetensors")
    back = Teaching.load(tmp_path / "teaching.safetensors")
    assert (back.new, back.evidence, back.memory) == (wide.new, wide.evidence, wide.memory)
    assert back.background.tail == pytest.approx(wide.background.tail)
    np.testing.assert_array_equal(back.validation, val.vectors)
    np.testing.assert_allclose(back.explained, -predictive.novelty_scores(val.vectors))


def test_without_held_out_classes_the_constants_hold_and_nothing_is_said_to_be_measured():
    found = fitted(1.0, new_classes=2)[0]  # two are too few
    assert found.new == NewClasses()
    assert found.evidence.auroc is None
    plain = -found.explained
    surprise = found.background.surprise(found.validation.astype(float), fitted(1.0, 2)[1].temperature)
    assert found.background.share == pytest.approx(usual_share(plain, surprise))


def test_the_background_counts_by_how_far_it_moves_held_out_items_beside_the_plain_score():
    plain = np.linspace(0.0, 10.0, 101)  # from its median to its 99% quantile are 4.9
    assert usual_share(plain, np.linspace(0.0, 10.0, 101)) == pytest.approx(SHARE)
    assert usual_share(plain / 4, np.linspace(0.0, 10.0, 101)) == pytest.approx(SHARE / 4)
    assert usual_share(plain + 7, np.linspace(-5.0, -3.0, 101)) == 1.0  # never more than the whole of it
    assert usual_share(plain, np.ones(101)) == usual_share(np.empty(0), np.empty(0)) == 0.0


def test_the_loss_that_is_least_is_that_of_the_probabilities_but_for_what_old_items_lose_among_old_classes():
    rng = np.random.default_rng(0)
    old, new = rng.normal(size=(7, 3)), rng.normal(size=(7, 2))  # log densities of 4 old items, then 3 new
    labels, evidence = np.array([0, 1, 0]), np.log(np.exp(old).mean(1))
    asked = Embedded(np.zeros((3, 1), np.float32), labels)
    episode = Episode(Statistics.zeros(2, 1), asked, evidence[4:])
    found = Odds.of(new - np.log(2), evidence[:4], episode).loss(1.5, 0.3 + np.log(2 / 3))
    total = 0.0
    for i in range(7):
        odds = 2 / 3 * (np.exp(new[i]).mean() / np.exp(old[i]).mean()) ** 1.5 * np.exp(0.3)
        if i < 4:
            total -= np.log(1 / (1 + odds)) / 4
        else:
            own = np.exp(new[i, labels[i - 4]]) / np.exp(new[i]).sum()
            total -= np.log(odds / (1 + odds) * own) / 3
    assert found == pytest.approx(total / 2)


def test_a_file_of_the_earlier_formula_is_read_with_the_constants():
    assert NewClasses.read({"widening": 2.0, "weight": 3.0, "offset": 0.5, "sharpening": 1.0}) == NewClasses()
    assert NewClasses.read({"widening": 2.0, "contrast": 1.0}).widening == 2.0


def test_pooled_statistics_have_the_counts_means_and_summed_scatter_of_all_classes():
    items = made(5, 7, 2.0, 3)
    found, whole = pooled_statistics(items), Statistics.of(items.vectors, items.labels, 5)
    np.testing.assert_allclose(found.count, whole.count)
    np.testing.assert_allclose(found.mean, whole.mean)
    np.testing.assert_allclose(found.scatter.sum(0), whole.scatter.sum(0), rtol=1e-9, atol=1e-9)
