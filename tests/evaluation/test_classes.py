import math

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

from bayestriplet.evaluation.classes import bhattacharyya, confusion, most_confused, posterior_distances
from bayestriplet.posterior.posterior import ClassPosterior


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
    table = posterior_distances(posterior, np.arange(4))
    assert np.isnan(table[[1, 3]]).all()
    assert np.isnan(table[:, [1, 3]]).all()
    expected = bhattacharyya(posterior.mean[[0, 2]], posterior.covariance[[0, 2]])
    np.testing.assert_allclose(table[np.ix_([0, 2], [0, 2])], expected)


def test_confusion_is_in_percent_of_the_class_of_the_item():
    table = confusion(np.array([0, 0, 0, 0, 2]), np.array([0, 0, 0, 2, 0]), np.arange(3))
    np.testing.assert_array_equal(table, [[75, 0, 25], [math.nan] * 3, [100, 0, 0]])


def test_rows_of_some_classes_are_percent_of_all_items_of_the_class():
    labels, nearest = np.array([1, 1, 1, 1, 4]), np.array([1, 4, 0, 0, 3])
    table = confusion(labels, nearest, np.array([1, 4]))
    np.testing.assert_array_equal(table, [[25, 25], [0, 0]])


def test_the_most_confused_classes_are_those_of_the_most_frequent_pairs():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 500, 4000)
    nearest = labels.copy()
    labels[:20], nearest[:20] = 7, 400  # one direction
    labels[20:30], nearest[20:30] = 33, 12
    labels[30:36], nearest[30:36] = 12, 33  # both
    labels[36:38], nearest[36:38] = 90, 91
    assert most_confused(labels, nearest, 500, 4).tolist() == [7, 12, 33, 400]
    assert most_confused(labels, nearest, 500, 6).tolist() == [7, 12, 33, 90, 91, 400]
    assert len(most_confused(labels, nearest, 500, 30)) == 30
    assert most_confused(labels, nearest, 500, 500).tolist() == list(range(500))
