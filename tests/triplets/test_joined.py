"""Draws joined with the batch: losses over all positives, and over a positive picked for every negative."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from bayestriplet import BUNCA, ClassPosterior, TripletSampler, nca_loss, triplet_loss
from bayestriplet.triplets.joined import Joined, own_points
from tests.triplets.test_losses import distance, slow_triplet_loss

SIZES = pytest.mark.parametrize("sizes", [(3, 2, 4, 1), (4, 4, 4, 4), (4, 0, 3, 2), (1, 1, 1, 1)])


def batch(sizes, dim=3, seed=0):
    labels = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    generator = torch.Generator().manual_seed(seed)
    labels = labels[torch.randperm(len(labels), generator=generator)]
    return torch.randn(len(labels), dim, dtype=torch.float64, generator=generator) + labels[:, None], labels


def joined(sizes, normalize=False, pick=True):
    values, labels = batch(sizes)
    values.requires_grad_()
    sampler = TripletSampler(
        ClassPosterior(len(sizes), 3, dtype=torch.float64), draws="joined", normalize=normalize
    )
    return values, sampler(values, labels, torch.Generator().manual_seed(1), pick)


def slow_nca(triplets, temperature, include_positive, reduction, positive_margin=0.0):
    """The mean over all ways to pick positives, one anchor after the other.

    Those that are items of the batch are as far as ``positive_margin`` at the least.
    """
    anchors, points = triplets.anchor.detach(), triplets.points.detach()
    total, number = 0.0, 0
    for i, label in enumerate(triplets.labels.tolist()):
        itself = len(points) - len(anchors) + i
        own = [p for p, k in enumerate(triplets.point_labels.tolist()) if k == label and p != itself]
        others = triplets.mask[i].nonzero().flatten().tolist()
        far = math.fsum(math.exp(-distance(anchors[i], points[q], True) / temperature) for q in others)
        terms = []
        for p in own:
            apart = distance(anchors[i], points[p], True)
            if p >= len(points) - len(anchors):
                apart = max(apart, positive_margin)
            near = math.exp(-apart / temperature)
            terms.append(-math.log(near / (far + near * include_positive)))
        total, number = total + len(others) * math.fsum(terms) / len(own), number + len(others)
    return total / (number if reduction == "mean" else 1)


@SIZES
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("include_positive", [True, False])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_nca_takes_all_positives_of_an_anchor_alike(sizes, normalize, include_positive, reduction):
    for temperature in (2.0, 0.04) if normalize else (2.0,):  # with and without room in the exponentials
        _, triplets = joined(sizes, normalize)
        got = nca_loss(triplets, temperature, include_positive, reduction)
        expected = slow_nca(triplets, temperature, include_positive, reduction)
        assert got.item() == pytest.approx(expected, rel=1e-9, abs=1e-12)


@SIZES
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("positive_margin", [0.5, 1.5])
def test_items_of_the_batch_within_the_margin_count_as_if_they_were_that_far(
    sizes, normalize, positive_margin
):
    for temperature in (2.0, 0.04) if normalize else (2.0,):
        _, triplets = joined(sizes, normalize)
        got = nca_loss(triplets, temperature, positive_margin=positive_margin)
        expected = slow_nca(triplets, temperature, True, "mean", positive_margin)
        assert got.item() == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_a_margin_within_which_all_positives_lie_leaves_the_pull_of_draws_alone():
    """Then each item is pulled by draws of its class, and pushed by the others."""
    values, triplets = joined((3, 2, 4, 1), normalize=True)
    (within,) = torch.autograd.grad(nca_loss(triplets, 0.7, positive_margin=4.0), values)
    unit = values / values.norm(dim=1, keepdim=True)
    own = triplets.point_labels == triplets.labels[:, None]
    items = torch.arange(len(triplets.rows)) >= len(triplets.rows) - len(values)
    square = (unit[:, None] - torch.cat([triplets.rows[~items], unit])).square().sum(2)
    far = (-square / 0.7).masked_fill(~triplets.mask, -1e30).logsumexp(1, keepdim=True)
    terms = torch.nn.functional.softplus(far + square.where(~items, torch.tensor(4.0)) / 0.7)
    own[:, items] &= ~torch.eye(len(values), dtype=torch.bool)
    weight = own * triplets.mask.sum(1, keepdim=True) / own.sum(1, keepdim=True) / triplets.mask.sum()
    (expected,) = torch.autograd.grad((terms * weight).sum(), values)
    torch.testing.assert_close(within, expected, rtol=1e-7, atol=1e-9)


def test_nca_is_the_mean_of_the_losses_with_positives_picked_at_random():
    _, triplets = joined((3, 2, 4, 1), normalize=True)
    generator = torch.Generator().manual_seed(0)
    picked = []
    for _ in range(3000):
        columns = triplets.own.pick(len(triplets.points), generator)
        index = torch.stack([triplets.own.rows.gather(1, columns), triplets.index[1]])
        picked.append(nca_loss(dataclasses.replace(triplets, index=index), 0.5).item())
    error = np.std(picked) / len(picked) ** 0.5
    assert abs(np.mean(picked) - nca_loss(triplets, 0.5).item()) < 5 * error


@SIZES
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("reduction", ["mean", "active", "sum"])
@pytest.mark.parametrize("squared", [True, False])
def test_triplet_loss_is_that_of_a_loop_over_the_triplets_picked(sizes, normalize, reduction, squared):
    _, triplets = joined(sizes, normalize)
    got = triplet_loss(triplets, 0.6, "paired", reduction, squared)
    assert got.item() == pytest.approx(
        slow_triplet_loss(triplets, 0.6, "paired", reduction, squared), rel=1e-9
    )


@SIZES
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("loss", ["triplet", "roots", "nca", "nca without positive", "nca with margin"])
def test_gradients_are_those_of_autograd_through_anchors_and_joined_items(sizes, normalize, loss):
    values, triplets = joined(sizes, normalize)
    losses = {
        "triplet": lambda t: triplet_loss(t, 0.6),
        "roots": lambda t: triplet_loss(t, 0.6, squared=False),
        "nca": lambda t: nca_loss(t, 0.7),
        "nca without positive": lambda t: nca_loss(t, 0.7, include_positive=False),
        "nca with margin": lambda t: nca_loss(t, 0.7, positive_margin=1.0),
    }
    (got,) = torch.autograd.grad(losses[loss](triplets), values)
    unit = values / values.norm(dim=1, keepdim=True) if normalize else values
    drawn = triplets.rows[: len(triplets.rows) - len(values)]
    square = (unit[:, None] - torch.cat([drawn, unit])).square().sum(2)  # (B, P)
    if loss in ("triplet", "roots"):
        length = square if loss == "triplet" else square.clamp_min(1e-300).sqrt()
        gap = (0.6 + length.gather(1, triplets.index[0]) - length)[triplets.mask]
        plain = gap.clamp_min(0).mean()
    else:
        far = (-square / 0.7).masked_fill(~triplets.mask, -1e30).logsumexp(1, keepdim=True)
        near = square
        if loss == "nca with margin":
            near = torch.cat([square[:, : len(drawn)], square[:, len(drawn) :].clamp_min(1.0)], dim=1)
        gap = far + near / 0.7
        terms = gap if loss == "nca without positive" else torch.nn.functional.softplus(gap)
        own = triplets.point_labels == triplets.labels[:, None]
        own[:, len(drawn) :].fill_diagonal_(False)
        weight = own * triplets.mask.sum(1, keepdim=True) / own.sum(1, keepdim=True)
        plain = (terms * weight).sum() / triplets.mask.sum()
    (expected,) = torch.autograd.grad(plain, values)
    torch.testing.assert_close(got, expected, rtol=1e-7, atol=1e-9)


def test_a_copy_with_another_mask_is_an_ordinary_set_of_triplets():
    values, triplets = joined((3, 2, 4, 1))
    mask = triplets.mask.clone()
    mask[:, ::2] = False
    copy = dataclasses.replace(triplets, mask=mask)
    assert copy.own is None
    loss = triplet_loss(copy, 0.6)
    assert loss.item() == pytest.approx(slow_triplet_loss(copy, 0.6, "paired", "mean", True), rel=1e-9)
    (gradient,) = torch.autograd.grad(loss, values)
    assert gradient.abs().sum() > 0


def test_without_picks_the_positives_of_an_anchor_come_in_turn():
    _, triplets = joined((3, 2, 4, 1), pick=False)
    classes = triplets.point_labels
    for i, label in enumerate(triplets.labels):
        positives = triplets.index[0, i]
        assert (classes[positives] == label).all()
        assert (positives != len(classes) - len(triplets.labels) + i).all()
        counts = torch.bincount(positives, minlength=len(classes))[classes == label]
        counts = counts[counts > 0]
        assert counts.max() - counts.min() <= 1


def test_reading_the_latest_triplets_of_bunca_does_not_change_its_draws():
    losses = []
    for reads in (False, True):
        criterion = BUNCA(3, 4, generator=torch.Generator().manual_seed(0))
        for seed in range(3):
            values = torch.randn(9, 4, generator=torch.Generator().manual_seed(seed))
            loss = criterion(values, torch.arange(9) % 3)
            if reads:
                assert criterion.latest.index.shape == (2, 9, 15)
        losses.append(loss.item())
    assert losses[0] == losses[1]


@pytest.mark.parametrize("loss", [triplet_loss, nca_loss])
def test_an_anchor_of_a_class_never_seen_has_no_part_in_the_loss(loss):
    values, labels = batch((4, 0, 3, 2))
    sampler = TripletSampler(ClassPosterior(4, 3, dtype=torch.float64), draws="joined")
    sampler(values, labels)
    sampler.eval()
    labels = labels.clone()
    labels[0] = 1
    x = values.clone().requires_grad_()
    triplets = sampler(x, labels, torch.Generator().manual_seed(0))
    assert not triplets.mask[0].any()
    assert not triplets.mask[:, triplets.point_labels == 1].any()
    (gradient,) = torch.autograd.grad(loss(triplets), x)
    assert not gradient[0].any()
    assert gradient[1:].abs().sum() > 0


def test_with_one_class_seen_the_loss_is_a_zero_with_a_gradient():
    for loss in (triplet_loss, nca_loss):
        values = torch.randn(4, 3, requires_grad=True)
        sampler = TripletSampler(ClassPosterior(5, 3), draws="joined", normalize=True)
        value = loss(sampler(values, torch.full((4,), 2)))
        value.backward()
        assert value.item() == 0
        assert torch.equal(values.grad, torch.zeros(4, 3))


def test_nca_of_joined_draws_stays_finite_at_distances_that_underflow():
    values = torch.tensor([[0.0, 0], [1e4, 0], [0, 1e4], [0, 0]], requires_grad=True)
    for normalize in (True, False):
        sampler = TripletSampler(ClassPosterior(3, 2), draws="joined", normalize=normalize)
        loss = nca_loss(sampler(values, torch.tensor([0, 1, 2, 1])), temperature=1e-3)
        loss.backward()
        assert loss.isfinite()
        assert values.grad.isfinite().all()


def test_own_points_lists_the_positives_first_and_then_the_anchor():
    labels = np.array([0, 0, 1, 1, 2, 2, 0, 2, 0])  # two draws of each class, then the items 0, 2 and 0
    own = own_points(labels, np.ones(9, dtype=bool), 3, torch.zeros(1))
    assert own.positives.flatten().tolist() == [3, 2, 3]
    assert [sorted(row[:n]) for row, n in zip(own.rows.tolist(), (3, 2, 3), strict=True)] == [
        [0, 1, 8],
        [4, 5],
        [0, 1, 6],
    ]
    assert [row[n:] for row, n in zip(own.rows.tolist(), (3, 2, 3), strict=True)] == [[6], [7, 7], [8]]
    assert own.triplets == 5 + 6 + 5
    torch.testing.assert_close(own.weight.sum(1), torch.tensor([5.0, 6, 5]) / 16)


def test_detached_joined_triplets_hold_no_graph():
    _, triplets = joined((3, 2, 4, 1), normalize=True)
    apart = triplets.detach()
    assert isinstance(apart, Joined)
    assert not any(isinstance(value, torch.Tensor) and value.requires_grad for value in vars(apart).values())
    torch.testing.assert_close(apart.points, triplets.points.detach())
    assert torch.equal(apart.index, triplets.index)


@pytest.mark.parametrize("seen", [3, 5, 20])
def test_of_many_classes_only_those_with_items_are_drawn_from_and_met(seen):
    """While few of the classes were seen, a step draws from fewer than it may."""
    sampler = TripletSampler(ClassPosterior(30, 4, dtype=torch.float64), draws="joined", draw_classes=12)
    sampler(torch.randn(seen, 4, dtype=torch.float64), torch.arange(seen))
    triplets = sampler(torch.randn(3, 4, dtype=torch.float64), torch.tensor([1, 0, 1]))
    assert triplets.mask.any(1).all()
    assert torch.equal(triplets.mask, triplets.point_labels != triplets.labels[:, None])
    assert set(triplets.point_labels.tolist()) <= set(range(seen))
    assert nca_loss(triplets, 2.0).item() == pytest.approx(slow_nca(triplets, 2.0, True, "mean"), rel=1e-9)


@pytest.mark.parametrize("draws", ["joined", "shared", "own"])
def test_of_many_classes_the_first_one_seen_has_no_triplets(draws):
    values = torch.randn(3, 4, requires_grad=True)
    sampler = TripletSampler(ClassPosterior(30, 4), draws=draws, draw_classes=12)
    triplets = sampler(values, torch.tensor([5, 5, 5]))
    assert not triplets.mask.any()
    for loss in (triplet_loss, nca_loss):
        assert loss(triplets).item() == 0
