"""Structures of the covariance: each against the full one on data that have its structure, and scipy."""

import copy
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

from bayestriplet import BUNCA, ClassPosterior, NIWPrior
from bayestriplet.errors import BayesTripletError, InputError, StateError
from bayestriplet.posterior import structures
from bayestriplet.posterior.lowrank import leading_rows
from bayestriplet.posterior.structures import bytes_needed, choose_structure
from tests.posterior.test_posterior import (
    assert_equal_state,
    empirical_by_hand,
    given_prior,
)
from tests.posterior.test_statistics import items, slow_statistics

DIM, SIZES = 12, (9, 30, 1, 0, 14)
LESS = ("tied", "lowrank", "diagonal")
EVERY = ("full", *LESS)


def batches_of(kind, memory=None):
    """A stream whose scatters have a structure exactly: rank 8, diagonal, or the same for all classes."""
    rng = np.random.default_rng(3)
    basis = np.linalg.qr(rng.normal(size=(DIM, DIM)))[0]
    for _ in range(4):
        if kind == "lowrank":
            labels = np.repeat(np.arange(5), 4)
            values = rng.normal(size=(20, 8)) @ basis[:8] + 3
        elif kind == "diagonal":  # steps along one axis at a time, there and back
            axis, side = np.repeat(np.arange(DIM), 2), np.tile([1.0, -1.0], DIM)
            labels = np.repeat(np.arange(5), 2 * DIM)
            values = np.tile(np.eye(DIM)[axis] * side[:, None], (5, 1)) * (1 + labels[:, None])
        else:  # "tied": the same cloud in every class
            cloud = rng.normal(size=(20, DIM)) @ rng.normal(size=(DIM, DIM))
            labels = np.repeat(np.arange(5), 20)
            values = np.tile(cloud - cloud.mean(0), (5, 1))
        yield torch.from_numpy(values), torch.from_numpy(labels)


def filled(structure, kind=None, memory=None, **options):
    posterior = ClassPosterior(5, DIM, dtype=torch.float64, structure=structure, memory=memory, **options)
    stream = batches_of(kind) if kind else [items(SIZES, DIM, 1.0, seed) for seed in range(3)]
    for values, labels in stream:
        posterior.update(values, labels)
    return posterior


@pytest.mark.parametrize("memory", [None, 7.0])
@pytest.mark.parametrize("structure", LESS)
def test_a_structure_is_the_full_one_on_data_that_have_it(structure, memory):
    one, full = (filled(name, structure, memory) for name in (structure, "full"))
    x = torch.randn(6, DIM, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(one.count, full.count)
    torch.testing.assert_close(one.mean, full.mean)
    torch.testing.assert_close(one.covariance, full.covariance, rtol=1e-8, atol=1e-9)
    torch.testing.assert_close(one.covariance_of(torch.tensor([3, 1, 3])), full.covariance[[3, 1, 3]])
    for density in ("log_predictive", "log_mean_density", "class_probabilities"):
        got, want = (getattr(posterior, density)(x) for posterior in (one, full))
        torch.testing.assert_close(got, want, rtol=1e-8, atol=1e-7)


@pytest.mark.parametrize("structure", EVERY)
@pytest.mark.parametrize("prior", ["empirical", "given", "scalar"])
def test_densities_are_scipys_with_the_structured_matrix(structure, prior):
    given = given_prior(DIM) if prior == "given" else (np.zeros(DIM), 0.7, 2 * np.eye(DIM), DIM + 3.5)
    scale = torch.from_numpy(given[2]) if prior == "given" else torch.tensor(2.0, dtype=torch.float64)
    option = (
        prior if prior == "empirical" else NIWPrior(torch.from_numpy(given[0]), given[1], scale, given[3])
    )
    posterior = filled(structure, prior=option)
    values, labels = (
        torch.cat(part) for part in zip(*(items(SIZES, DIM, 1.0, s) for s in range(3)), strict=True)
    )
    m0, kappa0, psi0, nu0 = empirical_by_hand(values, labels, 5) if prior == "empirical" else given
    x = values[:5] + 0.3
    predictive, of_mean = posterior.log_predictive(x), posterior.log_mean_density(x)
    scatter = posterior.statistics.scatter.numpy()
    for k, (n, m, _) in enumerate(zip(*slow_statistics(values, labels, 5), strict=True)):
        if not n:
            assert (predictive[:, k] == -math.inf).all()
            continue
        kappa, nu = kappa0 + n, nu0 + n
        psi = psi0 + scatter[k] + kappa0 * n / kappa * np.outer(m - m0, m - m0)
        mean, df = (kappa0 * m0 + n * m) / kappa, nu - DIM + 1
        np.testing.assert_allclose(posterior.covariance[k], psi / (nu - DIM - 1), rtol=1e-7, atol=1e-9)
        for got, factor in ((predictive, (kappa + 1) / kappa), (of_mean, 1 / kappa)):
            want = stats.multivariate_t(mean, psi * factor / df, df).logpdf(x.numpy())
            np.testing.assert_allclose(got[:, k], want, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("structure", EVERY)
def test_densities_with_the_improper_prior_are_scipys_too(structure):
    posterior = ClassPosterior(2, DIM, prior="improper", dtype=torch.float64, structure=structure)
    values, labels = items((20, 31), DIM)
    posterior.update(values, labels)
    scatter = posterior.statistics.scatter.numpy()
    predictive = posterior.log_predictive(values[:5] + 0.3)
    for k, (n, m, _) in enumerate(zip(*slow_statistics(values, labels, 2), strict=True)):
        df = n - DIM + 1
        want = stats.multivariate_t(m, scatter[k] * (n + 1) / (n * df), df).logpdf(values[:5].numpy() + 0.3)
        np.testing.assert_allclose(predictive[:, k], want, rtol=1e-6, atol=1e-5)


def test_a_tied_scatter_of_fewer_rows_than_dimensions_is_drawn_from_exactly():
    posterior = ClassPosterior(3, 6, structure="tied", dtype=torch.float64)
    values, labels = items((3, 2, 1), 6)  # three rows
    posterior.update(values, labels)
    posterior.sample(torch.tensor([0]), 1)
    assert posterior.structure.is_thin
    root = posterior.structure._root()
    torch.testing.assert_close(root.mT @ root, posterior.structure.pooled_scatter)
    drawn = posterior.sample(torch.tensor([0]), 50_000, torch.Generator().manual_seed(0))[0]
    torch.testing.assert_close(torch.cov(drawn.T), posterior.covariance[0], rtol=0.05, atol=0.02)
    posterior.update(*items((9, 9, 9), 6, seed=1))
    posterior.sample(torch.tensor([0]), 1)
    assert not posterior.structure.is_thin
    assert torch.equal(posterior.structure._root().tril(-1), torch.zeros(6, 6, dtype=torch.float64))


@pytest.mark.parametrize("structure", EVERY)
@pytest.mark.parametrize("distribution", ["normal", "student_t"])
def test_draws_have_the_mean_and_the_structured_covariance(structure, distribution):
    posterior = filled(structure, memory=11.0)
    num = 100_000
    generator = torch.Generator().manual_seed(2)
    drawn = posterior.sample(torch.tensor([4, 0]), num, generator, distribution=distribution)
    for points, k in zip(drawn, (4, 0), strict=True):
        covariance = posterior.covariance[k]
        if distribution == "student_t":
            n = posterior.count[k]
            covariance = covariance * (n + 1.01) / (n + 0.01)  # E[Sigma] (kappa + 1) / kappa
        deviation = covariance.diagonal().sqrt()
        np.testing.assert_allclose((points.mean(0) - posterior.mean[k]) / deviation, 0, atol=0.02)
        error = (torch.cov(points.T) - covariance) / torch.outer(deviation, deviation)
        np.testing.assert_allclose(error, 0, atol=0.05)


@pytest.mark.parametrize("memory", [None, 7.0])
def test_low_rank_keeps_the_diagonal_exactly_and_is_off_by_no_more_than_what_is_cut_off(memory):
    one, full = (filled(name, memory=memory) for name in ("lowrank", "full"))
    torch.testing.assert_close(one.count, full.count)
    torch.testing.assert_close(one.item_mean, full.item_mean)
    remainder = one.structure.item_diagonal - one.structure.item_factor.square().sum(1)
    assert remainder.min() > -1e-9
    got, want = one.statistics.scatter, full.statistics.scatter
    torch.testing.assert_close(got.diagonal(dim1=1, dim2=2), want.diagonal(dim1=1, dim2=2))
    for k in range(5):
        kept = one.structure.item_factor[k].square().sum()
        mass_cut_off = want[k].trace() - kept
        assert torch.linalg.matrix_norm(got[k] - want[k], 2) <= mass_cut_off + 1e-9
        assert (mass_cut_off > 0.1) == (SIZES[k] > 3)  # those of more than eight items lose something
        assert torch.linalg.eigvalsh(got[k]).min() > -1e-9


@pytest.mark.parametrize(("number", "rank"), [(3, 8), (8, 8), (20, 8)])
def test_the_leading_rows_are_those_of_a_truncated_singular_value_decomposition(number, rank):
    rows = torch.randn(4, number, DIM, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    kept = leading_rows(rows, rank)
    u, s, v = torch.linalg.svd(rows, full_matrices=False)
    s[:, rank:] = 0
    best = u @ torch.diag_embed(s) @ v
    torch.testing.assert_close(kept.mT @ kept, best.mT @ best, rtol=1e-9, atol=1e-9)


def test_the_tied_scatter_is_the_sum_of_all_and_forgetting_takes_the_classs_share():
    tied, full = filled("tied"), filled("full")
    torch.testing.assert_close(tied.structure.pooled_scatter, full.item_scatter.sum(0))
    posterior = ClassPosterior(2, 3, structure="tied", memory=6.0, dtype=torch.float64)
    values, labels = items((4, 6), 3)
    posterior.update(values, labels)
    pooled = posterior.structure.pooled_scatter.clone()
    more, _ = items((4, 0), 3, seed=5)
    n, m, extra = 4.0, posterior.item_mean[0].clone(), more.mean(0)
    added = (more - extra).T @ (more - extra) + n * 4 / (n + 4) * torch.outer(m - extra, m - extra)
    posterior.update(more, torch.zeros(4, dtype=torch.int64))
    share = 8 / 14  # 8 of the 14 items are of the class, and it keeps 6 of its 8
    torch.testing.assert_close(posterior.structure.pooled_scatter, (pooled + added) * (1 - share / 4))


# Sums


@pytest.mark.parametrize("structure", EVERY)
@pytest.mark.parametrize("memory", [None, 4.0])
def test_the_sums_kept_by_differences_are_those_of_all_classes(structure, memory):
    posterior = ClassPosterior(30, 6, structure=structure, memory=memory)
    generator = torch.Generator().manual_seed(0)
    for _ in range(60):
        labels = torch.randint(0, 29, (5,), generator=generator)
        posterior.update(torch.randn(5, 6, generator=generator) + 1000, labels)
    kept = posterior.sums.clone(), posterior.mean.clone(), posterior.covariance.clone()
    other = copy.deepcopy(posterior)
    other.count.mul_(1)  # an edit, so that all is summed anew
    other.refresh()
    assert not torch.equal(other.origin, posterior.origin)
    torch.testing.assert_close(other.mean, kept[1])
    torch.testing.assert_close(other.covariance, kept[2])
    shift = posterior.item_mean.double() - posterior.origin
    n = posterior.count
    trace = posterior.statistics.scatter.diagonal(dim1=1, dim2=2).double().sum()
    by_hand = [n.sum(), (n > 0).sum(), (n * shift.square().sum(1)).sum(), trace]
    np.testing.assert_allclose(kept[0][:6], (n[:, None] * shift).sum(0), rtol=1e-10, atol=1e-9)
    np.testing.assert_allclose(kept[0][6:], [float(value) for value in by_hand], rtol=1e-6)


def test_an_edit_of_a_mean_reaches_the_prior():
    posterior = filled("diagonal")
    before = posterior.mean[3].clone()  # never seen: the prior's mean
    posterior.item_mean[0] += 100
    assert (posterior.mean[3] - before).min() > 10


# State


@pytest.mark.parametrize("structure", EVERY)
def test_every_structure_is_saved_loaded_copied_and_moved(structure, tmp_path):
    posterior = filled(structure, memory=5.0)
    torch.save(posterior.state_dict(), tmp_path / "state.pt")
    other = ClassPosterior(5, DIM, dtype=torch.float64, memory=5.0, structure=structure)
    other.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    copies = (other, copy.deepcopy(posterior), copy.deepcopy(posterior).to(torch.float64).half())
    for one in copies:
        assert_equal_state(one, posterior)
    for one in copies:
        draws = [p.sample(torch.arange(3), 2, torch.Generator().manual_seed(1)) for p in (one, posterior)]
        assert torch.equal(*draws)


def test_the_state_of_full_has_the_names_it_always_had():
    names = set(torch.nn.ModuleDict({"p": filled("full")}).state_dict())
    expected = {"count", "seen", "item_mean", "item_scatter", "root.lines", "root.scale", "root.used"}
    expected |= {"sums", "origin", "separation"}
    assert names == {f"p.{name}" for name in expected}
    names = set(ClassPosterior(3, 4).state_dict())
    assert names == expected | {"mean_rest", "scatter_rest"}


@pytest.mark.parametrize("saved", EVERY)
@pytest.mark.parametrize("structure", EVERY)
def test_a_state_of_another_structure_is_refused_and_changes_nothing(saved, structure):
    if saved == structure:
        return
    posterior = filled(structure)
    before = copy.deepcopy(posterior)
    with pytest.raises(StateError, match=f"^the state is of structure='{saved}'.*structure='{structure}'"):
        posterior.load_state_dict(filled(saved, memory=3.0).state_dict())
    assert_equal_state(posterior, before)


def test_a_criterion_refuses_the_state_of_another_structure_and_stays_what_it_is():
    criterion, other = (BUNCA(5, DIM, structure=structure) for structure in ("full", "diagonal"))
    for one in (criterion, other):
        values, labels = items(SIZES, DIM)
        one(values.float(), labels)
    before = copy.deepcopy(criterion.state_dict())
    with pytest.raises(StateError, match=r"^the state is of structure='diagonal'[^\n]*$"):
        criterion.load_state_dict(other.state_dict())
    for name, value in criterion.state_dict().items():
        assert torch.equal(value, before[name]), name


# Choosing


def test_auto_is_full_while_its_state_fits_into_64_mb_and_then_low_rank():
    for classes, dim, expected in (
        (10, 128, "full"),
        (100, 128, "full"),
        (1000, 128, "lowrank"),
        (2, 4096, "lowrank"),
    ):
        assert choose_structure("auto", classes, dim, torch.float32) == expected
    assert ClassPosterior(1000, 128).structure.name == "lowrank"


@pytest.mark.parametrize("structure", EVERY)
def test_the_bytes_that_are_computed_are_those_that_are_allocated(structure):
    for memory in (None, 20.0):
        posterior = ClassPosterior(40, 24, structure=structure, memory=memory)
        allocated = sum(buffer.numel() * buffer.itemsize for buffer in posterior.buffers())
        needed = bytes_needed(structure, 40, 24, torch.float32, compensated=memory is None)
        assert needed == pytest.approx(allocated, rel=0.05)


def test_what_cannot_fit_is_refused_with_the_numbers_and_what_would(monkeypatch):
    monkeypatch.setattr(structures, "memory_of_machine", lambda: 8 * 10**9)
    with pytest.raises(
        InputError,
        match=r"1000000 classes in 128 dimensions need 205 GB with structure='full', more "
        r"than the 8 GB of this machine; structure='lowrank' needs 5.14 GB",
    ):
        ClassPosterior(1_000_000, 128, structure="full", memory=20.0)
    with pytest.raises(InputError, match="structure='diagonal' needs"):
        ClassPosterior(4_000_000, 128, memory=20.0)
    with pytest.raises(
        InputError, match=r"the least, structure='tied', needs .* use fewer classes or dimensions"
    ):
        ClassPosterior(10**15, 10**6)


def test_covariances_that_do_not_fit_name_how_to_ask_for_some():
    posterior = ClassPosterior(30_000, 128)
    with pytest.raises(StateError, match=r"30000 covariances take 1.97 GB; .*covariance_of\(classes\)"):
        _ = posterior.covariance
    assert posterior.covariance_of(torch.tensor([7])).shape == (1, 128, 128)
    with pytest.raises(StateError, match="structure='lowrank' keeps no scatters"):
        _ = posterior.item_scatter


def test_an_unknown_structure_is_refused():
    with pytest.raises(
        BayesTripletError, match=r"structure must be one of .*; got 'lowrnk'; did you mean 'lowrank'"
    ):
        ClassPosterior(3, 4, structure="lowrnk")


def test_the_numbers_of_classes_that_the_documents_name_are_those_that_fit():
    for dtype, most in ((torch.float32, 326), (torch.float64, 163)):
        assert choose_structure("auto", most, 128, dtype) == "full"
        assert choose_structure("auto", most + 1, 128, dtype) == "lowrank"
    text = (Path(__file__).parents[2] / "docs" / "scale.md").read_text(encoding="utf-8")
    assert "up to 326 classes" in text
    assert "up to 163" in text
