import dataclasses
import math

import pytest
import torch

from bayestriplet import ClassPosterior, Triplets, TripletSampler, nca_loss, triplet_loss
from bayestriplet.errors import BayesTripletError
from tests.triplets.test_sampler import BOTH_DRAWS, batch


def listed(triplets):
    """The unmasked triplets of each anchor as lists of (anchor, positive, negative)."""
    positive, negative = triplets.positive, triplets.negative
    return [
        [(triplets.anchor[i], positive[i, s], negative[i, s]) for s in triplets.mask[i].nonzero().flatten()]
        for i in range(len(triplets.anchor))
    ]


def distance(a, b, squared):
    total = math.fsum((x - y) ** 2 for x, y in zip(a.tolist(), b.tolist(), strict=True))
    return total if squared else math.sqrt(total)


def slow_triplet_loss(triplets, margin, pairing, reduction, squared):
    hinges = []
    for of_anchor in listed(triplets):
        for s, (anchor, positive, _) in enumerate(of_anchor):
            for other, (_, _, negative) in enumerate(of_anchor):
                if pairing == "all" or s == other:
                    gap = distance(anchor, positive, squared) - distance(anchor, negative, squared)
                    hinges.append(max(0.0, margin + gap))
    if reduction == "active":
        hinges = [hinge for hinge in hinges if hinge > 0]
    return math.fsum(hinges) / (1 if reduction == "sum" else max(1, len(hinges)))


def slow_nca_loss(triplets, temperature, include_positive, reduction):
    terms = []
    for of_anchor in listed(triplets):
        others = [math.exp(-distance(a, n, True) / temperature) for a, _, n in of_anchor]
        for anchor, positive, _ in of_anchor:
            own = math.exp(-distance(anchor, positive, True) / temperature)
            terms.append(-math.log(own / (math.fsum(others) + (own if include_positive else 0))))
    return math.fsum(terms) / (1 if reduction == "sum" else len(terms))


def draw(draws="own", sizes=(3, 2, 4, 1), dim=3, **options):
    values, labels = batch(sizes, dim)
    sampler = TripletSampler(ClassPosterior(4, dim, dtype=torch.float64), draws=draws, **options)
    return sampler(values, labels, torch.Generator().manual_seed(2))


MARGIN = 60.0  # about half of these data's hinges are active


@BOTH_DRAWS
@pytest.mark.parametrize("sizes", [(3, 2, 4, 1), (4, 0, 3, 2)])
@pytest.mark.parametrize("pairing", ["paired", "all"])
@pytest.mark.parametrize("reduction", ["mean", "active", "sum"])
@pytest.mark.parametrize("squared", [True, False])
def test_triplet_loss_is_that_of_a_loop_over_listed_triplets(draws, sizes, pairing, reduction, squared):
    triplets = draw(draws, sizes)
    margin = MARGIN if squared else 3.0
    got = triplet_loss(triplets, margin, pairing, reduction, squared)
    assert got.item() == pytest.approx(
        slow_triplet_loss(triplets, margin, pairing, reduction, squared), rel=1e-9
    )


@BOTH_DRAWS
@pytest.mark.parametrize("sizes", [(3, 2, 4, 1), (4, 0, 3, 2)])
@pytest.mark.parametrize("include_positive", [True, False])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_nca_loss_is_that_of_a_loop_over_listed_triplets(draws, sizes, include_positive, reduction):
    triplets = draw(draws, sizes)
    got = nca_loss(triplets, 50.0, include_positive, reduction)
    assert got.item() == pytest.approx(slow_nca_loss(triplets, 50.0, include_positive, reduction), rel=1e-9)


def test_both_ways_of_taking_distances_agree_also_far_from_the_origin():
    triplets = draw("shared")
    for offset in (0.0, 1e4):
        moved = dataclasses.replace(
            triplets, anchor=triplets.anchor + offset, points=triplets.points + offset
        )
        near, far = moved.distances()
        torch.testing.assert_close(near, (moved.anchor[:, None] - moved.positive).square().sum(2))
        torch.testing.assert_close(far, (moved.anchor[:, None] - moved.negative).square().sum(2))


def test_many_shared_points_are_compared_one_by_one_with_the_same_result():
    num_classes, dim = 40, 1  # P = 40 * 39 points against 2 * 39 * 1 numbers an anchor
    values = torch.randn(80, dim, dtype=torch.float64, requires_grad=True)
    sampler = TripletSampler(ClassPosterior(num_classes, dim, dtype=torch.float64), draws="shared")
    triplets = sampler(values, torch.arange(80) % num_classes)
    assert len(triplets.points) > 2 * triplets.mask.shape[1] * dim
    near, far = triplets.distances()
    torch.testing.assert_close(near, (triplets.anchor[:, None] - triplets.positive).square().sum(2))
    torch.testing.assert_close(far, (triplets.anchor[:, None] - triplets.negative).square().sum(2))
    (got,) = torch.autograd.grad(near.sum() - 2 * far.sum(), values, retain_graph=True)
    near, far = (
        (triplets.anchor[:, None] - p).square().sum(2) for p in (triplets.positive, triplets.negative)
    )
    (plain,) = torch.autograd.grad(near.sum() - 2 * far.sum(), values)
    torch.testing.assert_close(got, plain)


@BOTH_DRAWS
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("loss", ["triplet", "roots", "nca"])
def test_gradients_match_finite_differences_with_the_draws_held_fixed(draws, normalize, loss):
    """The function differentiated: draws are constants."""
    num_classes, dim = 3, 4
    labels = torch.tensor([0, 0, 1, 1, 2, 0])
    values = torch.randn(6, dim, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    posterior = ClassPosterior(num_classes, dim, dtype=torch.float64)
    options = {"draws": draws, "normalize": normalize}
    TripletSampler(posterior, **options)(values, labels)
    frozen = TripletSampler(posterior, **options).eval()
    losses = {
        "triplet": lambda t: triplet_loss(t, margin=5.0),
        "roots": lambda t: triplet_loss(t, margin=2.0, squared=False),
        "nca": lambda t: nca_loss(t, temperature=1.0),
    }

    def unit(x):
        return x / x.norm(dim=-1, keepdim=True) if normalize else x

    drawn = TripletSampler(posterior, draws=draws).eval()(values, labels, torch.Generator().manual_seed(4))

    def by_hand(x):
        """The same loss written with plain operations."""
        anchor = unit(x)
        positive, negative = drawn.positive, drawn.negative
        return losses[loss](
            Triplets.from_points(anchor, unit(positive), unit(negative), labels, drawn.negative_labels)
        )

    x = values.clone().requires_grad_()
    losses[loss](frozen(x, labels, torch.Generator().manual_seed(4))).backward()
    step = 1e-6
    for i in range(6):
        for d in range(dim):
            shift = torch.zeros_like(values)
            shift[i, d] = step
            slope = (by_hand(values + shift) - by_hand(values - shift)) / (2 * step)
            assert x.grad[i, d].item() == pytest.approx(slope.item(), rel=1e-5, abs=1e-7)


def test_with_one_class_seen_the_loss_is_a_zero_with_a_gradient():
    for loss in (triplet_loss, nca_loss):
        for draws in ("own", "shared"):
            values = torch.randn(4, 3, requires_grad=True)
            sampler = TripletSampler(ClassPosterior(5, 3), draws=draws, normalize=True)
            value = loss(sampler(values, torch.full((4,), 2)))
            value.backward()
            assert value.item() == 0
            assert torch.equal(values.grad, torch.zeros(4, 3))


def test_an_anchor_on_its_draw_has_a_finite_gradient_without_squaring():
    values = torch.ones(4, 3, requires_grad=True)
    sampler = TripletSampler(ClassPosterior(2, 3, prior="improper"))
    triplet_loss(sampler(values, torch.arange(4) % 2), squared=False).backward()
    assert values.grad.isfinite().all()


@BOTH_DRAWS
def test_nca_loss_stays_finite_at_distances_that_underflow(draws):
    values = torch.tensor([[0.0, 0], [1e4, 0], [0, 1e4], [0, 0]], requires_grad=True)
    sampler = TripletSampler(ClassPosterior(3, 2), draws=draws)
    loss = nca_loss(sampler(values, torch.tensor([0, 1, 2, 1])), temperature=1e-3)
    loss.backward()
    assert loss.isfinite()
    assert values.grad.isfinite().all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: triplet_loss(t, margin=0), "margin must be above 0; got 0"),
        (lambda t: triplet_loss(t, margin=-0.1), "margin must be above 0; got -0.1"),
        (
            lambda t: triplet_loss(t, pairing="pair"),
            "pairing must be one of 'paired', 'all'; got 'pair'; did you mean",
        ),
        (lambda t: triplet_loss(t, reduction="none"), "reduction must be one of 'mean', 'active', 'sum'"),
        (lambda t: nca_loss(t, temperature=0), "temperature must be above 0"),
        (lambda t: nca_loss(t, reduction="active"), "reduction must be one of 'mean', 'sum'"),
        (lambda t: nca_loss([t]), "triplets must be a Triplets; got list"),
        (lambda t: triplet_loss(None), "triplets must be a Triplets; got NoneType"),
    ],
)
def test_bad_arguments_of_losses_are_refused(call, message):
    with pytest.raises(BayesTripletError, match=message) as caught:
        call(draw())
    assert isinstance(caught.value, ValueError | TypeError)


@BOTH_DRAWS
@pytest.mark.parametrize("normalize", [True, False])
def test_second_derivatives_are_refused_instead_of_wrong(draws, normalize):
    values, labels = batch()
    values.requires_grad_()
    sampler = TripletSampler(ClassPosterior(4, 3, dtype=torch.float64), draws=draws, normalize=normalize)
    loss = triplet_loss(sampler(values, labels), margin=MARGIN)
    with pytest.raises(BayesTripletError, match=r"second derivatives .* are not supported"):
        torch.autograd.grad(loss, values, create_graph=True)
