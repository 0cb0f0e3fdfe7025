"""What a training step costs: how often it waits for the device, and which ways of running it works in."""

import copy
import shutil

import pytest
import torch
from torch.overrides import TorchFunctionMode

from bayestriplet import BUNCA, BUT

CRITERIA = pytest.mark.parametrize("criterion_class", [BUT, BUNCA])
WAITS = {  # operations that have to know a value, or the number of results, on the host
    "item", "tolist", "cpu", "__bool__", "__int__", "__float__", "__index__", "nonzero", "argwhere", "unique",
    "unique_consecutive", "bincount", "masked_select", "equal", "allclose", "linalg_eigh", "cholesky",
    "linalg_cholesky", "linalg_svd", "linalg_inv", "histc", "is_nonzero",
}  # fmt: skip


class Waits(TorchFunctionMode):
    """Notes the operations that would wait for a device; ``host.read`` is one ``cpu``."""

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", "")
        if name in WAITS or (name in ("__getitem__", "__setitem__") and _is_mask(args[1])):
            self.found.append(name)
        return func(*args, **(kwargs or {}))


def _is_mask(index):
    parts = index if isinstance(index, tuple) else (index,)
    return any(isinstance(part, torch.Tensor) and part.dtype == torch.bool for part in parts)


def batch(classes, dim, size=12, seed=0):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, classes, (size,), generator=generator)
    return torch.randn(size, dim, generator=generator, requires_grad=True), labels


@CRITERIA
@pytest.mark.parametrize(
    ("classes", "structure"), [(6, "full"), (200, "full"), (200, "lowrank"), (200, "diagonal"), (200, "tied")]
)
def test_a_step_waits_for_the_device_at_most_twice(criterion_class, classes, structure, monkeypatch):
    # As on a device whose memory is not the host's: what is read from there is copied, by ``Tensor.cpu``.
    for module in ("host", "sums", "separation"):
        monkeypatch.setattr(f"bayestriplet.posterior.{module}.in_memory", lambda _: False)
    criterion = criterion_class(classes, 8, structure=structure)
    counts = []
    for seed in range(60):  # so many that the rows of roots are used up
        embeddings, labels = batch(classes, 8, seed=seed)
        with Waits() as waits:
            criterion(embeddings, labels).backward()
        counts.append(waits.found)
    _, *others = counts  # the first reads buffers that the host then knows
    assert max(map(len, others)) <= 2, others
    assert all("cpu" in found for found in others)  # labels: a step without any wait was not counted


@CRITERIA
@pytest.mark.parametrize(
    ("classes", "structure"), [(6, "full"), (200, "lowrank"), (200, "diagonal"), (6, "tied")]
)
def test_a_compiled_step_has_the_loss_and_gradient_of_an_eager_one(criterion_class, classes, structure):
    eager = criterion_class(classes, 8, structure=structure, generator=torch.Generator().manual_seed(0))
    other = criterion_class(classes, 8, structure=structure, generator=torch.Generator().manual_seed(0))
    compiled = torch.compile(other, backend="eager")
    for seed in range(3):
        (x, labels), (y, _) = batch(classes, 8, seed=seed), batch(classes, 8, seed=seed)
        expected, loss = eager(x, labels), compiled(y, labels)
        torch.testing.assert_close(loss, expected)
        expected.backward()
        loss.backward()
        torch.testing.assert_close(y.grad, x.grad)


@pytest.mark.skipif(shutil.which("g++") is None, reason="the compiler of torch.compile is not installed")
def test_a_network_compiled_to_machine_code_learns_what_an_eager_one_does(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    network = torch.nn.Linear(5, 8)
    eager, other = (BUNCA(6, 8, generator=torch.Generator().manual_seed(0)) for _ in range(2))
    compiled = torch.compile(lambda x, labels: other(network(x), labels), backend="inductor")
    for seed in range(2):
        x = torch.randn(24, 5, generator=torch.Generator().manual_seed(seed))
        labels = torch.arange(24) % 6
        slopes = []
        for loss in (eager(network(x), labels), compiled(x, labels)):
            network.zero_grad()
            loss.backward()
            slopes.append(network.weight.grad.clone())
        torch.testing.assert_close(*slopes, rtol=1e-4, atol=1e-6)


@CRITERIA
@pytest.mark.parametrize("structure", ["full", "tied", "lowrank", "diagonal"])
def test_bf16_autocast_leaves_the_statistics_in_single_and_the_loss_what_it_is(criterion_class, structure):
    plain = criterion_class(200, 8, structure=structure, generator=torch.Generator().manual_seed(0))
    cast = copy.deepcopy(plain)
    cast.generator = torch.Generator().manual_seed(0)
    for seed in range(3):
        x, labels = batch(200, 8, seed=seed)
        expected = plain(x, labels)
        with torch.autocast("cpu", torch.bfloat16):
            loss = cast(x, labels)
        torch.testing.assert_close(loss, expected)
    for name, value in plain.posterior.state_dict().items():
        assert torch.equal(value, cast.posterior.state_dict()[name]), name


@CRITERIA
@pytest.mark.parametrize("structure", ["full", "tied", "lowrank", "diagonal"])
def test_every_structure_trains_on_many_classes(criterion_class, structure):
    criterion = criterion_class(300, 16, structure=structure, draw_classes=20)
    for seed in range(6):
        embeddings, labels = batch(300, 16, size=24, seed=seed)
        loss = criterion(embeddings, labels)
        loss.backward()
        assert loss.isfinite()
        assert embeddings.grad.isfinite().all()
        assert embeddings.grad.abs().sum() > 0
