import numpy as np
import pytest

from bayestriplet.evaluation import predictive_fit
from bayestriplet.evaluation.embeddings import Embedded
from bayestriplet.evaluation.predictive_fit import FLOOR, MEMORY, WEIGHT, Reading, fit_reading, log_densities
from bayestriplet.runs import students as students_module
from bayestriplet.runs.statistics import Statistics


def made_items(number, seed, classes=3, dim=4):
    """Items with heavy tails and classes of different width."""
    rng = np.random.default_rng(seed)
    labels = np.arange(number) % classes
    centers = np.random.default_rng(7).normal(size=(classes, dim))
    noise = rng.standard_t(3, size=(number, dim)) * (0.5 + labels[:, None] / 4)
    return Embedded((centers[labels] + noise).astype(np.float32), labels)


def statistics_of(items):
    return Statistics.of(items.vectors, items.labels, 3)


def slow_loss(reading, statistics, items):
    """Log loss at the reading's own temperature."""
    scores = log_densities(reading.students(statistics), items.vectors) / reading.temperature
    chance = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    return -np.log(chance[np.arange(len(items.labels)), items.labels]).mean()


def test_no_neighbour_on_the_grid_has_a_lower_log_loss_than_the_chosen_reading():
    train, held_out = made_items(600, 0), made_items(900, 1)
    statistics = statistics_of(train)
    prior = np.full(3, np.log(1 / 3))
    chosen = fit_reading(statistics, prior, held_out)
    least = slow_loss(chosen, statistics, held_out)
    for name, grid in (("memory", MEMORY), ("weight", WEIGHT), ("floor", FLOOR)):
        place = grid.index(getattr(chosen, name))
        for value in grid[max(0, place - 1) : place + 2]:
            moved = {"memory": chosen.memory, "weight": chosen.weight, "floor": chosen.floor, name: value}
            losses = [
                slow_loss(Reading(**moved, temperature=t), statistics, held_out)
                for t in chosen.temperature * np.geomspace(0.1, 10, 101)
            ]
            assert least <= min(losses) + 1e-3


def test_a_reading_is_better_than_the_plain_predictive_on_items_with_heavy_tails():
    statistics, held_out, test = statistics_of(made_items(600, 0)), made_items(900, 1), made_items(3000, 2)
    chosen = fit_reading(statistics, np.full(3, np.log(1 / 3)), held_out)
    plain = Reading(3000.0, 0.3, 0.001, 1.0)
    assert slow_loss(chosen, statistics, test) < slow_loss(plain, statistics, test) - 0.02


def test_many_items_are_searched_on_evenly_spread_ones_and_all_set_the_temperature(monkeypatch):
    statistics, held_out = statistics_of(made_items(600, 0)), made_items(9000, 1)
    prior = np.full(3, np.log(1 / 3))
    sizes = []
    original = predictive_fit.log_densities
    monkeypatch.setattr(predictive_fit, "WORK", 3 * 16 * 1000)
    monkeypatch.setattr(predictive_fit, "log_densities", lambda s, v: sizes.append(len(v)) or original(s, v))
    fit_reading(statistics, prior, held_out)
    assert set(sizes[:-1]) == {1000}
    assert sizes[-1] == 9000


def test_densities_in_blocks_are_those_at_once(monkeypatch):
    items = made_items(50, 0)
    students = Reading(30.0, 3.0, 0.1, 1.0).students(statistics_of(items))
    whole = log_densities(students, items.vectors)
    monkeypatch.setattr(students_module, "BLOCK_CELLS", 12 * 7)
    np.testing.assert_allclose(log_densities(students, items.vectors), whole)
    assert log_densities(students, items.vectors[:0]).shape == (0, 3)


@pytest.mark.parametrize("number", [1, 2, 5])
def test_a_few_held_out_items_give_a_usable_temperature(number):
    reading = fit_reading(statistics_of(made_items(60, 0)), np.full(3, np.log(1 / 3)), made_items(number, 1))
    assert 1e-3 < reading.temperature < 1e6
