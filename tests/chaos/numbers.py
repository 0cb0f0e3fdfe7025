"""Very many updates of class statistics: how far they drift from sums without rounding."""

import torch

from bayestriplet.posterior.posterior import ClassPosterior

DIM, CLASSES, ITEMS = 8, 2, 8


def relative(found, expected):
    """The largest difference, relative to the largest number."""
    return float((found.double() - expected).abs().max() / expected.abs().max())


def drift(updates, seed, memory=None, dtype=torch.float32):
    """Update with so many batches, far from the origin; return the relative errors of mean and scatter.

    The reference without forgetting is computed from sums of all items in float64, relative to the centre;
    with forgetting it is a float64 posterior of the same stream.
    """
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(ITEMS) % CLASSES
    posterior = ClassPosterior(CLASSES, DIM, dtype=dtype, memory=memory)
    exact = ClassPosterior(CLASSES, DIM, dtype=torch.float64, memory=memory) if memory else None
    count = 0
    first, second = torch.zeros(CLASSES, DIM).double(), torch.zeros(CLASSES, DIM, DIM).double()
    while count < updates:
        block = torch.randn(1000, ITEMS, DIM, generator=generator) + 3.0
        for batch in block:
            posterior.update(batch, labels)
            if exact is not None:
                exact.update(batch.double(), labels)
        items = block.double() - 3.0
        for k in range(CLASSES):
            own = items[:, labels == k].reshape(-1, DIM)
            first[k] += own.sum(0)
            second[k] += own.T @ own
        count += len(block)
    number = count * ITEMS / CLASSES
    mean = first / number
    scatter = second - number * mean.unsqueeze(2) * mean.unsqueeze(1)
    if exact is not None:
        return {"mean": relative(posterior.item_mean, exact.item_mean),
                "scatter": relative(posterior.item_scatter, exact.item_scatter)}  # fmt: skip
    found = posterior.item_mean, posterior.item_scatter
    return {"mean": relative(found[0], mean + 3.0), "scatter": relative(found[1], scatter)}


def measure(folder, seed, updates=1_000_000):
    """All of it, as figures."""
    del folder
    return {
        "updates": updates,
        "float32": drift(updates, seed),
        "float32_with_memory": {"updates": updates // 20, **drift(updates // 20, seed, memory=50.0)},
        "float64": {"updates": updates // 20, **drift(updates // 20, seed, dtype=torch.float64)},
    }
