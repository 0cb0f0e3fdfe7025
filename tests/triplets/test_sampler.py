import copy

import numpy as np
import pytest
import torch

from bayestriplet import ClassPosterior, TripletSampler
from bayestriplet.errors import BayesTripletError
from tests.posterior.test_posterior import assert_equal_state
from tests.posterior.test_statistics import items

BOTH_DRAWS = pytest.mark.parametrize("draws", ["own", "shared"])


def sampler_of(num_classes=4, dim=3, seed=0, **options):
    return TripletSampler(ClassPosterior(num_classes, dim, dtype=torch.float64), **options)


def batch(sizes=(3, 2, 4, 1), dim=3, seed=0):
    values, labels = items(sizes, dim, seed=seed)
    return values + 10 * torch.nn.functional.one_hot(labels, 8)[:, :dim], labels


@BOTH_DRAWS
def test_every_anchor_meets_every_other_class_once(draws):
    values, labels = batch()
    triplets = sampler_of(draws=draws)(values, labels)
    assert triplets.anchor.shape == (10, 3)
    assert triplets.positive.shape == triplets.negative.shape == (10, 3, 3)
    assert triplets.mask.all()
    for label, negatives in zip(labels.tolist(), triplets.negative_labels.tolist(), strict=True):
        assert sorted([label, *negatives]) == [0, 1, 2, 3]


@BOTH_DRAWS
def test_positives_and_negatives_come_from_the_classes_they_are_said_to(draws):
    num_classes, dim = 4, 6
    centers = 100 * torch.eye(dim, dtype=torch.float64)[:num_classes]
    labels = torch.tensor([0, 1, 2, 3, 3, 0, 1, 1])
    values = centers[labels] + torch.randn(8, dim, dtype=torch.float64)
    triplets = sampler_of(num_classes, dim, draws=draws, noise=0.1)(values, labels)

    def nearest_class(points):
        return torch.cdist(points, centers.expand(8, num_classes, dim)).argmin(2)

    assert torch.equal(nearest_class(triplets.positive), labels[:, None].expand(8, 3))
    assert torch.equal(nearest_class(triplets.negative), triplets.negative_labels)


@BOTH_DRAWS
@pytest.mark.parametrize("distribution", ["normal", "student_t"])
def test_draws_of_many_steps_have_the_moments_of_their_classes(draws, distribution):
    values, labels = batch((5, 7), dim=2)
    sampler = sampler_of(2, 2, draws=draws, distribution=distribution, noise=0.7)
    sampler(values, labels)
    sampler.eval()
    generator = torch.Generator().manual_seed(0)
    steps = [sampler(values, labels, generator) for _ in range(4000)]
    for points, of_class in ((0, lambda y: y == 0), (1, lambda y: y != 0)):
        drawn = torch.cat(
            [(t.positive, t.negative)[points][of_class(t.labels)].flatten(0, 1)[:1] for t in steps]
        )
        reference = sampler.posterior.sample(
            torch.tensor([0]), 100_000, generator, distribution=distribution, noise=0.7
        )[0]
        error = reference.std(0) / 4000**0.5
        assert ((drawn.mean(0) - reference.mean(0)).abs() < 5 * error).all()
        assert ((drawn.std(0) / reference.std(0) - 1).abs() < 0.12).all()


def test_own_draws_differ_between_anchors_and_shared_ones_do_not():
    values, labels = batch((3, 3), dim=2)
    own, shared = (sampler_of(2, 2, draws=draws)(values, labels) for draws in ("own", "shared"))
    assert len(own.points.unique(dim=0)) == 2 * 6 * 1
    assert len(shared.points.unique(dim=0)) == 2 * 1
    assert len(shared.positive[labels == 0].unique(dim=0)) == 1


@BOTH_DRAWS
def test_within_an_anchor_all_points_are_different_draws(draws):
    values, labels = batch()
    triplets = sampler_of(draws=draws)(values, labels)
    points = torch.cat([triplets.positive, triplets.negative], 1)  # (B, 2S, D)
    assert all(len(of_anchor.unique(dim=0)) == 6 for of_anchor in points)


@BOTH_DRAWS
def test_a_class_never_seen_is_masked_as_a_negative_and_as_an_anchor(draws):
    values, labels = batch((4, 0, 3, 2))
    sampler = sampler_of(draws=draws)
    triplets = sampler(values, labels)
    assert torch.equal(triplets.mask, triplets.negative_labels != 1)
    sampler.eval()
    late = sampler(values[:2], torch.tensor([1, 0]))
    assert late.mask.tolist() == [[False] * 3, [False, True, True]]


def test_a_class_first_seen_late_is_drawn_from_at_once():
    sampler = sampler_of(3, 2)
    sampler(torch.randn(4, 2, dtype=torch.float64), torch.tensor([0, 0, 1, 1]))
    triplets = sampler(torch.randn(1, 2, dtype=torch.float64) + 50, torch.tensor([2]))
    assert triplets.mask.all()
    assert sampler.posterior.seen.tolist() == [2, 2, 1]


def test_train_mode_updates_before_drawing_and_eval_mode_does_not():
    values, labels = batch()
    sampler = sampler_of()
    sampler(values, labels)
    assert sampler.posterior.seen.tolist() == [3, 2, 4, 1]
    before = copy.deepcopy(sampler.posterior)
    sampler.eval()
    sampler(values, labels)
    assert_equal_state(sampler.posterior, before)


@BOTH_DRAWS
@pytest.mark.parametrize("options", [{}, {"num_negatives": 2, "negatives": "random"}])
def test_the_same_generator_gives_the_same_triplets(draws, options):
    values, labels = batch()
    runs = []
    for seed in (7, 7, 8):
        sampler = sampler_of(draws=draws, **options)
        runs.append(sampler(values, labels, torch.Generator().manual_seed(seed)))
    assert torch.equal(runs[0].points, runs[1].points)
    assert torch.equal(runs[0].negative_labels, runs[1].negative_labels)
    assert not torch.equal(runs[0].points, runs[2].points)


@BOTH_DRAWS
@pytest.mark.parametrize("gradient", ["anchor", "means"])
def test_normalised_anchors_and_draws_lie_on_the_sphere_and_the_posterior_saw_the_anchors(draws, gradient):
    values, labels = batch()
    sampler = sampler_of(draws=draws, gradient=gradient, normalize=True)
    triplets = sampler(values, labels)
    for points in (triplets.anchor, triplets.positive, triplets.negative):
        torch.testing.assert_close(points.norm(dim=-1), torch.ones(points.shape[:-1], dtype=torch.float64))
    unit = torch.nn.functional.normalize(values, dim=1)
    torch.testing.assert_close(sampler.posterior.item_mean[0], unit[labels == 0].mean(0))
    assert sampler.posterior.item_mean[0].norm() < 1


def test_nearest_negatives_are_the_classes_with_the_nearest_means():
    centers = torch.tensor([[0.0, 0], [1, 0], [5, 0], [50, 0], [60, 0]], dtype=torch.float64)
    labels = torch.arange(5).repeat(3)
    values = centers[labels] + 0.01 * torch.randn(15, 2, dtype=torch.float64)
    triplets = sampler_of(5, 2, num_negatives=2)(values, labels)
    expected = {0: {1, 2}, 1: {0, 2}, 2: {0, 1}, 3: {4, 2}, 4: {3, 2}}
    assert triplets.negative.shape == (15, 2, 2)
    for label, negatives in zip(labels.tolist(), triplets.negative_labels.tolist(), strict=True):
        assert set(negatives) == expected[label]


@BOTH_DRAWS
@pytest.mark.parametrize("negatives", ["nearest", "random"])
def test_fewer_seen_classes_than_negatives_asked_for_are_masked(draws, negatives):
    values, labels = batch((3, 2), dim=3)
    triplets = sampler_of(6, 3, num_negatives=4, negatives=negatives, draws=draws)(values, labels)
    assert triplets.mask.sum(1).tolist() == [1] * 5
    assert torch.equal(triplets.negative_labels[triplets.mask], 1 - labels)


def test_random_negatives_are_all_other_seen_classes_in_the_long_run():
    sampler = sampler_of(5, 2, num_negatives=1, negatives="random")
    sampler(torch.randn(8, 2, dtype=torch.float64), torch.tensor([0, 1, 2, 3] * 2))
    sampler.eval()
    chosen = sampler(torch.randn(600, 2, dtype=torch.float64), torch.zeros(600, dtype=torch.int64))
    share = np.bincount(chosen.negative_labels.flatten(), minlength=5) / 600
    np.testing.assert_allclose(share, [0, 1 / 3, 1 / 3, 1 / 3, 0], atol=0.1)


def test_embeddings_in_half_precision_are_sampled_in_single():
    values, labels = batch()
    posterior = ClassPosterior(4, 3)
    triplets = TripletSampler(posterior, normalize=True)(values.half(), labels)
    assert triplets.anchor.dtype == triplets.points.dtype == torch.float32


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_negatives": 0}, "num_negatives must be at least 1; got 0"),
        ({"num_negatives": 4}, "num_negatives must be at most K - 1 = 3; got 4"),
        ({"negatives": "hard"}, "negatives must be one of 'nearest', 'random'; got 'hard'"),
        ({"draws": "all"}, "draws must be one of 'own', 'shared'"),
        ({"distribution": "norm"}, "did you mean 'normal'"),
        ({"noise": -1}, "noise must be at least 0; got -1"),
        ({"gradient": "all"}, "gradient must be one of 'anchor', 'means'"),
        ({"normalize": 1}, "normalize must be True or False; got 1"),
    ],
)
def test_bad_options_of_the_sampler_are_refused(options, message):
    with pytest.raises(BayesTripletError, match=message):
        sampler_of(**options)


def test_a_sampler_needs_a_posterior():
    with pytest.raises(BayesTripletError, match="posterior must be a ClassPosterior; got dict"):
        TripletSampler({})


def test_bad_items_are_refused_in_eval_mode_too():
    with pytest.raises(BayesTripletError, match="labels must lie in"):
        sampler_of().eval()(torch.zeros(1, 3), torch.tensor([9]))
