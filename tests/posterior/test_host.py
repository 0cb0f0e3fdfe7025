"""What a step computes on the host, and how it gets to the device and back."""

import numpy as np
import pytest
import torch

from bayestriplet import BUNCA, BUT, ClassPosterior
from bayestriplet.posterior.grouping import group_rows
from bayestriplet.posterior.host import pack, read, unpack
from bayestriplet.posterior.statistics import AT_ONCE, row_weights
from tests.posterior.test_posterior import assert_equal_state
from tests.posterior.test_statistics import items, slow_statistics


def test_arrays_are_the_same_after_they_were_packed_into_one_transfer():
    arrays = (
        np.arange(5), np.array([True, False, True]), np.ones((2, 3), dtype=np.float32), np.zeros(0),
        np.array([[2.5]]),
    )  # fmt: skip
    for array, tensor in zip(arrays, unpack(pack(arrays), arrays), strict=True):
        assert tensor.numpy().dtype == array.dtype
        np.testing.assert_array_equal(tensor.numpy(), array)


@pytest.mark.parametrize("sizes", [(3, 3), (5, 1, 2), (1,)])
@pytest.mark.parametrize("count", [0.0, 0.5, 20.0])
def test_row_weights_are_those_of_items_added_one_after_the_other(sizes, count):
    rng = np.random.default_rng(0)
    width = max(sizes)
    shift = rng.normal(size=(len(sizes), width, 4))
    before = np.full(len(sizes), count)
    both = row_weights(before, np.array(sizes), width, torch.zeros(0, dtype=torch.float64)) @ shift
    for k, size in enumerate(sizes):
        n, mean = count, np.zeros(4)
        for i in range(size):
            np.testing.assert_allclose(both[k, i], np.sqrt(n / (n + 1)) * (shift[k, i] - mean), atol=1e-12)
            mean = (n * mean + shift[k, i]) / (n + 1)
            n += 1
        np.testing.assert_allclose(both[k, -1], mean, atol=1e-12)
        assert not both[k, size:-1].any()


@pytest.mark.parametrize("memory", [None, 30.0])
def test_a_batch_with_more_items_of_a_class_than_are_added_at_once_gives_the_same_state(memory):
    values, labels = items((2 * AT_ONCE + 7, 3, AT_ONCE), 4, offset=100.0)
    posterior = ClassPosterior(3, 4, memory=memory, dtype=torch.float64)
    posterior.update(values, labels)
    count, mean, scatter = slow_statistics(values, labels, 3)
    keep = np.ones(3) if memory is None else np.minimum(1, memory / count)
    np.testing.assert_allclose(posterior.count, count * keep)
    np.testing.assert_allclose(posterior.item_mean, mean, rtol=1e-10)
    np.testing.assert_allclose(posterior.item_scatter, scatter * keep[:, None, None], rtol=1e-8, atol=1e-6)


def test_no_rows_are_grouped_into_no_classes():
    groups = group_rows(np.array([], dtype=np.int64), like=torch.zeros(0))
    assert (len(groups.chosen), groups.width) == (0, 0)


@pytest.mark.parametrize("criterion_class", [BUT, BUNCA])
@pytest.mark.parametrize("prior", ["empirical", "improper"])
@pytest.mark.parametrize(
    ("classes", "structure"), [(6, "full"), (150, "full"), (150, "lowrank"), (150, "diagonal"), (6, "tied")]
)
def test_a_device_whose_memory_is_not_the_hosts_computes_the_same(
    criterion_class, prior, classes, structure, monkeypatch
):
    """Numbers are then copies, sent and read in transfers; here they are so on a CPU."""
    losses = []
    for near in (True, False):
        if not near:
            for module in ("host", "sums", "separation"):
                monkeypatch.setattr(f"bayestriplet.posterior.{module}.in_memory", lambda _: False)
        generator = torch.Generator().manual_seed(0)
        criterion = criterion_class(classes, 8, structure=structure, prior=prior, generator=generator)
        data = torch.Generator().manual_seed(1)
        losses.append([])
        for step in range(30):
            x = torch.randn(18, 8, generator=data).requires_grad_()
            loss = criterion(x, torch.randint(0, classes, (18,), generator=data))
            loss.backward()
            losses[-1] += [loss.item(), x.grad.abs().sum().item()]
            if step == 15:
                criterion.posterior.item_mean.mul_(1.001)  # somebody changes the statistics
                criterion.posterior.count.mul_(0.5)
        losses.append(criterion.posterior)
    np.testing.assert_allclose(losses[0], losses[2], rtol=1e-4, atol=1e-5)
    for name, value in losses[1].state_dict().items():
        torch.testing.assert_close(losses[3].state_dict()[name], value, rtol=1e-3, atol=1e-4, msg=name)


def test_counts_on_the_host_are_those_of_the_buffers_after_loading_and_copying():
    posterior, other = ClassPosterior(3, 2), ClassPosterior(3, 2)
    posterior.update(torch.randn(5, 2), torch.tensor([0, 0, 1, 2, 2]))
    other.update(torch.randn(1, 2), torch.tensor([0]))
    other.load_state_dict(posterior.state_dict())
    assert_equal_state(other, posterior)
    for one in (posterior, other.double(), other):
        count, seen = one.numbers()
        assert count.tolist() == one.count.tolist() == [2, 1, 2]
        assert seen.tolist() == one.seen.tolist()
    one.count.fill_(7)
    assert one.numbers()[0].tolist() == [7, 7, 7]


def test_tensors_that_need_a_gradient_are_read_too():
    assert read(torch.ones(2, requires_grad=True))[0].tolist() == [1, 1]
