"""A complete training loop in a minute, on the scans that scikit-learn brings along."""

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor, nn

from bayestriplet.errors import MissingDependencyError
from bayestriplet.evaluation.metrics import recall_at_k
from bayestriplet.triplets.criteria import BUT

ITEMS_A_CLASS = 5


def train_on_digits(steps: int, seed: int) -> None:
    """Train BUT on half of the digits and print Recall@k of the other half, before and after."""
    images, labels = load_digits()
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(images), generator=generator)
    train, test = order[: len(order) // 2], order[len(order) // 2 :]
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 32))
    rows = {"raw pixels": images[test], "untrained network": network(images[test])}
    rows = {name: recall_at_k(vectors, labels[test]) for name, vectors in rows.items()}
    criterion = BUT(num_classes=10, dim=32, generator=generator)
    optimizer = torch.optim.Adam(network.parameters(), 1e-3)
    for _ in track(range(steps), "Training"):
        batch = train[draw_batch(labels[train], generator)]
        loss = criterion(network(images[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    rows["trained with BUT"] = recall_at_k(nn.functional.normalize(network(images[test])), labels[test])
    show(rows, len(test))


def load_digits() -> tuple[Tensor, Tensor]:
    """Return the 1,797 scans as (n, 64) in 0 .. 1, and their labels (n,)."""
    try:
        from sklearn.datasets import load_digits as load
    except ImportError as error:
        raise MissingDependencyError(
            "the demo needs scikit-learn: pip install 'bayestriplet[train]'"
        ) from error
    digits = load()
    return torch.from_numpy(digits.data).float() / 16, torch.from_numpy(digits.target).long()


def draw_batch(labels: Tensor, generator: torch.Generator) -> Tensor:
    """Return rows of a batch with the same number of items of each class."""
    rows = [(labels == k).nonzero().squeeze(1) for k in range(10)]
    return torch.cat([row[torch.randint(len(row), (ITEMS_A_CLASS,), generator=generator)] for row in rows])


def show(rows: dict[str, dict[int, float]], number: int) -> None:
    """Print the recalls, in percent, as a table."""
    table = Table(title=f"Recall@k on {number} test digits, in percent", title_justify="left")
    table.add_column("embedding")
    for k in next(iter(rows.values())):
        table.add_column(f"R@{k}", justify="right")
    for name, recalls in rows.items():
        table.add_row(name, *(f"{100 * value:.1f}" for value in recalls.values()))
    Console().print(table)
