import copy
import math
import multiprocessing

import numpy as np
import pytest
import torch
from scipy import stats

from bayestriplet import ClassPosterior, NIWPrior
from bayestriplet.errors import BayesTripletError, InputError, InputTypeError, StateError
from tests.posterior.test_statistics import items, slow_statistics

DOUBLE = {"dtype": torch.float64}


def niw_by_hand(values, labels, num_classes, prior):
    """The posterior NIW of each class, one at a time: (m_n, kappa_n, Psi_n, nu_n)."""
    m0, kappa0, psi0, nu0 = prior
    out = []
    for n, m, scatter in zip(*slow_statistics(values, labels, num_classes), strict=True):
        kappa = kappa0 + n
        mean = (kappa0 * m0 + n * m) / kappa
        psi = psi0 + scatter + kappa0 * n / kappa * np.outer(m - m0, m - m0)
        out.append((mean, kappa, psi, nu0 + n))
    return out


def empirical_by_hand(values, labels, num_classes):
    """The empirical prior from the items themselves, without sufficient statistics."""
    x, y = values.numpy(), labels.numpy()
    dim, n, seen = x.shape[1], len(x), len(np.unique(y))
    within = sum(((x[y == k] - x[y == k].mean(0)) ** 2).sum() for k in np.unique(y))
    total = ((x - x.mean(0)) ** 2).sum()
    variance = (within + total / n) / (dim * (n - seen + 1))
    return x.mean(0), 0.01, variance * np.eye(dim), dim + 2.0


def given_prior(dim, offset=0.0, seed=1):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(dim, dim))
    return rng.normal(size=dim) + offset, 0.7, root @ root.T + np.eye(dim), dim + 3.5


def posterior_of(values, labels, num_classes, prior, **options):
    posterior = ClassPosterior(num_classes, values.shape[1], prior=prior, **(DOUBLE | options))
    posterior.update(values, labels)
    return posterior


@pytest.mark.parametrize("dim", [1, 2, 5, 128])
@pytest.mark.parametrize("offset", [0.0, 1e4])
@pytest.mark.parametrize("sizes", [(6, 4, 9), (1, 1, 1), (3, 0, 5)])
@pytest.mark.parametrize("prior", ["empirical", "given"])
def test_mean_covariance_and_both_t_densities_match_scipy(dim, offset, sizes, prior):
    values, labels = items(sizes, dim, offset)
    by_hand = empirical_by_hand(values, labels, 3) if prior == "empirical" else given_prior(dim, offset)
    option = (
        prior
        if prior == "empirical"
        else NIWPrior(torch.from_numpy(by_hand[0]), by_hand[1], torch.from_numpy(by_hand[2]), by_hand[3])
    )
    posterior = posterior_of(values, labels, 3, option)
    x = values[:4] + 0.3
    predictive, of_mean = posterior.log_predictive(x), posterior.log_mean_density(x)
    for k, (mean, kappa, psi, nu) in enumerate(niw_by_hand(values, labels, 3, by_hand)):
        np.testing.assert_allclose(posterior.mean[k], mean, rtol=1e-9, atol=1e-9)
        scale = np.abs(psi).max()
        expected = stats.invwishart(nu, psi).mean()
        np.testing.assert_allclose(posterior.covariance[k], expected, rtol=1e-7, atol=1e-7 * scale)
        if sizes[k] == 0:
            assert (predictive[:, k] == -math.inf).all()
            continue
        df = nu - dim + 1
        for got, factor in ((predictive, (kappa + 1) / kappa), (of_mean, 1 / kappa)):
            want = stats.multivariate_t(mean, psi * factor / df, df).logpdf(x.numpy())
            np.testing.assert_allclose(got[:, k], want, rtol=1e-6, atol=1e-5)


def test_expected_covariance_under_the_empirical_prior_is_scale_over_n_plus_one():
    values, labels = items((4, 2), 3)
    posterior = posterior_of(values, labels, 2, "empirical")
    _, _, psi, _ = niw_by_hand(values, labels, 2, empirical_by_hand(values, labels, 2))[0]
    np.testing.assert_allclose(posterior.covariance[0], psi / 5)


@pytest.mark.parametrize(("size", "divisor"), [(1, 1), (3, 3), (6, 6), (7, 1), (12, 6)])
def test_improper_prior_divides_by_n_up_to_dim_plus_one_items_and_keeps_the_spike(size, divisor):
    values, labels = items((size, 2), 5)
    posterior = posterior_of(values, labels, 2, "improper")
    scatter = slow_statistics(values, labels, 2)[2][0]
    np.testing.assert_allclose(posterior.covariance[0], scatter / divisor, atol=1e-12)


def test_improper_prior_has_scipys_density_once_a_class_is_large_enough_and_says_so_before():
    values, labels = items((9, 8), 5)
    posterior = posterior_of(values, labels, 2, "improper")
    for k, (n, m, scatter) in enumerate(zip(*slow_statistics(values, labels, 2), strict=True)):
        df = n - 5 + 1
        want = stats.multivariate_t(m, scatter * (n + 1) / n / df, df).logpdf(values[:3].numpy())
        np.testing.assert_allclose(posterior.log_predictive(values[:3])[:, k], want, rtol=1e-8)
    values, labels = items((9, 6), 5)
    with pytest.raises(StateError, match="no predictive density up to D \\+ 1 = 6 items"):
        posterior_of(values, labels, 2, "improper").log_predictive(values)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_improper_prior_reads_zeros_for_a_class_never_seen(dtype):
    values, labels = items((3, 0), 2)
    posterior = posterior_of(values, labels, 2, "improper", dtype=dtype)
    assert not posterior.mean[1].any()
    assert not posterior.covariance[1].any()


def test_a_singular_scatter_has_no_density_under_the_improper_prior():
    values = torch.zeros(20, 3, dtype=torch.float64)
    values[:, 0] = torch.arange(20)
    with pytest.raises(StateError, match="singular"):
        posterior_of(values, torch.arange(20) % 2, 2, "improper").log_predictive(values)


def test_expected_covariance_is_undefined_below_a_given_priors_freedom():
    prior = NIWPrior(torch.zeros(3), 1.0, torch.eye(3), 3.0)
    posterior = ClassPosterior(2, 3, prior=prior)
    assert posterior.covariance.isnan().all()
    posterior.update(torch.randn(1, 3), torch.tensor([0]))
    with pytest.raises(StateError, match="student_t"):
        posterior.sample(torch.tensor([0]), 4)
    assert posterior.sample(torch.tensor([0]), 4, distribution="student_t").shape == (1, 4, 3)


def test_without_memory_any_split_and_order_of_the_stream_gives_the_same_state():
    values, labels = items((7, 3, 5), 4, offset=2.0)
    whole = posterior_of(values, labels, 3, "empirical")
    for seed in range(5):
        rng = np.random.default_rng(seed)
        order = torch.from_numpy(rng.permutation(len(values)))
        posterior = ClassPosterior(3, 4, **DOUBLE)
        for part in np.array_split(order, rng.integers(1, len(values))):
            posterior.update(values[part], labels[part])
        for name in ("count", "seen", "item_mean", "item_scatter", "mean", "covariance"):
            torch.testing.assert_close(getattr(posterior, name), getattr(whole, name), rtol=1e-10, atol=1e-10)


def test_twenty_thousand_updates_drift_by_less_than_one_in_ten_billion():
    dim, steps = 5, 20_000
    generator = torch.Generator().manual_seed(3)
    values = torch.randn(steps, 4, dim, dtype=torch.float64, generator=generator) + 10.0
    labels = torch.arange(4) % 2
    posterior = ClassPosterior(2, dim, **DOUBLE)
    for batch in values:
        posterior.update(batch, labels)
    _, mean, scatter = slow_statistics(values.flatten(0, 1), labels.repeat(steps), 2)
    assert posterior.seen.tolist() == [2 * steps, 2 * steps]
    np.testing.assert_allclose(posterior.item_mean, mean, rtol=1e-10)
    np.testing.assert_allclose(posterior.item_scatter, scatter, rtol=1e-10, atol=1e-10 * scatter.max())


def test_memory_bounds_the_effective_count_and_not_the_items_seen():
    posterior = ClassPosterior(2, 3, memory=10)
    for _ in range(8):
        posterior.update(torch.randn(6, 3), torch.tensor([0, 0, 0, 0, 0, 1]))
    assert posterior.count.tolist() == [10, 8]
    assert posterior.seen.tolist() == [40, 8]


def test_covariance_is_positive_definite_from_the_first_batch_of_one_item_a_class():
    posterior = ClassPosterior(3, 16)
    posterior.update(torch.randn(3, 16), torch.arange(3))
    assert torch.linalg.eigvalsh(posterior.covariance).min() > 0


def test_items_that_all_coincide_leave_finite_draws_and_densities():
    posterior = ClassPosterior(2, 8)
    posterior.update(torch.ones(6, 8), torch.arange(6) % 2)
    assert posterior.sample(torch.tensor([0, 1]), 5).isfinite().all()
    assert posterior.log_predictive(torch.ones(2, 8)).isfinite().all()


def test_statistics_kept_in_float32_still_have_a_density_when_the_scatter_is_nearly_flat():
    generator = torch.Generator().manual_seed(0)
    posterior = ClassPosterior(2, 128)
    for _ in range(200):  # 40,000 items on a line: far more scatter along it than rounding leaves across
        along = torch.randn(200, 1, generator=generator) * torch.ones(128)
        posterior.update(along, torch.arange(200) % 2)
    assert posterior.log_predictive(torch.zeros(3, 128)).isfinite().all()
    assert posterior.sample(torch.tensor([0]), 9).isfinite().all()


# Draws. The bound on a mean of n draws is 5 standard errors, which fails once in two million.


@pytest.mark.parametrize("distribution", ["normal", "student_t"])
@pytest.mark.parametrize("noise", [1.0, 0.5])
def test_two_hundred_thousand_draws_have_the_mean_and_covariance_of_their_class(distribution, noise):
    values, labels = items((12, 5, 30), 4, offset=1.0)
    posterior = posterior_of(values, labels, 3, "empirical")
    num = 200_000
    draws = posterior.sample(
        torch.tensor([2, 0]), num, torch.Generator().manual_seed(5), distribution=distribution, noise=noise
    )
    for drawn, k in zip(draws.numpy(), (2, 0), strict=True):
        mean, kappa, psi, nu = niw_by_hand(values, labels, 3, empirical_by_hand(values, labels, 3))[k]
        freedom = nu - 4 + 1
        covariance = psi / (nu - 5)
        if distribution == "student_t":
            covariance = psi * (kappa + 1) / kappa / freedom * freedom / (freedom - 2)
        covariance = covariance * noise**2
        error = np.sqrt(np.diag(covariance) / num)
        assert (np.abs(drawn.mean(0) - mean) < 5 * error).all()
        # Var of a sample covariance entry: (c_ii c_jj + c_ij^2) / n, times the excess of the t's kurtosis.
        spread = np.sqrt((np.outer(np.diag(covariance), np.diag(covariance)) + covariance**2) / num)
        heavier = 1.0 if distribution == "normal" else math.sqrt((freedom - 2) / (freedom - 4) * 1.5)
        assert (np.abs(np.cov(drawn.T) - covariance) < 5 * heavier * spread).all()


def test_student_t_draws_have_the_tails_of_scipys_t():
    values, labels = items((3, 3), 2)
    posterior = posterior_of(values, labels, 2, "empirical")
    mean, kappa, psi, nu = niw_by_hand(values, labels, 2, empirical_by_hand(values, labels, 2))[0]
    freedom = nu - 2 + 1
    drawn = posterior.sample(
        torch.tensor([0]), 100_000, torch.Generator().manual_seed(1), distribution="student_t"
    )[0, :, 0]
    width = math.sqrt(psi[0, 0] * (kappa + 1) / kappa / freedom)
    test = stats.kstest((drawn.numpy() - mean[0]) / width, stats.t(freedom).cdf)
    assert test.pvalue > 1e-4
    normal = posterior.sample(torch.tensor([0]), 100_000, torch.Generator().manual_seed(1))[0, :, 0]
    assert stats.kurtosis(drawn.numpy()) > stats.kurtosis(normal.numpy()) + 1


def test_one_item_of_an_improper_class_is_drawn_as_itself():
    posterior = ClassPosterior(2, 4, prior="improper")
    posterior.update(torch.ones(1, 4), torch.tensor([1]))
    torch.testing.assert_close(posterior.sample(torch.tensor([1]), 3), torch.ones(1, 3, 4))


def test_singular_covariances_are_drawn_from_their_own_subspace():
    values, labels = items((3, 3), 16)
    posterior = posterior_of(values, labels, 2, "improper")
    deviation = posterior.sample(torch.tensor([0]), 50)[0].numpy() - posterior.mean[0].numpy()
    own = values[labels == 0].numpy()
    basis = np.linalg.svd(own - own.mean(0))[2][:2]
    np.testing.assert_allclose(deviation - deviation @ basis.T @ basis, 0, atol=1e-6)


def test_the_same_generator_gives_the_same_draws():
    values, labels = items((4, 4), 3)
    posterior = posterior_of(values, labels, 2, "empirical")
    classes = torch.tensor([1, 0, 1])
    draws = [posterior.sample(classes, 2, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    assert not torch.equal(draws[0][0], draws[0][2])


def test_draws_come_in_the_order_of_the_classes_asked_for():
    posterior = ClassPosterior(3, 2)
    centers = torch.tensor([[0.0, 0], [100, 0], [0, 100]])
    posterior.update(
        centers.repeat_interleave(5, 0) + torch.randn(15, 2), torch.arange(3).repeat_interleave(5)
    )
    classes = torch.tensor([2, 0, 0, 1, 2])
    draws = posterior.sample(classes, 7)
    assert torch.equal(torch.cdist(draws, centers.expand(5, 3, 2)).argmin(2), classes[:, None].expand(5, 7))


def test_no_draws_of_no_classes():
    posterior = ClassPosterior(2, 3)
    assert posterior.sample(torch.tensor([], dtype=torch.int64), 4).shape == (0, 4, 3)


def test_a_class_never_seen_is_never_drawn_from():
    posterior = ClassPosterior(3, 2)
    posterior.update(torch.randn(4, 2), torch.tensor([0, 0, 2, 2]))
    with pytest.raises(InputError, match="holds 1, of which no item was ever seen"):
        posterior.sample(torch.tensor([0, 1]), 2)


# Probabilities


def test_class_probabilities_are_bayes_rule_with_shares_of_items_seen():
    values, labels = items((8, 3, 0), 2)
    posterior = posterior_of(values, labels, 3, "empirical")
    x = torch.randn(5, 2, dtype=torch.float64)
    density = posterior.log_predictive(x).numpy()
    for prior, temperature in ((None, 1.0), (torch.tensor([1.0, 3.0, 5.0], dtype=torch.float64), 2.5)):
        weight = np.array([8, 3, 0]) / 11 if prior is None else prior.numpy() / 9
        joint = np.exp(density / temperature) * weight
        got = posterior.class_probabilities(x, prior, temperature)
        np.testing.assert_allclose(got, joint / joint.sum(1, keepdims=True), rtol=1e-10)
        assert (got[:, 2] == 0).all()


def test_class_probabilities_do_not_overflow_in_many_dimensions():
    posterior = ClassPosterior(2, 128)
    posterior.update(torch.randn(40, 128), torch.arange(40) % 2)
    probabilities = posterior.class_probabilities(100 * torch.randn(6, 128))
    torch.testing.assert_close(probabilities.sum(1), torch.ones(6))


def test_probabilities_before_any_item_are_an_error():
    with pytest.raises(StateError, match="no item was ever seen"):
        ClassPosterior(2, 3).class_probabilities(torch.zeros(1, 3))


# State


def trained(**options):
    posterior = ClassPosterior(3, 4, **options)
    posterior.update(torch.randn(9, 4, generator=torch.Generator().manual_seed(0)), torch.arange(9) % 3)
    return posterior


def assert_equal_state(a, b):
    assert a.state_dict().keys() == b.state_dict().keys()
    for name, value in a.state_dict().items():
        assert torch.equal(value, b.state_dict()[name]), name


@pytest.mark.parametrize("prior", ["empirical", NIWPrior(torch.zeros(4), 1.0, torch.eye(4), 7.0)])
def test_state_dict_round_trip_and_deepcopy_keep_the_posterior(prior, tmp_path):
    posterior = trained(prior=prior, memory=5.0)
    torch.save(posterior.state_dict(), tmp_path / "state.pt")
    other = ClassPosterior(3, 4, prior=prior, memory=5.0)
    other.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert_equal_state(other, posterior)
    copied = copy.deepcopy(posterior)
    copied.update(torch.ones(1, 4), torch.tensor([0]))
    assert_equal_state(other, posterior)
    assert copied.seen[0] == posterior.seen[0] + 1


def read_in_another_process(posterior, queue):
    queue.put([value.tolist() for value in posterior.state_dict().values()])


def test_the_module_survives_pickling_into_a_spawned_process():
    posterior = trained()
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=read_in_another_process, args=(posterior, queue))
    process.start()
    received = queue.get(timeout=60)
    process.join(60)
    assert received == [value.tolist() for value in posterior.state_dict().values()]


@pytest.mark.parametrize("convert", ["half", "bfloat16", "float"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_conversions_to_lower_precision_leave_the_statistics_alone(convert, dtype):
    posterior = trained(dtype=dtype)
    before = copy.deepcopy(posterior.state_dict())
    getattr(torch.nn.Sequential(posterior), convert)()
    for name, value in posterior.state_dict().items():
        assert value.dtype == before[name].dtype
        assert torch.equal(value, before[name])


def test_moving_to_a_device_moves_every_buffer():
    posterior = trained(prior=NIWPrior(torch.zeros(4), 1.0, torch.eye(4), 7.0)).to("meta")
    assert {buffer.device.type for buffer in posterior.buffers()} == {"meta"}
    assert trained().to("cpu", torch.float64).item_mean.dtype == torch.float64


def test_autocast_does_not_reach_the_statistics():
    values, labels = torch.randn(30, 64), torch.arange(30) % 3
    plain, cast = ClassPosterior(3, 64), ClassPosterior(3, 64)
    plain.update(values, labels)
    with torch.autocast("cpu", torch.bfloat16):
        cast.update(values, labels)
        assert_equal_state(plain, cast)
        draws = cast.sample(labels, 2, torch.Generator().manual_seed(0))
        density = cast.log_predictive(values)
        covariance = cast.covariance
    assert torch.equal(draws, plain.sample(labels, 2, torch.Generator().manual_seed(0)))
    assert torch.equal(density, plain.log_predictive(values))
    assert torch.equal(covariance, plain.covariance)


def test_updates_never_build_a_graph():
    posterior = ClassPosterior(2, 3)
    posterior.update(torch.randn(4, 3, requires_grad=True), torch.arange(4) % 2)
    assert not any(buffer.requires_grad for buffer in posterior.buffers())


# Bad input

GOOD = torch.randn(4, 3), torch.tensor([0, 1, 0, 1])
BAD_ITEMS = {
    "not a tensor": ([[1.0, 2, 3]], GOOD[1], "embeddings must be a torch.Tensor; got list"),
    "integers": (torch.ones(4, 3, dtype=torch.int64), GOOD[1], "embeddings must be floating point"),
    "rank": (torch.ones(4), GOOD[1], r"embeddings must have shape \(B, 3\); got \(4,\)"),
    "dimension": (torch.ones(4, 5), GOOD[1], r"embeddings must have shape \(B, 3\); got \(4, 5\)"),
    "nan": (GOOD[0] * math.nan, GOOD[1], "embeddings must be finite and below 1e\\+15 in size; got NaN"),
    "infinite": (GOOD[0] * math.inf, GOOD[1], "got NaN or infinity"),
    "huge": (torch.full((4, 3), 1e20), GOOD[1], "got 1e\\+20"),
    "too few labels": (GOOD[0], GOOD[1][:2], r"labels must have shape \(4,\), one per embedding; got \(2,\)"),
    "labels not a tensor": (GOOD[0], [0, 1, 0, 1], "labels must be a torch.Tensor; got list"),
    "fractions": (GOOD[0], GOOD[1].float(), "labels must be integers; got torch.float32"),
    "booleans": (GOOD[0], GOOD[1].bool(), "labels must be integers; got torch.bool"),
    "negative": (GOOD[0], torch.tensor([0, -1, 0, 1]), r"labels must lie in 0 .. 1; got -1"),
    "out of range": (GOOD[0], torch.tensor([0, 1, 0, 2]), r"labels must lie in 0 .. 1; got 2"),
    "empty": (GOOD[0][:0], GOOD[1][:0], "at least one item; got an empty batch"),
}


@pytest.mark.parametrize("case", BAD_ITEMS)
def test_bad_items_are_refused_and_leave_the_posterior_unchanged(case):
    embeddings, labels, message = BAD_ITEMS[case]
    posterior = ClassPosterior(2, 3)
    posterior.update(*GOOD)
    before = copy.deepcopy(posterior)
    with pytest.raises(BayesTripletError, match=message) as caught:
        posterior.update(embeddings, labels)
    assert isinstance(caught.value, ValueError | TypeError)
    assert_equal_state(posterior, before)


PRIOR = {"mean": torch.zeros(3), "kappa": 1.0, "scale": torch.eye(3), "nu": 6.0}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_classes": 1}, "num_classes must be at least 2; got 1"),
        ({"num_classes": 2.0}, "num_classes must be a whole number"),
        ({"dim": 0}, "dim must be at least 1; got 0"),
        ({"memory": 0}, "memory must be above 0; got 0"),
        ({"memory": -1.0}, "memory must be above 0"),
        ({"memory": math.inf}, "memory must be finite"),
        ({"memory": "long"}, "memory must be a number"),
        ({"prior": "empiric"}, "prior must be one of 'empirical', 'improper'; got 'empiric'; did you mean"),
        ({"dtype": torch.float16}, "dtype must be torch.float32 or torch.float64"),
        ({"prior": NIWPrior(**PRIOR | {"mean": torch.zeros(2)})}, r"prior.mean must have shape \(3,\)"),
        ({"prior": NIWPrior(**PRIOR | {"kappa": 0.0})}, "prior.kappa must be above 0"),
        ({"prior": NIWPrior(**PRIOR | {"nu": 2.0})}, "prior.nu must be above D - 1 = 2"),
        (
            {"prior": NIWPrior(**PRIOR | {"scale": -torch.eye(3)})},
            "prior.scale must be symmetric and positive",
        ),
        ({"prior": NIWPrior(**PRIOR | {"scale": torch.eye(2)})}, r"prior.scale must have shape \(3, 3\)"),
        ({"prior": NIWPrior(**PRIOR | {"nu": math.nan})}, "prior.nu must be finite"),
        ({"prior": NIWPrior(**PRIOR | {"mean": [0, 0, 0]})}, "prior.mean must be a tensor; got list"),
    ],
)
def test_bad_options_of_the_posterior_are_refused(arguments, message):
    with pytest.raises(BayesTripletError, match=message) as caught:
        ClassPosterior(**{"num_classes": 2, "dim": 3} | arguments)
    assert isinstance(caught.value, ValueError | TypeError)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: p.sample(torch.tensor([0]), -1), "num must be at least 0; got -1"),
        (lambda p: p.sample(torch.tensor([5]), 1), r"classes must lie in 0 .. 1; got 5"),
        (lambda p: p.sample(torch.tensor([0]), 1, noise=-0.1), "noise must be at least 0"),
        (lambda p: p.sample(torch.tensor([0]), 1, distribution="cauchy"), "distribution must be one of"),
        (lambda p: p.log_predictive(torch.zeros(2, 9)), r"x must have shape \(B, 3\)"),
        (lambda p: p.class_probabilities(torch.zeros(2, 3), temperature=0), "temperature must be above 0"),
        (
            lambda p: p.class_probabilities(torch.zeros(2, 3), torch.ones(3)),
            r"class_prior must have shape \(2,\)",
        ),
        (lambda p: p.class_probabilities(torch.zeros(2, 3), -torch.ones(2)), "class_prior must be finite"),
    ],
)
def test_bad_arguments_of_reading_are_refused(call, message):
    posterior = ClassPosterior(2, 3)
    posterior.update(*GOOD)
    with pytest.raises(BayesTripletError, match=message):
        call(posterior)


def test_numbers_of_numpy_are_numbers():
    labels = np.array([0, 2, 1])
    posterior = ClassPosterior(num_classes=labels.max() + 1, dim=np.int32(2), memory=np.float32(20))
    assert (posterior.num_classes, posterior.dim, posterior.memory) == (3, 2, 20.0)
    with pytest.raises(InputTypeError, match="num_classes must be a whole number"):
        ClassPosterior(num_classes=np.float64(3), dim=2)
