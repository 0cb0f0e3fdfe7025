"""Few-shot accuracy: episodes of new classes, of which a few examples each are known.

As in Prototypical Networks (Snell et al. 2017): an episode draws some classes, a class is the mean of the
embeddings of its examples, and a query belongs to the class with the nearest mean.
"""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayestriplet.checks import check_whole
from bayestriplet.data.progress import Progress, report
from bayestriplet.errors import InputError
from bayestriplet.evaluation.arrays import check_set
from bayestriplet.evaluation.bootstrap import Score

if TYPE_CHECKING:
    from bayestriplet.evaluation.evaluate import ItemSet, Vectors

TASKS = ((5, 1), (5, 5), (20, 1), (20, 5))  # classes of an episode, examples of each
EPISODES = 1000
QUERIES = 15  # per class, at most
SEED = 0
BLOCK_CELLS = 8_000_000  # numbers of the queries that are held at a time


@dataclass(frozen=True)
class Episodes:
    """What was drawn: rows of examples (E, W, S) and of queries (E, W, Q), -1 where a class has fewer."""

    examples: NDArray[np.int64]
    queries: NDArray[np.int64]
    classes: int
    """How many classes there were to draw from."""
    left_out: int
    """Classes with too few items."""


@dataclass(frozen=True)
class FewShotTask:
    """Accuracy of every embedding in the same episodes of one task."""

    ways: int
    shots: int
    classes: int
    left_out: int
    rows: dict[str, Score] = field(default_factory=dict)


@dataclass(frozen=True)
class FewShot:
    """Every task that there are enough classes for, and why others are left out."""

    title: str
    tasks: tuple[FewShotTask, ...]
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return all figures as plain values."""
        tasks = [asdict(task) for task in self.tasks]
        return {"episodes": EPISODES, "queries": QUERIES, "seed": SEED, "tasks": tasks}


def few_shot_accuracy(
    embeddings: ArrayLike,
    labels: ArrayLike,
    ways: int = 5,
    shots: int = 1,
    *,
    queries: int = QUERIES,
    episodes: int = EPISODES,
    seed: int = SEED,
) -> Score:
    """Return the mean accuracy over episodes, with its 95% interval, by the nearest mean of the examples.

    An episode draws ``ways`` classes, and of each ``shots`` examples and up to ``queries`` other items.
    Classes with fewer than shots + 1 items are left out. Embeddings (n, D) are compared as they are given.

    >>> vectors = [[0.0], [0.1], [0.2], [1.0], [1.1], [1.2]]
    >>> few_shot_accuracy(vectors, [0, 0, 0, 1, 1, 1], ways=2, shots=1, episodes=10).value
    1.0
    """
    vectors, numbers = check_set(embeddings, labels, "embeddings", "labels")
    drawn = draw_episodes(
        numbers,
        check_whole("ways", ways, 2),
        check_whole("shots", shots, 1),
        check_whole("queries", queries, 1),
        check_whole("episodes", episodes, 1),
        check_whole("seed", seed, 0),
    )
    return _mean(accuracies(vectors, drawn))


def draw_episodes(
    labels: NDArray[np.int64], ways: int, shots: int, queries: int, episodes: int, seed: int
) -> Episodes:
    """Draw episodes from labels (n,): classes with equal chances, and of each distinct items."""
    _, class_of, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    able = np.flatnonzero(sizes > shots)
    if len(able) < ways:
        raise InputError(
            f"{ways}-way {shots}-shot episodes need {ways} classes with at least {shots + 1} items; "
            f"there are {len(able)}"
        )
    rng = np.random.default_rng([seed, ways, shots])
    order, start = np.argsort(class_of, kind="stable"), np.cumsum(sizes) - sizes
    most = shots + min(queries, int(sizes[able].max()) - shots)
    rows = np.full((episodes * ways, most), -1)
    chosen = np.concatenate([rng.choice(able, ways, replace=False) for _ in range(episodes)])
    for row, k in zip(rows, chosen.tolist(), strict=True):
        number = min(most, int(sizes[k]))
        row[:number] = order[start[k] + rng.choice(sizes[k], number, replace=False)]
    table = rows.reshape(episodes, ways, most)
    return Episodes(table[:, :, :shots], table[:, :, shots:], len(able), len(sizes) - len(able))


def accuracies(vectors: NDArray[Any], drawn: Episodes) -> NDArray[np.float64]:
    """Return the share (E,) of an episode's queries whose nearest class mean is that of their own class."""
    vectors = (vectors - vectors.mean(0, dtype=np.float64)).astype(np.float32)
    episodes, ways, number = drawn.queries.shape
    found = np.empty(episodes)
    block = max(1, BLOCK_CELLS // (ways * (number + drawn.examples.shape[2]) * vectors.shape[1]))
    for start in range(0, episodes, block):
        part = slice(start, start + block)
        means = vectors[drawn.examples[part]].mean(2)  # (b, W, D)
        asked = vectors[drawn.queries[part].reshape(-1, ways * number)]  # (b, W Q, D)
        near = asked @ means.transpose(0, 2, 1) - (means**2).sum(2)[:, None] / 2  # (b, W Q, W)
        right = near.argmax(2).reshape(-1, ways, number) == np.arange(ways)[:, None]
        there = drawn.queries[part] >= 0
        found[part] = (right & there).sum((1, 2)) / there.sum((1, 2))
    return found


def able_tasks(labels: NDArray[np.int64], tasks: Iterable[tuple[int, int]] = TASKS) -> list[tuple[int, int]]:
    """Return the tasks that labels (n,) have enough classes for."""
    sizes = np.unique(labels, return_counts=True)[1]
    return [(ways, shots) for ways, shots in tasks if (sizes > shots).sum() >= ways]


def check_few_shot(queries: "ItemSet") -> None:
    """Raise if there are too few classes for any task."""
    if not able_tasks(queries.labels):
        sizes = np.unique(queries.labels, return_counts=True)[1]
        ways, shots = TASKS[0]
        raise InputError(
            f"--few-shot needs {ways} classes with at least {shots + 1} items; the {queries.words} of "
            f"{queries.images.name} have {(sizes > shots).sum()}: ask about other data with --data"
        )


def measure_few_shot(
    embedders: "dict[str, Vectors]", queries: "ItemSet", progress: Progress | None = None
) -> FewShot:
    """Return the accuracy of every embedder in every task that there are enough classes for."""
    able = able_tasks(queries.labels)
    found: list[FewShotTask] = []
    done, steps = 0, len(able) * len(embedders)
    for ways, shots in able:
        drawn = draw_episodes(queries.labels, ways, shots, QUERIES, EPISODES, SEED)
        task = FewShotTask(ways, shots, drawn.classes, drawn.left_out)
        for name, vectors in embedders.items():
            report(progress, f"Few-shot episodes, {name}", done, steps)
            task.rows[name] = _mean(accuracies(vectors(queries), drawn))
            done += 1
        found.append(task)
    notes = [
        f"Not measured {ways}-way {shots}-shot: fewer than {ways} classes have at least {shots + 1} items."
        for ways, shots in TASKS
        if (ways, shots) not in able
    ]
    title = f"Few-shot accuracy on {len(queries.labels):,} {queries.words} of {queries.images.name}"
    return FewShot(title, tuple(found), tuple(notes))


def _mean(values: NDArray[np.float64]) -> Score:
    """Return a mean over episodes (E,) with its 95% interval, by the normal distribution."""
    half = 1.96 * float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    value = float(values.mean())
    return Score(value, max(0.0, value - half), min(1.0, value + half))
