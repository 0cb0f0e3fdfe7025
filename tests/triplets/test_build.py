import json
import time

import pytest
import torch

from bayestriplet.methods import METHODS
from bayestriplet.triplets.apart import MOST_CLASSES, directions_apart
from bayestriplet.triplets.build import CONTROLS, build_criterion, drawing_recipe
from bayestriplet.triplets.criteria import BUNCA
from bayestriplet.triplets.sphere import random_directions, simplex_vertices


def made(method, num_classes=6, dim=8, **options):
    return build_criterion(
        method, num_classes, dim, recipe="default", generator=torch.Generator().manual_seed(0), **options
    )


def drawn(criterion, num_classes=6, dim=8):
    """Points of the second step, without those of the batch, and their classes."""
    generator = torch.Generator().manual_seed(1)
    labels = torch.arange(24) % num_classes
    for _ in range(2):
        criterion(torch.randn(24, dim, generator=generator), labels)
    number = len(criterion.latest.points) - len(labels)
    return criterion.latest.points[:number], criterion.latest.negative_labels[0, :number]


def smallest_angle(vectors):
    cosines = vectors.double() @ vectors.double().mT
    return float(torch.rad2deg(torch.acos(cosines.fill_diagonal_(-1).max())))


@pytest.mark.parametrize("method", CONTROLS)
def test_a_control_is_bunca_with_parts_taken_away(method):
    criterion = made(method, temperature=0.05, draw_classes=5)
    assert isinstance(criterion, BUNCA)
    assert criterion.loss_options["temperature"] == 0.05
    assert criterion.sampler.draw_classes == 5
    assert criterion.sampler.noise == 0


def test_vertices_alone_are_drawn_wherever_the_items_are():
    points, labels = drawn(made("vertices"))
    torch.testing.assert_close(points, simplex_vertices(6, 8).float()[labels])


def test_means_alone_are_drawn_at_the_means_of_the_classes():
    criterion = made("means")
    points, labels = drawn(criterion)
    means = torch.nn.functional.normalize(criterion.posterior.mean)
    torch.testing.assert_close(points, means[labels])


def test_without_noise_all_draws_of_a_class_are_one_point():
    points, labels = drawn(made("no-noise"))
    for k in range(6):
        own = points[labels == k]
        torch.testing.assert_close(own, own[:1].expand_as(own))
    assert smallest_angle(points[:: len(points) // 6]) < smallest_angle(simplex_vertices(6, 8)) - 1


def test_more_classes_than_vertices_are_moved_apart_for_the_control_alone():
    table = made("vertices", 40, 8).sampler.vertex.table
    torch.testing.assert_close(table, directions_apart(40, 8))
    torch.testing.assert_close(
        made("bunca", 40, 8).sampler.vertex.table, random_directions(torch.arange(40), 8).float()
    )
    assert not any("table" in name for name in made("vertices", 40, 8).state_dict())


@pytest.mark.parametrize(("num_classes", "dim"), [(3, 1), (10, 2), (50, 8), (600, 16)])
def test_the_smallest_angle_grows_and_the_directions_are_always_the_same(num_classes, dim):
    begun = random_directions(torch.arange(num_classes), dim)
    vectors = directions_apart(num_classes, dim)
    torch.testing.assert_close(vectors.norm(dim=1), torch.ones(num_classes))
    assert torch.equal(vectors, directions_apart(num_classes, dim))
    if dim > 1:
        assert smallest_angle(vectors) > 1.5 * smallest_angle(begun)


def test_the_directions_of_ten_classes_in_a_plane_are_nearly_even():
    assert smallest_angle(directions_apart(10, 2)) > 0.9 * 36


def test_804_classes_in_128_dimensions_are_nearly_at_right_angles_in_four_seconds_of_a_core():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # several would spin while other programs have the cores
    start = time.process_time()
    vectors = directions_apart(804, 128)
    took = time.process_time() - start
    torch.set_num_threads(threads)
    assert took < 4
    assert smallest_angle(random_directions(torch.arange(804), 128)) < 70 < 84 < smallest_angle(vectors)


def test_too_many_classes_keep_their_random_directions():
    number = MOST_CLASSES + 1
    assert torch.equal(directions_apart(number, 4), random_directions(torch.arange(number), 4).float())


def test_runs_of_controls_are_known_by_what_they_fix():
    recipes = {name: drawing_recipe(name, "default") for name in ("bunca", *CONTROLS)}
    assert recipes["vertices"] == recipes["bunca"] | {"spread": 1.0, "noise": 0.0, "handover": False}
    assert len({json.dumps(one, sort_keys=True) for one in recipes.values()}) == 4
    assert drawing_recipe("bh", "default") == {}
    assert all(METHODS[name].control for name in CONTROLS)
