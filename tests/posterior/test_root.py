"""The root of the scatters: always a root, whatever the stream, and part of the state."""

import copy
import pickle

import numpy as np
import pytest
import torch

from bayestriplet.posterior.posterior import ClassPosterior
from bayestriplet.posterior.root import ABSENT, square_root

STREAMS = {
    "balanced": [torch.arange(12) % 3] * 40,
    "ragged, with absent classes": [torch.randint(0, 3, (1 + i % 7,)) for i in range(60)],
    "one item at a time": [torch.tensor([i % 3]) for i in range(90)],
    "batches larger than the root has room for": [torch.arange(60) % 3] * 3,
}


def scatter_of(root):
    behind = torch.arange(root.lines.shape[1]) >= root.used.unsqueeze(1)
    assert not root.lines[behind & (root.used != ABSENT).unsqueeze(1)].any()  # a draw reads beyond ``used``
    lines = root.lines * root.scale[:, None, None]
    return lines.mT @ lines


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("memory", [None, 20.0, 0.5])
@pytest.mark.parametrize("dim", [1, 2, 12])
def test_the_root_squares_to_the_scatter_along_any_stream(stream, memory, dim):
    posterior = ClassPosterior(3, dim, memory=memory, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    posterior.update(torch.randn(6, dim, generator=generator).double() + 100, torch.arange(6) % 3)
    kept = 0
    for labels in STREAMS[stream]:
        posterior.sample(torch.arange(3), 1, generator)
        posterior.update(torch.randn(len(labels), dim, generator=generator).double() + 100, labels)
        there = posterior.root.used != ABSENT
        kept += bool(there.all())
        scatter = posterior.item_scatter
        bound = 1e-9 * scatter.abs().max()
        got = scatter_of(posterior.root)
        np.testing.assert_allclose(got[there], scatter[there], rtol=1e-9, atol=bound)
    if dim == 12 and memory != 0.5 and stream != "batches larger than the root has room for":
        assert kept > len(STREAMS[stream]) / 4  # it was really kept, not always made anew


def test_draws_between_two_factorisations_have_the_moments_of_the_posterior():
    posterior = ClassPosterior(2, 12, memory=15.0, dtype=torch.float64)
    generator = torch.Generator().manual_seed(1)
    for _ in range(3):
        items = torch.randn(8, 12, generator=generator).double() * torch.linspace(0.2, 3, 12)
        posterior.update(items, torch.arange(8) % 2)
        posterior.sample(torch.arange(2), 1, generator)
    posterior.update(torch.randn(3, 12, generator=generator).double() + 2, torch.tensor([0, 0, 1]))
    assert (posterior.root.used > 12).all()
    draws = posterior.sample(torch.arange(2), 200_000, generator)  # (2, S, D)
    for k in range(2):
        centred = draws[k] - posterior.mean[k]
        deviation = posterior.covariance[k].diagonal().sqrt()
        np.testing.assert_allclose(centred.mean(0) / deviation, 0, atol=0.012)  # 5 standard errors
        error = (centred.T @ centred / 200_000 - posterior.covariance[k]) / torch.outer(deviation, deviation)
        np.testing.assert_allclose(error, 0, atol=0.02)


def test_a_copy_through_the_state_dict_goes_on_drawing_the_same_points():
    posterior = ClassPosterior(3, 12, memory=20.0)
    generator = torch.Generator().manual_seed(2)
    for _ in range(2):
        posterior.update(torch.randn(9, 12, generator=generator), torch.arange(9) % 3)
        posterior.sample(torch.arange(3), 2, generator)
    assert (posterior.root.used > 0).all()
    other = ClassPosterior(3, 12, memory=20.0)
    other.load_state_dict(posterior.state_dict())
    more = torch.randn(9, 12, generator=generator)
    copies = (posterior, other, copy.deepcopy(posterior))
    for one in copies:
        one.update(more, torch.arange(9) % 3)
    draws = [one.sample(torch.arange(3), 5, torch.Generator().manual_seed(3)) for one in copies]
    assert torch.equal(draws[0], draws[1])
    assert torch.equal(draws[0], draws[2])


def test_a_singular_matrix_has_a_root_too():
    rows = torch.randn(4, 2, 6, dtype=torch.float64)
    root = square_root(rows.mT @ rows)
    torch.testing.assert_close(root.mT @ root, rows.mT @ rows)


def test_statistics_saved_without_a_root_are_loaded_and_drawn_from():
    posterior = ClassPosterior(2, 4)
    posterior.update(torch.randn(8, 4), torch.arange(8) % 2)
    state = {name: value for name, value in posterior.state_dict().items() if "root" not in name}
    other = ClassPosterior(2, 4)
    other.update(torch.randn(8, 4), torch.arange(8) % 2)
    other.sample(torch.arange(2), 1)
    other.load_state_dict(state)
    posterior.root.give_up()
    draws = [one.sample(torch.arange(2), 3, torch.Generator().manual_seed(0)) for one in (posterior, other)]
    assert torch.equal(*draws)


def ready(seed=0):
    """A posterior with a root that has rows of its own."""
    posterior = ClassPosterior(3, 6, dtype=torch.float64)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(2):
        posterior.update(torch.randn(12, 6, generator=generator).double(), torch.arange(12) % 3)
        posterior.sample(torch.arange(3), 1, generator)
    assert (posterior.root.used > 6).all()
    return posterior


def test_scatters_that_somebody_edits_are_what_is_drawn_from():
    posterior = ready()
    posterior.item_scatter.mul_(100)
    posterior.sample(torch.arange(3), 1)
    np.testing.assert_allclose(scatter_of(posterior.root), posterior.item_scatter, rtol=1e-9, atol=1e-9)


def test_an_edit_before_an_update_is_not_lost_either():
    posterior = ready()
    with torch.no_grad():
        posterior.item_scatter[1] = 7 * torch.eye(6, dtype=torch.float64)
    posterior.update(torch.randn(2, 6).double(), torch.tensor([0, 1]))
    posterior.sample(torch.arange(3), 1)
    np.testing.assert_allclose(scatter_of(posterior.root), posterior.item_scatter, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("move", ["deepcopy", "pickle", "load", "load into a criterion", "to"])
def test_a_posterior_that_was_moved_draws_the_very_same_points(move):
    posterior = ready()
    posterior.update(torch.randn(2, 6).double(), torch.tensor([0, 1]))  # its root is not that of Cholesky
    used = posterior.root.used.clone()
    other = ClassPosterior(3, 6, dtype=torch.float64)
    if move == "deepcopy":
        other = copy.deepcopy(posterior)
    elif move == "pickle":
        other = pickle.loads(pickle.dumps(posterior))
    elif move == "load":
        other.load_state_dict(posterior.state_dict())
    elif move == "load into a criterion":
        outer = torch.nn.ModuleDict({"posterior": other})
        outer.load_state_dict({f"posterior.{key}": value for key, value in posterior.state_dict().items()})
    else:
        other.load_state_dict(posterior.state_dict())
        other = other.to(torch.float64).cpu()
    draws = [one.sample(torch.arange(3), 4, torch.Generator().manual_seed(3)) for one in (posterior, other)]
    assert torch.equal(*draws)
    assert torch.equal(other.root.used, used)


def test_a_state_with_the_earlier_root_of_one_number_of_rows_is_loaded_and_drawn_from():
    posterior = ready()
    state = posterior.state_dict()
    state |= {"root.used": torch.tensor(6), "root.lines": torch.zeros(3, 9, 6, dtype=torch.float64)}
    del state["sums"], state["origin"]
    other = ClassPosterior(3, 6, dtype=torch.float64)
    other.load_state_dict(state)
    assert (other.root.used == ABSENT).all()
    torch.testing.assert_close(other.covariance, posterior.covariance)
    other.sample(torch.tensor([0, 2]), 1)
    assert (other.root.used == ABSENT).tolist() == [False, True, False]  # made when first drawn from
    np.testing.assert_allclose(
        scatter_of(other.root)[[0, 2]], other.item_scatter[[0, 2]], rtol=1e-9, atol=1e-9
    )


def test_roots_are_made_anew_when_their_classes_are_drawn_from_and_never_all_at_once():
    posterior, renewed = ClassPosterior(40, 32), []
    generator = torch.Generator().manual_seed(0)

    def update():
        posterior.update(torch.randn(40, 32, generator=generator), torch.arange(40))

    for _ in range(150):  # all classes have as many rows as each other
        update()
        before = posterior.root.used.clone()
        posterior.draw(posterior.everyone(), 1, None, distribution="normal", noise=1.0)
        renewed.append(int((posterior.root.used < before).sum()))
    assert sum(renewed) >= 2 * 40
    assert max(renewed) <= 40 / 4
    for _ in range(60):
        update()
    before = posterior.root.used.clone()
    posterior.sample(torch.tensor([3]), 1)
    assert (posterior.root.used != before).nonzero().flatten().tolist() == [3]
