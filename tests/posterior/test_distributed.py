"""Two real gloo processes against one process that sees everything."""

import copy
import datetime
import traceback

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

from bayestriplet import BUT, ClassPosterior
from bayestriplet.errors import InputError
from tests.posterior.test_posterior import assert_equal_state
from tests.posterior.test_statistics import items

RANKS = 2
STRUCTURES = "full", "tied", "lowrank", "diagonal"


def run_rank(rank, address, target, results):
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=address, rank=rank, world_size=RANKS, timeout=datetime.timedelta(seconds=60)
    )
    try:
        results[rank] = ("returned", target(rank))
    except Exception as error:
        results[rank] = ("raised", type(error).__name__, str(error), traceback.format_exc())
    finally:
        dist.destroy_process_group()


def on_two_ranks(target, tmp_path):
    """Run target(rank) on two gloo processes; return what each returned or raised."""
    context = mp.get_context("spawn")
    with context.Manager() as manager:
        results = manager.dict()
        address = f"file://{tmp_path / 'rendezvous'}"
        processes = [
            context.Process(target=run_rank, args=(r, address, target, results)) for r in range(RANKS)
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join(120)
            assert not process.is_alive(), "a rank hangs"
        return [results[rank] for rank in range(RANKS)]


def returned(results):
    for result in results:
        assert result[0] == "returned", result[-1]
    return [result[1] for result in results]


def stream(steps=3):
    return [items((12, 8, 12), 5, seed=step) for step in range(steps)]


def shares(rank, sizes):
    """The rows of a batch of 32 that a rank holds."""
    return slice(0, sizes[0]) if rank == 0 else slice(sizes[0], 32)


def of_every_structure():
    return {s: ClassPosterior(3, 5, memory=20.0, dtype=torch.float64, structure=s) for s in STRUCTURES}


def states(posteriors):
    return {
        f"{structure} {name}": value
        for structure, posterior in posteriors.items()
        for name, value in posterior.state_dict().items()
    }


def update_with_half(rank, sizes=(16, 16)):
    posteriors, mine = of_every_structure(), shares(rank, sizes)
    for values, labels in stream():
        for posterior in posteriors.values():
            posterior.update(values[mine], labels[mine])
    return states(posteriors)


def update_unequal(rank):
    return update_with_half(rank, (27, 5))


def update_empty(rank):
    return update_with_half(rank, (32, 0))


def update_unmerged(rank):
    posterior, mine = ClassPosterior(3, 5, memory=20.0, dtype=torch.float64), shares(rank, (16, 16))
    for values, labels in stream():
        posterior.absorb(values[mine], labels[mine], [1])
    return posterior.state_dict()


def whole_stream():
    posteriors = of_every_structure()
    for values, labels in stream():
        for posterior in posteriors.values():
            posterior.update(values, labels)
    return states(posteriors)


@pytest.mark.parametrize("target", [update_with_half, update_unequal, update_empty])
def test_two_ranks_hold_the_posteriors_of_one_process_with_all_items(target, tmp_path):
    whole = whole_stream()
    for state in returned(on_two_ranks(target, tmp_path)):
        for name, value in whole.items():
            torch.testing.assert_close(state[name], value, rtol=1e-12, atol=1e-12)


def test_without_the_merge_the_ranks_differ(tmp_path):
    whole, (first, second) = whole_stream(), returned(on_two_ranks(update_unmerged, tmp_path))
    assert not torch.allclose(first["item_mean"], second["item_mean"])
    assert not torch.allclose(first["item_mean"], whole["full item_mean"])


def bad_on_rank_one(rank):
    posterior = ClassPosterior(3, 5)
    posterior.update(torch.ones(2, 5), torch.tensor([0, 1]))
    before = copy.deepcopy(posterior)
    labels = torch.tensor([0, 7 if rank == 1 else 1])
    try:
        posterior.update(torch.zeros(2, 5), labels)
    except InputError as error:
        assert_equal_state(posterior, before)
        posterior.update(torch.zeros(2, 5), torch.tensor([0, 1]))  # and the run can go on
        return str(error)
    raise AssertionError("nothing was raised")


def test_bad_input_on_one_rank_raises_on_all_and_leaves_them_able_to_go_on(tmp_path):
    first, second = returned(on_two_ranks(bad_on_rank_one, tmp_path))
    assert "bad input on rank 1" in first
    assert "labels must lie in 0 .. 2; got 7" in second


def nothing_anywhere(rank):
    BUT(3, 5)(torch.zeros(0, 5), torch.zeros(0, dtype=torch.int64))


def test_an_empty_batch_on_every_rank_is_an_error_on_every_rank(tmp_path):
    for result in on_two_ranks(nothing_anywhere, tmp_path):
        assert result[:2] == ("raised", "InputError")
        assert "empty batch" in result[2]


class NetworkWithCriterion(nn.Module):
    """A module whose buffers DDP broadcasts before every forward pass."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.network, self.criterion = nn.Linear(5, 4), BUT(3, 4)

    def forward(self, values, labels):
        return self.criterion(self.network(values), labels)


def train_under_ddp(rank):
    model = NetworkWithCriterion()
    wrapped = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step, (values, labels) in enumerate(stream(6)):
        mine = shares(rank, (32, 0) if step == 4 else (20, 12))
        loss = wrapped(values[mine].float(), labels[mine])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return {name: value.detach() for name, value in model.state_dict().items()}


def test_ddp_broadcasts_and_an_empty_rank_do_no_harm(tmp_path):
    first, second = returned(on_two_ranks(train_under_ddp, tmp_path))
    for name, value in first.items():
        assert torch.equal(value, second[name]), name
    assert first["criterion.sampler.posterior.seen"].tolist() == [72, 48, 72]
