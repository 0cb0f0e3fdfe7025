"""What holds for the statistics and the posterior of any items, by random examples."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bayestriplet.posterior.posterior import ClassPosterior
from bayestriplet.posterior.statistics import ClassStatistics, merge

quick = settings(max_examples=25, deadline=None)
KINDS = ["collinear", "constant", "huge", "tiny"]
SIZES = {"classes": st.integers(2, 200), "dim": st.integers(1, 40), "number": st.integers(1, 60),
         "seed": st.integers(0, 2**31 - 1)}  # fmt: skip


def items_of(classes, dim, number, seed):
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(number, dim, generator=generator, dtype=torch.float64)
    return values, torch.randint(classes, (number,), generator=generator), generator


def posterior_of(values, labels, classes):
    posterior = ClassPosterior(classes, values.shape[1], dtype=torch.float64, structure="full")
    posterior.update(values, labels)
    return posterior


def close(one, other, scale=1.0):
    torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-9 * scale)


@quick
@given(**SIZES, cut=st.floats(0, 1))
def test_order_and_split_do_not_matter(classes, dim, number, seed, cut):
    values, labels, generator = items_of(classes, dim, number, seed)
    whole = ClassStatistics.from_items(values, labels, classes)
    order = torch.randperm(number, generator=generator)
    parts = [part for part in (order[: int(cut * number)], order[int(cut * number) :]) if len(part)]
    other = ClassStatistics.zeros(classes, dim, like=values)
    for part in parts:
        other.add_items_(values[part], labels[part])
    for name in ("count", "mean", "scatter"):
        close(getattr(other, name), getattr(whole, name))


@quick
@given(**SIZES)
def test_merging_is_associative_and_commutative(classes, dim, number, seed):
    values, labels, generator = items_of(classes, dim, number, seed)
    owner = torch.randint(3, (number,), generator=generator)
    parts = [ClassStatistics.zeros(classes, dim, like=values) for _ in range(3)]
    for number, part in enumerate(parts):
        if (owner == number).any():
            part.add_items_(values[owner == number], labels[owner == number])
    a, b, c = parts
    for one, other in ((merge(merge(a, b), c), merge(a, merge(b, c))), (merge(a, b), merge(b, a))):
        for name in ("count", "mean", "scatter"):
            close(getattr(one, name), getattr(other, name))


@quick
@given(classes=st.integers(2, 6), dim=st.integers(1, 12), number=st.integers(12, 60),
       seed=st.integers(0, 2**31 - 1), scale=st.floats(1e-3, 1e3))  # fmt: skip
def test_scaling_and_rotating_embeddings_scales_and_rotates_the_posterior(classes, dim, number, seed, scale):
    values, labels, generator = items_of(classes, dim, number, seed)
    turn = torch.linalg.qr(torch.randn(dim, dim, generator=generator, dtype=torch.float64))[0]
    plain = posterior_of(values, labels, classes)
    moved = posterior_of(scale * values @ turn, labels, classes)
    close(moved.mean, scale * plain.mean @ turn, scale)
    expected = scale**2 * turn.T @ plain.covariance @ turn
    torch.testing.assert_close(moved.covariance, expected, rtol=1e-6, atol=1e-8 * scale**2)


@quick
@given(classes=st.integers(2, 5), dim=st.integers(1, 24), number=st.integers(2, 40),
       seed=st.integers(0, 2**31 - 1), kind=st.sampled_from(KINDS))  # fmt: skip
def test_covariances_are_positive_definite_whatever_the_embeddings(classes, dim, number, seed, kind):
    values, labels, _ = items_of(classes, dim, number, seed)
    values = {"collinear": values[:, :1] * torch.ones(dim, dtype=torch.float64), "constant": 0 * values + 1,
              "huge": 1e6 * values, "tiny": 1e-6 * values}[kind]  # fmt: skip
    covariance = posterior_of(values, labels, classes).covariance
    assert covariance.isfinite().all()
    spectrum = torch.linalg.eigvalsh(covariance)
    assert (spectrum.min(-1).values > 0).all(), (kind, spectrum.min())
