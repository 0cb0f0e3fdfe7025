import copy

import numpy as np
import pytest
import torch

from bayestriplet import ClassPosterior, TripletSampler
from bayestriplet.errors import BayesTripletError
from bayestriplet.triplets.sampler import draws_per_class
from bayestriplet.triplets.sphere import Vertices, random_directions, simplex_vertices
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
@pytest.mark.parametrize("options", [{}, {"draw_classes": 3}])
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
def test_normalised_anchors_and_draws_lie_on_the_sphere_and_the_posterior_saw_the_anchors(draws):
    values, labels = batch()
    sampler = sampler_of(draws=draws, normalize=True)
    triplets = sampler(values, labels)
    for points in (triplets.anchor, triplets.positive, triplets.negative):
        torch.testing.assert_close(points.norm(dim=-1), torch.ones(points.shape[:-1], dtype=torch.float64))
    unit = torch.nn.functional.normalize(values, dim=1)
    torch.testing.assert_close(sampler.posterior.item_mean[0], unit[labels == 0].mean(0))
    assert sampler.posterior.item_mean[0].norm() < 1


def joined(sizes, num_classes=4, dim=5, **options):
    """A joined batch, the class of each of its points, and where the batch's items begin among them."""
    labels = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    labels = labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(1))]
    values = torch.randn(len(labels), dim, dtype=torch.float64, requires_grad=True)
    triplets = sampler_of(num_classes, dim, draws="joined", **options)(values, labels)
    drawn = [k for k in range(num_classes) for _ in range(min(9, num_classes - 1))]
    return triplets, values, torch.tensor([*drawn, *labels.tolist()]), len(drawn)


@pytest.mark.parametrize("sizes", [(3, 2, 4, 1), (5, 5, 5, 5), (1, 1, 1, 1), (6, 0, 1, 0)])
def test_joined_triplets_pair_every_point_of_another_class_with_one_of_the_own(sizes):
    triplets, values, classes, behind = joined(sizes)
    assert len(triplets.points) == len(classes)
    torch.testing.assert_close(triplets.points[behind:], values)
    seen = torch.tensor(sizes)[classes] > 0
    for i, label in enumerate(triplets.labels):
        assert torch.equal(triplets.mask[i], (classes != label) & seen)
        negative, positive = (triplets.index[side, i][triplets.mask[i]] for side in (1, 0))
        assert torch.equal(negative, ((classes != label) & seen).nonzero().squeeze(1))
        assert (classes[positive] == label).all()
        assert (positive != behind + i).all()  # never the anchor itself
    assert torch.equal(triplets.negative_labels, classes.expand(len(triplets.labels), -1))


def test_joined_positives_are_all_points_of_the_class_equally_often():
    labels = torch.tensor([0, 1, 0, 0, 1])
    sampler = sampler_of(2, 3, draws="joined")
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(5, 3, dtype=torch.float64)
    count = torch.zeros(7)
    for _ in range(4000):
        triplets = sampler(values, labels, generator)
        count += torch.bincount(triplets.index[0, 2][triplets.mask[2]], minlength=7)
    # Rows: a draw of class 0, one of class 1, the five items. Anchor 2 has three positives.
    assert (count[[1, 3, 4, 6]] == 0).all()
    share = count[[0, 2, 5]] / count.sum()
    np.testing.assert_allclose(share, 1 / 3, atol=0.02)  # more than 4 standard errors


def test_joined_items_of_the_batch_get_gradients_as_positives_and_negatives():
    triplets, values, _, behind = joined((3, 3, 0, 0))
    (gradient,) = torch.autograd.grad(triplets.points[behind].sum(), values)
    expected = torch.zeros_like(values)
    expected[0] = 1
    torch.testing.assert_close(gradient, expected)


@pytest.mark.parametrize("draws", ["own", "shared", "joined"])
def test_a_step_draws_from_the_classes_of_the_batch_and_the_nearest_to_each_of_them(draws):
    place = torch.tensor([0.0, 1, 3, 50, 52, 55, 500, 900], dtype=torch.float64)
    sampler = sampler_of(8, 2, draws=draws, draw_classes=4, noise=0.0)
    every = torch.arange(8).repeat(3)
    sampler(place[every].unsqueeze(1) * torch.ones(2), every)
    labels = torch.tensor([4, 0, 4, 0])
    triplets = sampler(place[labels].unsqueeze(1) * torch.ones(2), labels)
    met = triplets.negative_labels[triplets.mask]
    assert set(met.tolist()) == {0, 1, 3, 4}
    for i, label in enumerate(labels.tolist()):
        assert set(triplets.negative_labels[i][triplets.mask[i]].tolist()) == {0, 1, 3, 4} - {label}
    drawn = triplets.mask & (triplets.index[1] < len(triplets.points) - (4 if draws == "joined" else 0))
    centre = sampler.posterior.mean[triplets.negative_labels[drawn]]
    torch.testing.assert_close(triplets.negative[drawn], centre, rtol=0, atol=1e-9)


def test_among_many_classes_the_nearest_are_looked_for_in_another_part_every_time(monkeypatch):
    monkeypatch.setattr("bayestriplet.triplets.sampler.LOOKED_AT", 10)
    place = torch.arange(30, dtype=torch.float64)
    sampler = sampler_of(30, 2, draws="joined", draw_classes=4, noise=0.0)
    every = torch.arange(30)
    sampler(place[every].unsqueeze(1) * torch.ones(2), every)
    labels, twin, met = torch.tensor([4, 25]), copy.deepcopy(sampler), []
    for _ in range(6):
        triplets = sampler(place[labels].unsqueeze(1) * torch.ones(2), labels)
        again = twin(place[labels].unsqueeze(1) * torch.ones(2), labels)
        assert torch.equal(again.negative_labels, triplets.negative_labels)
        near = set(triplets.negative_labels[triplets.mask].tolist()) - {4, 25}
        assert len({label // 10 for label in near}) == 1
        met.append(near)
    # Of classes 0-9, 10-19 and 20-29, the nearest to 4 and to 25.
    assert {frozenset(near) for near in met} == {frozenset({3, 9}), frozenset({10, 19}), frozenset({20, 24})}


def test_the_classes_of_the_batch_are_drawn_from_also_where_they_are_more_than_asked_for():
    sampler = sampler_of(6, 3, draws="joined", draw_classes=2)
    labels = torch.arange(5)
    triplets = sampler(torch.randn(5, 3, dtype=torch.float64), labels)
    assert set(triplets.negative_labels[triplets.mask].tolist()) == set(range(5))


@pytest.mark.parametrize(
    ("classes", "num"),
    [(2, 1), (9, 8), (10, 8), (56, 8), (64, 8), (65, 7), (100, 5), (128, 4), (500, 2)],
)
def test_joined_points_are_eight_per_class_and_bounded_in_all(classes, num):
    assert draws_per_class(classes, classes) == num


@pytest.mark.parametrize("structure", ["full", "tied", "lowrank", "diagonal"])
@pytest.mark.parametrize("distribution", ["normal", "student_t"])
def test_joined_draws_come_in_pairs_on_either_side_of_their_centre(structure, distribution):
    posterior = ClassPosterior(4, 6, structure=structure)
    posterior.update(torch.randn(40, 6), torch.arange(40) % 4)
    sampler = TripletSampler(posterior, draws="joined", distribution=distribution).eval()
    points = sampler(torch.randn(4, 6), torch.arange(4)).rows[:12].view(4, 3, 6)
    first, alone, second = points.unbind(1)  # of three draws the one in the middle has no partner
    if distribution == "normal":
        torch.testing.assert_close((first + second) / 2, posterior.mean, atol=1e-5, rtol=1e-5)
    across = torch.nn.functional.cosine_similarity(first - posterior.mean, second - posterior.mean)
    torch.testing.assert_close(across, -torch.ones(4), atol=1e-4, rtol=0)
    assert ((alone - posterior.mean).norm(dim=1) > 0).all()


def test_own_points_are_those_of_the_labels_at_hand_also_after_others():
    torch.manual_seed(0)
    sampler = TripletSampler(ClassPosterior(3, 4), draws="joined")
    for labels in ([0, 0, 1, 1, 2, 2], [0, 0, 1, 1, 2, 2], [2, 1, 0, 2, 1, 0], [0, 0, 1, 1, 2, 2]):
        triplets = sampler(torch.randn(6, 4), torch.tensor(labels))
        assert (triplets.point_labels[triplets.index[0]] == triplets.labels.unsqueeze(1)).all()
        assert torch.equal(triplets.mask, triplets.point_labels != triplets.labels.unsqueeze(1))


def test_joined_with_one_class_seen_has_no_triplets():
    triplets, *_ = joined((4, 0, 0, 0))
    assert not triplets.mask.any()


@pytest.mark.parametrize("draws", ["own", "shared", "joined"])
def test_spread_moves_the_centres_of_draws_towards_the_vertices_of_a_simplex(draws):
    labels = torch.arange(12) % 4
    values = torch.nn.functional.normalize(torch.randn(12, 6, dtype=torch.float64))
    sampler = sampler_of(4, 6, draws=draws, normalize=True, noise=0.0, spread=0.25)
    triplets = sampler(values, labels)
    vertices = sampler.vertex(torch.arange(4))
    edges = torch.cdist(vertices, vertices)[~torch.eye(4, dtype=torch.bool)]
    np.testing.assert_allclose(edges, np.sqrt(8 / 3))  # of a regular simplex on the unit sphere
    centre = 0.75 * sampler.posterior.mean + 0.25 * vertices
    expected = torch.nn.functional.normalize(centre)[triplets.negative_labels]
    drawn = triplets.index[1] < (len(triplets.points) - 12 if draws == "joined" else len(triplets.points))
    there = triplets.mask & drawn
    assert there.any()
    torch.testing.assert_close(triplets.negative[there], expected[there])


@pytest.mark.parametrize(("num_classes", "dim"), [(2, 1), (3, 2), (10, 128), (129, 128), (400, 64)])
def test_vertices_are_a_regular_simplex_or_random_directions(num_classes, dim):
    vertices = simplex_vertices(num_classes, dim)
    np.testing.assert_allclose(vertices.norm(dim=1), 1)
    cosines = (vertices @ vertices.T)[~torch.eye(num_classes, dtype=torch.bool)]
    if num_classes <= dim + 1:
        np.testing.assert_allclose(cosines, -1 / (num_classes - 1), atol=1e-12)
    else:
        assert cosines.abs().max() < 0.75


def test_directions_are_the_same_with_and_without_a_table_and_spread_evenly():
    some = torch.tensor([0, 7, 399])
    assert torch.equal(Vertices(400, 64, torch.float64)(some), random_directions(some, 64))
    assert Vertices(400_000, 64, torch.float32).table is None
    many = random_directions(torch.arange(4000), 16)
    np.testing.assert_allclose(many.mean(0), 0, atol=5 / (4000 * 16) ** 0.5)  # 5 standard errors
    np.testing.assert_allclose(many.T @ many / 4000 * 16, np.eye(16), atol=0.12)


def test_embeddings_in_half_precision_are_sampled_in_single():
    values, labels = batch()
    posterior = ClassPosterior(4, 3)
    triplets = TripletSampler(posterior, normalize=True)(values.half(), labels)
    assert triplets.anchor.dtype == triplets.points.dtype == torch.float32


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"draw_classes": 1}, "draw_classes must be at least 2; got 1"),
        ({"draw_classes": None}, "draw_classes must be a whole number; got None"),
        ({"draws": "all"}, "draws must be one of 'own', 'shared'"),
        ({"distribution": "norm"}, "did you mean 'normal'"),
        ({"noise": -1}, "noise must be at least 0; got -1"),
        ({"normalize": 1}, "normalize must be True or False; got 1"),
        ({"spread": 0.5}, "spread needs normalize=True"),
        ({"spread": -0.5, "normalize": True}, "spread must be at least 0; got -0.5"),
        ({"spread": 1.5, "normalize": True}, "spread must be at most 1; got 1.5"),
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
