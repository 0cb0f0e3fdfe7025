import math

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

from bayestriplet.evaluation.classes import bhattacharyya, confusion, posterior_distances
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
    table = posterior_distances(posterior, 4)
    assert np.isnan(table[[1, 3]]).all()
    assert np.isnan(table[:, [1, 3]]).all()
    expected = bhattacharyya(posterior.mean[[0, 2]], posterior.covariance[[0, 2]])
    np.testing.assert_allclose(table[np.ix_([0, 2], [0, 2])], expected)


def test_confusion_is_in_percent_of_the_class_of_the_item():
    table = confusion(np.array([0, 0, 0, 0, 2]), np.array([0, 0, 0, 2, 0]), 3)
    np.testing.assert_array_equal(table, [[75, 0, 25], [math.nan] * 3, [100, 0, 0]])
