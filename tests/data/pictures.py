"""Image files for tests, small and made on the spot."""

import numpy as np
from PIL import Image


def noise(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def save_picture(path, *shape, seed=0, **options):
    """Write noise of shape (h, w) or (h, w, 3)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(noise(*(shape or (12, 12, 3)), seed=seed)).save(path, **options)
    return path


def make_folder(root, counts, shape=(12, 12, 3)):
    """Write ``counts[class]`` PNG files into a folder a class."""
    for number, (name, count) in enumerate(counts.items()):
        for i in range(count):
            save_picture(root / name / f"{i}.png", *shape, seed=1000 * number + i)
    return root
