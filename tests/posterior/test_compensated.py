"""Sums in float32 that do not drift, and their remainders in a state."""

import functools

import pytest
import torch

from bayestriplet.posterior.compensated import sum_of
from bayestriplet.posterior.posterior import ClassPosterior

CLASSES, DIM = 2, 4
SUMS = {
    "full": "item_scatter",
    "tied": "pooled_scatter",
    "lowrank": "item_diagonal",
    "diagonal": "item_variance",
}
LABELS = torch.arange(8) % CLASSES


def batches(number, seed=0):
    return torch.randn(number, 8, DIM, generator=torch.Generator().manual_seed(seed)) + 30.0


def updated(structure, stream, posterior=None, **options):
    posterior = posterior or ClassPosterior(CLASSES, DIM, structure=structure, **options)
    for batch in stream:
        posterior.update(batch, LABELS)
    return posterior


@functools.cache
def exact(structure):
    """The statistics of a long stream in double precision."""
    return updated(structure, batches(4000).double(), dtype=torch.float64)


def relative(found, expected):
    return float((found.double() - expected).abs().max() / expected.abs().max())


def test_a_sum_and_its_remainder_are_the_exact_sum():
    total, more = torch.tensor([1e8, 1.0, -3.0]), torch.tensor([1.25, 1e-9, 3.0])
    new, rest = sum_of(total, more)
    assert (new.double() + rest).tolist() == (total.double() + more).tolist()


@pytest.mark.parametrize("structure", SUMS)
def test_statistics_in_float32_do_not_drift(structure):
    stream = batches(4000)
    one, expected = updated(structure, stream), exact(structure)
    name = SUMS[structure]
    assert relative(one.item_mean, expected.item_mean) < 1e-7
    assert relative(getattr(one.structure, name), getattr(expected.structure, name)) < 2e-7


def test_without_remainders_the_same_statistics_drift():
    stream, posterior = batches(4000), ClassPosterior(CLASSES, DIM, structure="full")
    posterior.mean_rest = posterior.structure.scatter_rest = None
    updated("full", stream, posterior)
    assert relative(posterior.item_mean, exact("full").item_mean) > 1e-7
    assert relative(posterior.item_scatter, exact("full").item_scatter) > 1e-6


@pytest.mark.parametrize("structure", SUMS)
def test_a_posterior_that_was_saved_goes_on_to_the_last_bit(structure):
    stream = batches(60)
    whole, half = updated(structure, stream), updated(structure, stream[:30])
    other = ClassPosterior(CLASSES, DIM, structure=structure)
    other.load_state_dict(half.state_dict())
    assert other.mean_rest.abs().max() > 0
    assert other.structure.scatter_rest.abs().max() > 0
    updated(structure, stream[30:], other)
    for name, value in whole.state_dict().items():
        assert torch.equal(other.state_dict()[name], value), name


def test_a_state_from_before_remainders_were_kept_is_loaded():
    state = updated("full", batches(30)).state_dict()
    for name in ("mean_rest", "scatter_rest"):
        del state[name]
    posterior = updated("full", batches(5, seed=1))
    posterior.load_state_dict(state)
    assert torch.equal(posterior.item_mean, state["item_mean"])
    assert not posterior.mean_rest.any()
    assert not posterior.structure.scatter_rest.any()


@pytest.mark.parametrize("options", [{"memory": 20.0}, {"dtype": torch.float64}])
def test_who_forgets_or_is_exact_keeps_no_remainders_and_loads_states_that_have_them(options):
    posterior = ClassPosterior(CLASSES, DIM, **options)
    assert not {"mean_rest", "scatter_rest"} & set(posterior.state_dict())
    state = updated("full", batches(30)).state_dict()
    posterior.load_state_dict(state)
    assert torch.equal(posterior.item_mean, state["item_mean"].to(posterior.item_mean.dtype))


def test_remainders_of_statistics_that_somebody_changed_are_given_up():
    posterior = updated("full", batches(30))
    posterior.item_mean.fill_(1.0)
    posterior.refresh()
    assert not posterior.mean_rest.any()
