import warnings

import numpy as np
import pytest

from bayestriplet.errors import InputError
from bayestriplet.report.projection import neighbours_of, project, sample_evenly


def test_the_map_sample_is_seeded_and_keeps_the_shares_of_the_classes():
    labels = np.random.default_rng(0).choice(3, 9000, p=[0.5, 0.4, 0.1])
    chosen = sample_evenly(labels, 500, seed=1)
    assert len(set(chosen.tolist())) == 500
    assert (np.diff(chosen) > 0).all()
    np.testing.assert_allclose(np.bincount(labels[chosen]), np.bincount(labels) / 18, atol=1)
    np.testing.assert_array_equal(chosen, sample_evenly(labels, 500, seed=1))
    assert not np.array_equal(chosen, sample_evenly(labels, 500, seed=2))
    np.testing.assert_array_equal(sample_evenly(labels, 9000, 0), np.arange(9000))


def test_few_items_have_fewer_neighbours_than_the_usual_number():
    assert [neighbours_of(number) for number in (3, 12, 16, 5000)] == [2, 11, 15, 15]


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
