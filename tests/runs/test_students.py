import numpy as np
import pytest
import torch
from scipy.stats import multivariate_t

from bayestriplet import ClassPosterior
from bayestriplet.evaluation.embeddings import Embedded
from bayestriplet.evaluation.predictive_of import fit_predictive
from bayestriplet.runs import students as students_module
from bayestriplet.runs.predictive import Predictive
from bayestriplet.runs.row_statistics import RowStatistics, leading_rows
from bayestriplet.runs.students import RowStudents


def made(classes, dim, rank=2, seed=0):
    rng = np.random.default_rng(seed)
    axes = np.linalg.qr(rng.normal(size=(dim, dim)))[0]
    return RowStudents(
        axes,
        rng.normal(size=(classes, dim)),
        rng.uniform(0.1, 2, (classes, dim)),
        rng.normal(size=(classes, rank, dim)),
        rng.uniform(0.5, 2, classes),
        rng.uniform(1, 9, classes),
    )


@pytest.mark.parametrize(("dim", "rank"), [(1, 1), (3, 2), (6, 0), (4, 7)])
def test_densities_are_scipys(dim, rank):
    students = made(3, dim, rank)
    x = np.random.default_rng(1).normal(size=(5, dim))
    found = students.log_density(x, np.array([2, 0]))
    for place, k in enumerate((2, 0)):
        scale = np.diag(students.variance[k]) + students.rows[k].T @ students.rows[k]
        shape = students.axes @ (students.spread[k] * scale) @ students.axes.T
        expected = multivariate_t(students.axes @ students.center[k], shape, students.freedom[k]).logpdf(x)
        np.testing.assert_allclose(found[:, place], expected, rtol=1e-9)


def test_blocks_of_vectors_change_nothing(monkeypatch):
    students, x = made(4, 5), np.random.default_rng(1).normal(size=(9, 5))
    whole = students.log_density(x, np.arange(4))
    monkeypatch.setattr(students_module, "BLOCK_CELLS", 24)
    np.testing.assert_allclose(students.log_density(x, np.arange(4)), whole, rtol=1e-12)


def test_leading_rows_are_those_of_the_singular_value_decomposition():
    rows = np.random.default_rng(0).normal(size=(30, 12))
    _, values, directions = np.linalg.svd(rows, full_matrices=False)
    best = (values[:8, None] * directions[:8]).T @ (values[:8, None] * directions[:8])
    kept = leading_rows(rows, 8)
    np.testing.assert_allclose(kept.T @ kept, best, atol=1e-9)
    few = leading_rows(rows[:3], 8)
    assert few.shape == (8, 12)
    np.testing.assert_allclose(few.T @ few, rows[:3].T @ rows[:3])


def make_items(sizes, dim, seed):
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    centers = 2 * np.random.default_rng(5).normal(size=(len(sizes), dim))
    turn = np.random.default_rng(6).normal(size=(dim, dim)) / dim**0.5
    return Embedded((centers[labels] + rng.normal(size=(len(labels), dim)) @ turn).astype("f"), labels)


def fit(train, held_out, classes, dim, structure):
    posterior = ClassPosterior(classes, dim, dtype=torch.float64, structure=structure)
    posterior.update(torch.from_numpy(train.vectors), torch.from_numpy(train.labels))
    names = tuple(f"c{k}" for k in range(classes))
    return fit_predictive(posterior, names, "e", train, held_out)


@pytest.mark.parametrize("sizes", [(9, 4, 0, 1, 7), (8, 9, 3, 5, 2)])
def test_classes_whose_scatter_has_rank_eight_or_less_are_read_as_in_full(sizes, tmp_path):
    train, held_out = make_items(sizes, 12, 0), make_items((20, 20, 20, 20, 20), 12, 1)
    full, rows = (fit(train, held_out, 5, 12, structure) for structure in ("full", "lowrank"))
    assert isinstance(rows.students, RowStudents)
    assert rows.reading == pytest.approx(full.reading, rel=1e-3)
    x = np.random.default_rng(2).normal(size=(40, 12))
    np.testing.assert_allclose(rows.log_probabilities(x), full.log_probabilities(x), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(rows.held_out, full.held_out, rtol=1e-3)
    path = tmp_path / "predictive.safetensors"
    rows.save(path)
    again = Predictive.load(path)
    np.testing.assert_allclose(again.probabilities(x), rows.probabilities(x), rtol=1e-12)
    again.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == path.read_bytes()


def test_the_diagonal_of_a_scatter_is_exact_and_the_remainder_is_never_negative():
    items = make_items((40, 30), 12, 0)
    statistics = RowStatistics.of(items.vectors, items.labels, 2)
    turned = items.vectors.astype(np.float64) @ statistics.axes
    for k in range(2):
        own = turned[items.labels == k]
        np.testing.assert_allclose(statistics.diagonal[k], np.square(own - own.mean(0)).sum(0))
        np.testing.assert_allclose(statistics.mean[k], own.mean(0))
        assert (statistics.diagonal[k] - np.square(statistics.factor[k]).sum(0) > -1e-9).all()
        scatter = (own - own.mean(0)).T @ (own - own.mean(0))
        kept = statistics.factor[k].T @ statistics.factor[k]
        cut_off = np.linalg.eigvalsh(scatter)[:-8].sum()
        remainder = np.diag(statistics.diagonal[k] - kept.diagonal())
        assert np.abs(np.linalg.eigvalsh(kept + remainder - scatter)).max() <= cut_off + 1e-9


def test_the_likeliest_of_ten_thousand_classes_are_those_of_each_on_its_own():
    students, number = made(10_000, 16, rank=9), 10_000
    prior = np.full(number, -np.log(number))
    found = Predictive(tuple(map(str, range(number))), "e", students, prior, 1.0, np.empty(0))
    x = np.random.default_rng(3).normal(size=(2, 16))
    chances = found.probabilities(x)
    np.testing.assert_allclose(chances.sum(1), 1)
    order = np.argsort(-chances[0])[:10]
    for k in order:
        scale = students.spread[k] * (np.diag(students.variance[k]) + students.rows[k].T @ students.rows[k])
        center = students.axes @ students.center[k]
        shape = students.axes @ scale @ students.axes.T
        expected = multivariate_t(center, shape, students.freedom[k]).logpdf(x[0])
        assert students.log_density(x[:1], np.array([k]))[0, 0] == pytest.approx(expected)
    assert (np.diff(chances[0][order]) <= 0).all()
