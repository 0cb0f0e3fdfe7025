"""How well classes lie apart, and how far draws need their vertices."""

import copy
import itertools

import numpy as np
import pytest
import torch

import bayestriplet as bt
from bayestriplet.posterior.separation import separation_of, share_of_vertices
from bayestriplet.triplets.sphere import simplex_vertices


def by_loops(items, means, line, known):
    score = pairs = 0
    for item, own in zip(items, line, strict=True):
        for other in range(len(means)):
            if other != own and known[own] and known[other]:
                near, far = (float((item - means[k]).square().sum()) for k in (own, other))
                score += np.sign(far - near)
                pairs += 1
    return score / pairs


@pytest.fixture(params=["memory", "device"])
def where(request, monkeypatch):
    """Lets the code for devices run too, on the processor."""
    if request.param == "device":
        monkeypatch.setattr("bayestriplet.posterior.separation.in_memory", lambda _: False)
    return request.param


@pytest.mark.parametrize("known", [[1, 1, 1, 1], [1, 0, 1, 1], [1, 0, 0, 1]])
def test_separation_counts_how_often_the_own_mean_is_the_nearer_one(where, known):
    generator = torch.Generator().manual_seed(0)
    means = torch.randn(4, 3, generator=generator, dtype=torch.float64)
    line = np.array([2, 0, 1, 3, 3, 0, 2])
    items = means[line] + torch.randn(7, 3, generator=generator, dtype=torch.float64)
    known = np.array(known, dtype=bool)
    found = separation_of(items, means, line, known)
    assert float(found) == pytest.approx(by_loops(items, means, line, known))


@pytest.mark.parametrize("cells", [1, 8, 12])
def test_separation_of_a_large_batch_is_read_in_parts(where, monkeypatch, cells):
    generator = torch.Generator().manual_seed(0)
    means = torch.randn(4, 3, generator=generator, dtype=torch.float64)
    line = np.array([2, 0, 1, 3, 3, 0, 2])
    items = means[line] + torch.randn(7, 3, generator=generator, dtype=torch.float64)
    known = np.ones(4, dtype=bool)
    monkeypatch.setattr("bayestriplet.posterior.separation.CELLS", cells)
    found = separation_of(items, means, line, known)
    assert float(found) == pytest.approx(by_loops(items, means, line, known))


@pytest.mark.parametrize("known", [[True, False], [False, False]])
def test_separation_is_not_known_where_no_two_means_are(known):
    items = torch.ones(2, 3)
    assert separation_of(items, torch.zeros(2, 3), np.array([0, 1]), np.array(known)) is None


def test_equal_distances_are_no_separation(where):
    found = separation_of(torch.ones(4, 3), torch.ones(2, 3), np.array([0, 0, 1, 1]), np.array([True, True]))
    assert float(found) == 0


def test_vertices_are_left_as_classes_lie_apart_elsewhere_and_kept_where_they_lie_at_them(where):
    vertex = simplex_vertices(4, 8).double()
    elsewhere = torch.zeros(4, 8, dtype=torch.float64)
    elsewhere[:, 4:] = torch.eye(4)  # at right angles to all vertices
    for shift, aligned in ((vertex * 0.3, 1.0), (elsewhere, 0.0), (-vertex, 0.0), (0 * vertex, 0.0)):
        for separation in (-0.2, 0.0, 0.4, 1.0):
            found = share_of_vertices(0.8, torch.tensor(separation).double(), shift, vertex)
            assert float(found) == pytest.approx(0.8 * (1 - max(separation, 0) * (1 - aligned)))


def test_alignment_is_the_cosine_between_the_tables(where):
    vertex, shift = simplex_vertices(3, 5).double(), torch.randn(3, 5, dtype=torch.float64).abs()
    cosine = torch.nn.functional.cosine_similarity(shift.flatten(), vertex.flatten(), 0).clamp_min(0)
    found = share_of_vertices(1.0, torch.tensor(0.5).double(), shift, vertex)
    assert float(found) == pytest.approx(1 - 0.5 * (1 - float(cosine)))


def batches(centres, seed=0):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(40) % len(centres)
    while True:
        yield centres[labels] + 0.1 * torch.randn(40, centres.shape[1], generator=generator), labels


def test_a_sampler_hands_over_by_itself_and_its_draws_follow():
    generator = torch.Generator().manual_seed(1)
    centres = torch.nn.functional.normalize(torch.randn(5, 16, generator=generator))
    sampler = bt.TripletSampler(
        bt.ClassPosterior(5, 16), draws="joined", noise=0.0, normalize=True, spread=0.8, handover=True
    )
    stream = batches(centres)
    begin = sampler(*next(stream)).rows[:20].view(5, 4, 16).mean(1)
    for _ in range(60):
        end = sampler(*next(stream)).rows[:20].view(5, 4, 16).mean(1)
    vertex = simplex_vertices(5, 16).float()
    assert sampler.posterior.separation > 0.95
    assert ((begin * vertex).sum(1) > 0.9).all()
    assert ((end * centres).sum(1) > (begin * centres).sum(1) + 0.2).all()
    assert ((end * centres).sum(1) > 0.9).all()


def test_separation_survives_a_checkpoint_and_states_from_before_it_load():
    criterion, stream = bt.BUNCA(5, 16), batches(torch.eye(5, 16))
    for embeddings, labels in itertools.islice(stream, 3):
        criterion(embeddings, labels)
    state = copy.deepcopy(criterion.state_dict())
    assert 0 < float(state["sampler.posterior.separation"]) < 1
    again = bt.BUNCA(5, 16)
    again.load_state_dict(state)
    embeddings, labels = next(stream)
    torch.manual_seed(3)
    wanted = criterion(embeddings, labels)
    torch.manual_seed(3)
    assert again(embeddings, labels) == wanted
    del state["sampler.posterior.separation"]
    again.load_state_dict(state)
    assert again.posterior.separation == 0


def test_the_posterior_alone_spends_nothing_on_separation():
    posterior = bt.ClassPosterior(5, 16)
    for embeddings, labels in itertools.islice(batches(torch.eye(5, 16)), 3):
        posterior.update(embeddings, labels)
    assert posterior.separation == 0
