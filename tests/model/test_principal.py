import numpy as np
import pytest
import torch
from torch import nn

from bayestriplet import recall_at_k
from bayestriplet.model.principal import LENGTH, MANY_FEATURES, MOST_ITEMS, chosen_items, start_at_components


def features_of(items, length, seed=0):
    rng = np.random.default_rng(seed)
    scales = 3.0 * 0.8 ** np.arange(length)  # apart from each other, so that directions are unique
    turn = np.linalg.qr(rng.normal(size=(length, length)))[0]
    return (50 + rng.normal(size=(items, length)) * scales @ turn).astype(np.float32)


def started(features, dim, seed=0):
    torch.manual_seed(seed)
    head = nn.Linear(features.shape[1], dim)
    before = head.weight.detach().clone()
    start_at_components(head, features)
    with torch.no_grad():
        return head, before, head(torch.from_numpy(features)).numpy()


@pytest.mark.parametrize(("items", "length", "dim"), [(200, 12, 5), (30, 40, 7), (200, 12, 12), (9, 9, 1)])
def test_outputs_are_the_principal_components_of_numpys_svd(items, length, dim):
    features = features_of(items, length)
    _, _, outputs = started(features, dim)
    centred = features.astype(np.float64) - features.astype(np.float64).mean(0)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    expected = centred @ directions[:dim].T
    expected *= LENGTH / np.linalg.norm(expected, axis=1).mean()
    signs = np.sign((expected * outputs).sum(0))
    np.testing.assert_allclose(outputs * signs, expected, atol=0.02)
    assert np.linalg.norm(outputs, axis=1).mean() == pytest.approx(LENGTH, rel=1e-3)
    np.testing.assert_allclose(outputs.mean(0), 0, atol=0.01)


def test_rows_beyond_the_directions_stay_random_and_centred():
    for items, length, number in ((200, 6, 6), (5, 30, 4)):
        features = features_of(items, length)
        head, before, outputs = started(features, 10)
        ratio = (head.weight[number:] / before[number:]).detach()
        assert ratio.std() < 1e-4 * ratio.mean()  # scaled as all are
        rows = head.weight[:number] @ head.weight[:number].mT
        torch.testing.assert_close(rows, ratio.mean() ** 2 * torch.eye(number), rtol=1e-3, atol=1e-2)
        np.testing.assert_allclose(outputs.mean(0), 0, atol=0.02)
        assert np.linalg.norm(outputs, axis=1).mean() == pytest.approx(LENGTH, rel=1e-3)


def test_all_components_keep_the_neighbours_of_the_centred_features():
    features = features_of(300, 10)
    labels = (features @ np.ones(10) > features.sum(1).mean()).astype(int)
    _, _, outputs = started(features, 10)
    assert recall_at_k(outputs, labels, (1,)) == recall_at_k(features, labels, (1,))


def test_the_start_does_not_depend_on_anything_but_the_features():
    features = features_of(100, 8)
    one, two = (started(features, 4, seed)[0] for seed in (0, 1))
    assert torch.equal(one.weight, two.weight)
    assert torch.equal(one.bias, two.bias)


@pytest.mark.parametrize("items", [1, 7])
def test_features_without_variance_leave_the_head_as_it_is(items):
    head, before, _ = started(np.full((items, 5), 2.5, np.float32), 3)
    assert torch.equal(head.weight, before)


def test_many_items_are_represented_by_evenly_spaced_ones():
    assert chosen_items(100, 10).tolist() == list(range(100))
    for features, most in ((MANY_FEATURES, MOST_ITEMS), (MANY_FEATURES + 1, MANY_FEATURES)):
        rows = chosen_items(100_000, features)
        assert len(set(rows.tolist())) == most
        assert (rows[0], rows[-1]) == (0, 99_999)
        assert np.diff(rows).max() - np.diff(rows).min() <= 1
