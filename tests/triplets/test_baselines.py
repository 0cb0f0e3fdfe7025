import copy
import math

import pytest
import torch
from torch import nn

from bayestriplet import baseline
from bayestriplet.errors import BayesTripletError
from bayestriplet.triplets.baselines import BASELINES

NAMES = pytest.mark.parametrize("name", BASELINES)


def batch():
    torch.manual_seed(0)
    return torch.randn(20, 8) + nn.functional.one_hot(torch.arange(20) % 4, 8), torch.arange(20) % 4


def test_the_seven_baselines_have_their_names():
    assert list(BASELINES) == ["ba", "bsh", "bh", "ep", "dws", "nca", "proxy-nca"]


@NAMES
@pytest.mark.parametrize("normalize", [True, False])
def test_a_network_trained_with_a_baseline_moves(name, normalize):
    values, labels = batch()
    network, criterion = nn.Linear(8, 6), baseline(name, 4, 6, normalize)
    before = copy.deepcopy(network.weight)
    optimizer = torch.optim.Adam([*network.parameters(), *criterion.parameters()], 1e-3)
    for _ in range(10):
        loss = criterion(network(values), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        assert loss.isfinite()
    assert not torch.equal(network.weight, before)


@pytest.mark.parametrize(("name", "parameter"), [("proxy-nca", "loss.proxies"), ("dws", "loss.beta")])
def test_an_optimiser_gets_and_moves_the_parameters_of_a_baseline(name, parameter):
    values, labels = batch()
    criterion = baseline(name, 4, 8)
    assert [key for key, _ in criterion.named_parameters()] == [parameter]
    before = criterion.get_parameter(parameter).detach().clone()
    optimizer = torch.optim.SGD(criterion.parameters(), 0.1)
    criterion(values, labels).backward()
    optimizer.step()
    assert not torch.equal(criterion.get_parameter(parameter), before)


@pytest.mark.parametrize("name", sorted(set(BASELINES) - {"proxy-nca", "dws"}))
def test_the_other_baselines_have_no_parameters(name):
    assert not list(baseline(name, 4, 8).parameters())


@NAMES
def test_on_the_sphere_the_length_of_an_embedding_does_not_matter(name):
    values, labels = batch()
    for normalize in (True, False):
        torch.manual_seed(1)
        criterion = baseline(name, 4, 8, normalize)
        losses = []
        for factor in (1.0, 3.0):
            torch.manual_seed(2)  # distance-weighted mining draws
            losses.append(criterion(factor * values, labels).item())
        assert math.isclose(*losses, rel_tol=1e-4) == normalize


def slow_batch_all(values, labels, margin):
    unit = values / values.norm(dim=1, keepdim=True)
    hinges = [
        margin + (unit[i] - unit[p]).norm() - (unit[i] - unit[n]).norm()
        for i in range(len(labels))
        for p in range(len(labels))
        for n in range(len(labels))
        if i != p and labels[i] == labels[p] and labels[i] != labels[n]
    ]
    active = [hinge.item() for hinge in hinges if hinge > 0]
    return sum(active) / len(active)


def slow_batch_hard(values, labels, margin):
    unit = values / values.norm(dim=1, keepdim=True)
    distance = (unit[:, None] - unit).norm(dim=2)
    hinges = []
    for i in range(len(labels)):
        same = labels == labels[i]
        hardest_negative = distance[i][~same].min()
        same[i] = False
        hinges.append((margin + distance[i][same].max() - hardest_negative).item())
    if margin == 0:
        return sum(math.log1p(math.exp(hinge)) for hinge in hinges) / len(hinges)
    active = [hinge for hinge in hinges if hinge > 0]
    return sum(active) / len(active)


def slow_nca(values, labels, temperature):
    unit = values / values.norm(dim=1, keepdim=True)
    kernel = torch.exp(-(unit[:, None] - unit).square().sum(2) / temperature)
    kernel.fill_diagonal_(0)
    same = labels[:, None] == labels
    return -torch.log((kernel * same).sum(1) / kernel.sum(1)).mean().item()


def test_batch_all_batch_hard_and_nca_are_what_their_names_say():
    values, labels = batch()
    for name, slow, option in (
        ("ba", slow_batch_all, {"margin": 0.2}),
        ("bh", slow_batch_hard, {"margin": 0.2}),
        ("bh", slow_batch_hard, {"margin": 0.0}),
        ("nca", slow_nca, {"temperature": 0.5}),
    ):
        got = baseline(name, 4, 8, **option)(values, labels).item()
        assert got == pytest.approx(slow(values, labels, *option.values()), rel=1e-4), name


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "hard"}, "name must be one of 'ba', 'bsh'"),
        ({"name": "proxy_nca"}, "did you mean 'proxy-nca'"),
        ({"num_classes": 1}, "num_classes must be at least 2"),
        ({"dim": 0}, "dim must be at least 1"),
        ({"margin": 0}, "margin must be above 0"),
        ({"name": "bh", "margin": -0.1}, "margin must be at least 0"),
        ({"temperature": 1.0}, "ba has no option 'temperature'; it takes margin"),
        ({"normalize": "no"}, "normalize must be True or False"),
    ],
)
def test_bad_options_of_a_baseline_are_refused(arguments, message):
    with pytest.raises(BayesTripletError, match=message):
        baseline(**{"name": "ba", "num_classes": 3, "dim": 4} | arguments)


def test_bad_items_are_refused_by_baselines_too():
    criterion = baseline("ba", 3, 4)
    with pytest.raises(BayesTripletError, match="embeddings must be finite"):
        criterion(torch.full((3, 4), math.nan), torch.arange(3))
    with pytest.raises(BayesTripletError, match="empty batch"):
        criterion(torch.zeros(0, 4), torch.zeros(0, dtype=torch.int64))
    with pytest.raises(BayesTripletError, match="brings its own miner"):
        criterion(torch.randn(3, 4), torch.arange(3), ref_emb=torch.randn(3, 4))


@pytest.mark.parametrize("name", ["ba", "bsh", "bh"])
def test_the_active_share_counts_triplets_with_a_loss(name):
    values, labels = batch()
    criterion = baseline(name, 4, 8)
    assert criterion.active_share() is None
    criterion(values, labels)
    assert 0 < criterion.active_share() <= 1
    criterion(100 * nn.functional.one_hot(labels, 8).float(), labels)  # all apart: nothing to learn
    assert criterion.active_share() == 0


def test_a_soft_margin_has_no_active_share():
    criterion = baseline("bh", 4, 8, margin=0.0)
    criterion(*batch())
    assert criterion.active_share() is None


def test_losses_without_a_margin_have_no_active_share():
    values, labels = batch()
    criterion = baseline("nca", 4, 8)
    criterion(values, labels)
    assert criterion.active_share() is None


@NAMES
def test_a_batch_without_two_items_of_a_class_has_a_finite_loss_and_gradient(name):
    torch.manual_seed(0)
    embeddings = torch.randn(10, 8, requires_grad=True)
    loss = baseline(name, 10, 8)(embeddings, torch.arange(10))
    loss.backward()
    assert loss.isfinite()
    assert embeddings.grad.isfinite().all()
    assert name == "proxy-nca" or loss == 0
