"""Two and three real gloo processes against one process that sees everything."""

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

STRUCTURES = "full", "tied", "lowrank", "diagonal"
SIZES = {  # items of each rank, 32 in all
    2: {"equal": (16, 16), "unequal": (27, 5), "empty": (32, 0)},
    3: {"equal": (11, 11, 10), "unequal": (20, 5, 7), "empty": (20, 0, 12)},
}
OPTIONS = {"exact": {"memory": 20.0, "dtype": torch.float64}, "with remainders": {"memory": None}}


def stream(steps=3):
    return [items((12, 8, 12), 5, seed=step) for step in range(steps)]


def share(rank, sizes):
    """The rows of a batch of 32 that a rank holds."""
    return slice(sum(sizes[:rank]), sum(sizes[: rank + 1]))


def states_of(mine):
    """The states of all structures, with and without a memory, after the rows ``mine`` of the stream."""
    posteriors = {
        (structure, name): ClassPosterior(3, 5, structure=structure, **options)
        for structure in STRUCTURES
        for name, options in OPTIONS.items()
    }
    for values, labels in stream():
        for posterior in posteriors.values():
            posterior.update(values[mine].to(posterior.item_mean.dtype), labels[mine])
    return {
        (*key, name): value
        for key, posterior in posteriors.items()
        for name, value in posterior.state_dict().items()
    }


def merged(rank, ranks, kind):
    return states_of(share(rank, SIZES[ranks][kind]))


def unmerged(rank, ranks):
    posterior, mine = ClassPosterior(3, 5, dtype=torch.float64), share(rank, SIZES[ranks]["equal"])
    for values, labels in stream():
        posterior.absorb(values[mine], labels[mine], [1])
    return posterior.item_mean


def bad_on_the_last_rank(rank, ranks):
    said = {}
    for structure in STRUCTURES:
        posterior = ClassPosterior(3, 5, structure=structure)
        posterior.update(torch.ones(2, 5), torch.tensor([0, 1]))
        before = copy.deepcopy(posterior)
        labels = torch.tensor([0, 7 if rank == ranks - 1 else 1])
        with pytest.raises(InputError, match=r"rank|labels") as caught:
            posterior.update(torch.zeros(2, 5), labels)
        assert_equal_state(posterior, before)
        posterior.update(torch.zeros(2, 5), torch.tensor([0, 1]))  # and the run can go on
        said[structure] = str(caught.value)
    return said


def nothing_anywhere(rank, ranks):
    BUT(3, 5)(torch.zeros(0, 5), torch.zeros(0, dtype=torch.int64))


class NetworkWithCriterion(nn.Module):
    """A module whose buffers DDP broadcasts before every forward pass."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.network, self.criterion = nn.Linear(5, 4), BUT(3, 4)

    def forward(self, values, labels):
        return self.criterion(self.network(values), labels)


def trained_under_ddp(rank, ranks):
    model = NetworkWithCriterion()
    wrapped = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step, (values, labels) in enumerate(stream(6)):
        mine = share(rank, SIZES[ranks]["empty" if step == 4 else "unequal"])
        loss = wrapped(values[mine].float(), labels[mine])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return {name: value.detach() for name, value in model.state_dict().items()}


TARGETS = {
    **{kind: (merged, kind) for kind in SIZES[2]},
    **{one.__name__: (one,) for one in (unmerged, bad_on_the_last_rank, nothing_anywhere, trained_under_ddp)},
}


def run_rank(rank, ranks, folder):
    torch.set_num_threads(1)
    limit = datetime.timedelta(seconds=60)
    address = f"file://{folder / 'rendezvous'}"
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=ranks, timeout=limit)
    results = {}
    for name, (target, *rest) in TARGETS.items():
        try:
            results[name] = ("returned", target(rank, ranks, *rest))
        except Exception as error:
            results[name] = ("raised", type(error).__name__, str(error), traceback.format_exc())
    dist.destroy_process_group()
    torch.save(results, folder / f"{rank}.pt")


@pytest.fixture(scope="module", params=[2, 3])
def on_ranks(request, tmp_path_factory):
    """What every target returned or raised on every rank of so many processes."""
    folder, ranks, context = tmp_path_factory.mktemp("ranks"), request.param, mp.get_context("spawn")
    processes = [context.Process(target=run_rank, args=(r, ranks, folder)) for r in range(ranks)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(240)
        assert not process.is_alive(), "a rank hangs"
    found = [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(ranks)]
    return {name: [one[name] for one in found] for name in TARGETS}


def returned(results):
    for result in results:
        assert result[0] == "returned", result[-1]
    return [result[1] for result in results]


@pytest.fixture(scope="module")
def whole():
    return states_of(slice(None))


@pytest.mark.parametrize("kind", SIZES[2])
def test_all_ranks_hold_the_posteriors_of_one_process_with_all_items(kind, on_ranks, whole):
    for state in returned(on_ranks[kind]):
        assert state.keys() == whole.keys()
        for name, value in whole.items():
            assert torch.equal(state[name], value), name


def test_without_the_merge_the_ranks_differ(on_ranks, whole):
    first, second, *_ = returned(on_ranks["unmerged"])
    assert not torch.allclose(first, second)
    assert not torch.allclose(first, whole["full", "exact", "item_mean"])


def test_bad_input_on_one_rank_raises_on_all_and_leaves_them_able_to_go_on(on_ranks):
    *others, last = returned(on_ranks["bad_on_the_last_rank"])
    for structure in STRUCTURES:
        assert "labels must lie in 0 .. 2; got 7" in last[structure]
        for other in others:
            assert f"bad input on rank {len(others)}" in other[structure]


def test_an_empty_batch_on_every_rank_is_an_error_on_every_rank(on_ranks):
    for result in on_ranks["nothing_anywhere"]:
        assert result[:2] == ("raised", "InputError")
        assert "empty batch" in result[2]


def test_ddp_broadcasts_and_an_empty_rank_do_no_harm(on_ranks):
    first, *others = returned(on_ranks["trained_under_ddp"])
    for other in others:
        for name, value in first.items():
            assert torch.equal(value, other[name]), name
    assert first["criterion.sampler.posterior.seen"].tolist() == [72, 48, 72]
