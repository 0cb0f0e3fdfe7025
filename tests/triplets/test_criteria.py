import copy
import math
import pickle
import warnings

import numpy as np
import pytest
import torch
from pytorch_metric_learning import losses as pml_losses
from torch import nn

from bayestriplet import BUNCA, BUT, nca_loss, triplet_loss
from bayestriplet.errors import BayesTripletError
from tests.posterior.test_posterior import BAD_ITEMS, GOOD, assert_equal_state

CRITERIA = pytest.mark.parametrize("criterion_class", [BUT, BUNCA])


def paper(criterion_class, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return criterion_class(*arguments, recipe="paper", **options)


@pytest.mark.parametrize("recipe", ["default", "paper"])
@CRITERIA
def test_a_network_trained_for_fifty_steps_moves_and_every_parameter_gets_a_gradient(criterion_class, recipe):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 8))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        criterion = criterion_class(3, 8, recipe)
    optimizer = torch.optim.Adam(network.parameters(), 1e-3)
    before = copy.deepcopy(network)
    reached = {name: False for name, _ in network.named_parameters()}
    for _ in range(50):
        labels = torch.arange(15) % 3
        loss = criterion(network(torch.randn(15, 6) + nn.functional.one_hot(labels, 6)), labels)
        optimizer.zero_grad()
        loss.backward()
        for name, parameter in network.named_parameters():
            reached[name] |= bool(parameter.grad.abs().sum() > 0)
        optimizer.step()
        assert loss.isfinite()
    assert all(reached.values()), reached
    for (name, now), then in zip(network.named_parameters(), before.parameters(), strict=True):
        assert not torch.equal(now, then), name


def test_but_learns_to_separate_classes():
    torch.manual_seed(0)
    history = []  # of three networks: with a single one the ratio varies by 0.08
    for _ in range(3):
        network, criterion = nn.Linear(10, 4), BUT(3, 4, reduction="mean")
        optimizer = torch.optim.Adam(network.parameters(), 1e-2)
        for step in range(300):
            labels = torch.arange(30) % 3
            loss = criterion(network(torch.randn(30, 10) + 2 * nn.functional.one_hot(labels, 10)), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            history.append((step, loss.item()))
    first, last = (np.mean([loss for step, loss in history if step // 20 == part]) for part in (0, 14))
    assert last < 0.6 * first


@pytest.mark.parametrize(("criterion_class", "spread"), [(BUT, 0.5), (BUNCA, 0.8)])
def test_each_criterion_spreads_its_draws_in_its_own_way(criterion_class, spread):
    assert criterion_class(4, 5).sampler.spread == spread
    assert criterion_class(4, 5, normalize=False).sampler.spread == 0
    assert criterion_class(4, 5, spread=0.1).sampler.spread == 0.1


def test_only_on_the_sphere_do_items_that_are_near_enough_cease_to_pull():
    assert BUNCA(4, 5).loss_options["positive_margin"] == 0.6
    assert BUNCA(4, 5, normalize=False).loss_options["positive_margin"] == 0
    assert BUNCA(4, 5, normalize=False, positive_margin=2.0).loss_options["positive_margin"] == 2
    assert BUNCA(4, 5, recipe="paper").loss_options["positive_margin"] == 0
    with pytest.raises(BayesTripletError, match="positive_margin must be"):
        BUNCA(4, 5, positive_margin=-0.1)


def test_the_loss_is_that_of_its_sampler_and_loss_function():
    embeddings, labels = torch.randn(12, 5), torch.arange(12) % 4
    for criterion_class, loss in (
        (BUT, lambda t: triplet_loss(t, 0.25, "paired", "active", squared=False)),
        (BUNCA, lambda t: nca_loss(t, 0.15, positive_margin=0.6)),
    ):
        one, other = (criterion_class(4, 5, generator=torch.Generator().manual_seed(1)) for _ in range(2))
        assert one(embeddings, labels) == loss(other.sampler(embeddings, labels, other.generator))


@CRITERIA
def test_options_depart_from_the_recipe_one_by_one(criterion_class):
    criterion = criterion_class(4, 5, noise=0.0, memory=None, draws="own", draw_classes=3, structure="tied")
    assert (criterion.sampler.draw_classes, criterion.posterior.structure.name) == (3, "tied")
    assert (criterion.sampler.noise, criterion.posterior.memory) == (0.0, None)
    assert criterion.sampler.normalize
    assert criterion.posterior.prior == "empirical"


@CRITERIA
def test_two_forward_passes_before_one_backward_pass_work(criterion_class):
    criterion = criterion_class(3, 4)
    labels = torch.arange(9) % 3
    embeddings = [torch.randn(9, 4, requires_grad=True) for _ in range(2)]
    (criterion(embeddings[0], labels) + criterion(embeddings[1], labels)).backward()
    assert all(e.grad.abs().sum() > 0 for e in embeddings)


@CRITERIA
def test_eval_mode_leaves_the_posterior_alone(criterion_class):
    criterion = criterion_class(3, 4)
    criterion(torch.randn(9, 4), torch.arange(9) % 3)
    before = copy.deepcopy(criterion)
    criterion.eval()
    assert criterion(torch.randn(9, 4), torch.arange(9) % 3).isfinite()
    assert_equal_state(criterion, before)


@CRITERIA
def test_half_bfloat16_and_autocast_leave_losses_finite_and_statistics_in_single(criterion_class):
    labels = torch.arange(12) % 3
    for dtype in (torch.float16, torch.bfloat16):
        criterion = criterion_class(3, 8).to(dtype)
        embeddings = torch.randn(12, 8, dtype=dtype, requires_grad=True)
        loss = criterion(embeddings, labels)
        loss.backward()
        assert loss.isfinite()
        assert embeddings.grad.dtype == dtype
        assert criterion.posterior.item_scatter.dtype == torch.float32
    network, criterion = nn.Linear(5, 8), criterion_class(3, 8)
    with torch.autocast("cpu", torch.bfloat16):
        loss = criterion(network(torch.randn(12, 5)), labels)
        loss.backward()
    assert loss.isfinite()
    assert loss.dtype == torch.float32
    assert network.weight.grad.abs().sum() > 0


def test_state_dict_round_trip_continues_with_the_same_losses():
    def steps(criterion, seed):
        generator = torch.Generator().manual_seed(seed)
        criterion.generator = torch.Generator().manual_seed(seed)
        return [
            criterion(torch.randn(9, 4, generator=generator), torch.arange(9) % 3).item() for _ in range(3)
        ]

    first, second = BUT(3, 4), BUT(3, 4)
    steps(first, 0)
    second.load_state_dict(first.state_dict())
    assert steps(first, 1) == steps(second, 1)


@CRITERIA
def test_copies_and_pickles_of_a_criterion_with_a_generator_go_on_alike(criterion_class):
    labels = torch.arange(9) % 3
    criterion = criterion_class(3, 4, generator=torch.Generator().manual_seed(0))
    criterion(torch.randn(9, 4, requires_grad=True), labels)
    copies = [copy.deepcopy(criterion), pickle.loads(pickle.dumps(criterion))]
    embeddings = torch.randn(9, 4)
    expected = criterion(embeddings, labels)
    assert all(other(embeddings, labels) == expected for other in copies)


# The paper's algorithm, corrected, as loops: docs/method.md


def slow_algorithm(batches, num_classes):
    """State of every class after the batches: Algorithm 1, class by class and item by item."""
    state = [None] * num_classes
    for embeddings, labels in batches:
        dim = embeddings.shape[1]
        for j in range(num_classes):
            own = [x for x, y in zip(embeddings, labels, strict=True) if y == j]
            mean = sum(own) / len(own)
            scatter = sum(np.outer(x - mean, x - mean) for x in own)
            if state[j] is None:
                state[j] = [len(own), mean, scatter]
            else:
                n, old, total = state[j]
                total = total + scatter + n * len(own) / (n + len(own)) * np.outer(old - mean, old - mean)
                state[j] = [n + len(own), (len(own) * mean + n * old) / (n + len(own)), total]
    return [(m, L / (n - dim - 1) if n > dim + 1 else L / n) for n, m, L in state]


def slow_losses(embeddings, labels, state, rng, bunca, margin=0.25):
    """One draw of the batch's triplet loss, or NCA loss, by loops over anchors and classes."""
    total = 0.0
    for x, y in zip(embeddings, labels, strict=True):
        positives = rng.multivariate_normal(*state[y], size=len(state) - 1)
        negatives = [rng.multivariate_normal(*state[j]) for j in range(len(state)) if j != y]
        near = [((x - p) ** 2).sum() for p in positives]
        far = [((x - q) ** 2).sum() for q in negatives]
        if bunca:
            total += sum(
                -math.log(math.exp(-d) / (math.exp(-d) + sum(math.exp(-e) for e in far))) for d in near
            )
        else:
            total += sum(max(0.0, margin + d - e) for d, e in zip(near, far, strict=True))
    return total


@pytest.mark.parametrize("bunca", [False, True])
@pytest.mark.parametrize("num_batches", [1, 2, 6])  # 3, 6 and 18 items per class on both sides of D + 1 = 5
def test_the_paper_recipe_is_the_corrected_algorithm_one(bunca, num_batches):
    rng = np.random.default_rng(0)
    dim, labels = 4, np.arange(9) % 3
    batches = [(0.7 * rng.normal(size=(9, dim)) + np.eye(4)[labels], labels) for _ in range(num_batches)]
    criterion = paper(BUNCA if bunca else BUT, 3, dim, dtype=torch.float64)
    for embeddings, _ in batches:
        criterion(torch.from_numpy(embeddings), torch.from_numpy(labels))
    state = slow_algorithm(batches, 3)
    for k, (mean, covariance) in enumerate(state):
        np.testing.assert_allclose(criterion.posterior.mean[k], mean, atol=1e-12)
        np.testing.assert_allclose(criterion.posterior.covariance[k], covariance, atol=1e-12)
    # Same distribution of the batch's loss: means of 500 draws within 5 standard errors.
    criterion.eval()
    x, y = torch.from_numpy(batches[-1][0]), torch.from_numpy(labels)
    fast = np.array([criterion(x, y).item() for _ in range(500)])
    slow = np.array([slow_losses(*batches[-1], state, rng, bunca) for _ in range(500)])
    assert abs(fast.mean() - slow.mean()) < 5 * math.sqrt((fast.var() + slow.var()) / 500)
    assert fast.std() == pytest.approx(slow.std(), rel=0.25)


def test_the_paper_recipe_moves_anchors_only():
    criterion = paper(BUT, 3, 4, dtype=torch.float64)
    x = torch.randn(9, 4, dtype=torch.float64, requires_grad=True)
    labels = torch.arange(9) % 3
    criterion(x.detach(), labels)
    criterion.eval()
    criterion.generator = torch.Generator().manual_seed(0)
    criterion(x, labels).backward()
    triplets = criterion.sampler(x.detach(), labels, torch.Generator().manual_seed(0))
    # d/dx [m + |x - p|^2 - |x - n|^2] = 2 (n - p), where the hinge is active.
    active = ((x[:, None] - triplets.positive) ** 2).sum(2) - ((x[:, None] - triplets.negative) ** 2).sum(
        2
    ) > -0.25
    expected = (2 * (triplets.negative - triplets.positive) * active[..., None]).sum(1)
    torch.testing.assert_close(x.grad, expected)


@CRITERIA
def test_the_paper_recipe_warns_once_about_what_it_corrects(criterion_class):
    with pytest.warns(UserWarning, match="not its inverse") as caught:
        criterion_class(3, 4, recipe="paper")
    assert len(caught) == 1
    assert ("denominator" in str(caught[0].message)) == (criterion_class is BUNCA)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        criterion_class(3, 4)


# Any triplet loss

TAKES_REFERENCES = [
    pml_losses.TripletMarginLoss(),
    pml_losses.ContrastiveLoss(),
    pml_losses.NTXentLoss(),
    pml_losses.MultiSimilarityLoss(),
    pml_losses.CircleLoss(),
    pml_losses.TupletMarginLoss(),
    pml_losses.SignalToNoiseRatioContrastiveLoss(),
    pml_losses.MarginLoss(),
    pml_losses.AngularLoss(),
]


@pytest.mark.parametrize("loss", TAKES_REFERENCES, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("draws", ["own", "shared"])
def test_losses_of_pml_train_on_drawn_triplets(loss, draws):
    criterion = BUT(4, 6, loss=copy.deepcopy(loss), draws=draws)
    embeddings = torch.randn(16, 6, requires_grad=True)
    value = criterion(embeddings, torch.arange(16) % 4)
    value.backward()
    assert value.isfinite()
    assert embeddings.grad.abs().sum() > 0


def test_pmls_triplet_loss_on_for_pml_equals_ours():
    criterion = BUT(4, 6, noise=1.0)
    triplets = criterion.sampler(torch.randn(16, 6), torch.arange(16) % 4)
    theirs = pml_losses.TripletMarginLoss(margin=0.3)(*triplets.for_pml())
    torch.testing.assert_close(theirs, triplet_loss(triplets, 0.3, reduction="active", squared=False))


@pytest.mark.parametrize("draws", ["own", "shared"])
def test_for_pml_lists_each_unmasked_triplet_with_right_labels(draws):
    criterion = BUT(5, 6, draws=draws)
    labels = torch.tensor([0, 1, 1, 3, 0, 3])  # classes 2 and 4 are never seen
    triplets = criterion.sampler(torch.randn(6, 6), labels)
    embeddings, own, (a, p, n), references, reference_labels = triplets.for_pml()
    assert len(a) == len(p) == len(n) == triplets.mask.sum() == 12
    assert torch.equal(embeddings, triplets.anchor)
    assert torch.equal(reference_labels[p], own[a])
    assert (reference_labels[n] != own[a]).all()
    assert torch.equal(references[p], triplets.positive[triplets.mask])
    assert torch.equal(references[n], triplets.negative[triplets.mask])


@pytest.mark.parametrize(
    "loss",
    [
        pml_losses.ProxyNCALoss(3, 6),
        pml_losses.ArcFaceLoss(3, 6),
        pml_losses.SoftTripleLoss(3, 6),
        nn.CrossEntropyLoss(),
    ],
    ids=lambda loss: type(loss).__name__,
)
def test_a_loss_that_cannot_take_references_is_refused(loss):
    with pytest.raises(BayesTripletError, match=f"reference embeddings; {type(loss).__name__} does not"):
        BUT(3, 6, loss=loss)


def test_with_one_class_seen_a_loss_of_pml_is_a_zero_with_a_gradient_too():
    criterion = BUT(3, 4, loss=pml_losses.TripletMarginLoss())
    embeddings = torch.randn(5, 4, requires_grad=True)
    loss = criterion(embeddings, torch.zeros(5, dtype=torch.int64))
    loss.backward()
    assert loss.item() == 0
    assert torch.equal(embeddings.grad, torch.zeros(5, 4))


def test_parameters_of_a_loss_of_pml_are_parameters_of_the_criterion():
    criterion = BUT(3, 4, loss=pml_losses.MarginLoss(learn_beta=True))
    assert [name for name, _ in criterion.named_parameters()] == ["loss.beta"]


# Bad input


@pytest.mark.parametrize("case", BAD_ITEMS)
@CRITERIA
def test_bad_items_are_refused_and_leave_the_criterion_unchanged(criterion_class, case):
    embeddings, labels, message = BAD_ITEMS[case]
    criterion = criterion_class(2, 3)
    criterion(*GOOD)
    before = copy.deepcopy(criterion)
    with pytest.raises(BayesTripletError, match=message):
        criterion(embeddings, labels)
    assert_equal_state(criterion, before)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"recipe": "papers"},
            "recipe must be one of 'default', 'paper'; got 'papers'; did you mean 'paper'",
        ),
        ({"marign": 0.1}, "BUT has no option 'marign'; did you mean 'margin'"),
        ({"temperature": 0.1}, "BUT has no option 'temperature'"),
        (
            {"num_negatives": 3},
            "BUT has no option 'num_negatives' any more: draw_classes says how many classes",
        ),
        ({"structure": "low"}, "structure must be one of 'auto', 'full', 'tied', 'lowrank', 'diagonal'"),
        ({"margin": 0}, "margin must be above 0"),
        ({"pairing": "none"}, "pairing must be one of"),
        ({"reduction": "none"}, "reduction must be one of"),
        ({"squared": "yes"}, "squared must be True or False; got 'yes'"),
        ({"noise": -1}, "noise must be at least 0"),
        ({"memory": 0}, "memory must be above 0"),
        ({"num_classes": 1}, "num_classes must be at least 2"),
        ({"loss": "triplet"}, "loss must be a module"),
        ({"generator": 3}, "generator must be a torch.Generator; got int"),
        ({"loss": pml_losses.TripletMarginLoss(), "margin": 0.1}, "BUT with loss= has no option 'margin'"),
    ],
)
def test_bad_options_of_but_are_refused(arguments, message):
    with pytest.raises(BayesTripletError, match=message):
        BUT(**{"num_classes": 3, "dim": 4} | arguments)


def test_bad_options_of_bunca_are_refused():
    with pytest.raises(BayesTripletError, match="temperature must be above 0"):
        BUNCA(3, 4, temperature=0)
    with pytest.raises(BayesTripletError, match="reduction must be one of 'mean', 'sum'"):
        BUNCA(3, 4, reduction="active")
    with pytest.raises(BayesTripletError, match="include_positive must be True or False"):
        BUNCA(3, 4, include_positive=1)


def test_the_arguments_of_pml_that_make_no_sense_here_are_refused():
    criterion = BUT(2, 3)
    with pytest.raises(BayesTripletError, match="indices_tuple must be None: BUT draws its own triplets"):
        criterion(*GOOD, (GOOD[1], GOOD[1], GOOD[1]))
    with pytest.raises(BayesTripletError, match="ref_emb must be None"):
        criterion(*GOOD, ref_emb=GOOD[0], ref_labels=GOOD[1])


def test_the_active_share_counts_hinges_above_zero():
    criterion = BUT(3, 4, generator=torch.Generator().manual_seed(0))
    assert criterion.active_share() is None
    criterion(torch.randn(9, 4), torch.arange(9) % 3)
    near, far = criterion.latest.distances(squared=False)
    active = ((near - far + 0.25) > 0)[criterion.latest.mask]
    assert criterion.active_share() == pytest.approx(active.float().mean().item())
    assert BUNCA(3, 4).active_share() is None
    assert not criterion.latest.anchor.requires_grad


@CRITERIA
def test_the_recipes_take_drawn_points_as_constants(criterion_class):
    """Items of the batch are among the default recipe's points; these alone pass a gradient on."""
    criterion = criterion_class(4, 6)
    assert criterion.sampler.draws == "joined"
