"""Rows of vectors for stores, made on the spot."""

import numpy as np

from bayestriplet.retrieval.items import Item, Rows

DIM = 16


def make_rows(numbers, label="a", source="set", seed=0):
    """Rows with vectors that depend on the number and the seed."""
    vectors = np.stack([np.random.default_rng([seed, n]).normal(size=DIM) for n in numbers])
    items = tuple(
        Item(f"{source}/{n}", label, f"/there/{n}.png", f"g{n % 3}", source, f"{n:032x}") for n in numbers
    )
    return Rows(items, vectors.astype(np.float32), tuple(b"picture %d" % n for n in numbers))
