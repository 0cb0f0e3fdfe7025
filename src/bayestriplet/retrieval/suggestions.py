"""Which unlabelled images would say most, had they a label: by the predictive's mutual information."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayestriplet.data.dataset import LabelledImages
from bayestriplet.data.progress import Progress
from bayestriplet.retrieval.encoder import OnnxEncoder
from bayestriplet.retrieval.live import look_at, novelty_words
from bayestriplet.retrieval.opening import open_set, read_parts
from bayestriplet.runs.drawn_means import draw_log_joint
from bayestriplet.runs.predictive import Predictive

DRAWS = 32  # of the class means
BLOCK = 64  # vectors at a time


@dataclass(frozen=True)
class Suggestion:
    """An image whose label would say much."""

    row: int
    id: str
    information: float
    """Bits."""
    likeliest: str
    probability: float
    novelty: float
    """NaN without held-out items."""


@dataclass(frozen=True, eq=False)
class Suggestions:
    """The images whose labels would say most, the best first."""

    images: LabelledImages
    rows: tuple[Suggestion, ...]
    evidence: str = ""
    """What their novelty rests on, where that is little."""


def suggest(
    encoder: OnnxEncoder, predictive: Predictive, data: str, number: int, *, skip_bad: bool = False,
    follow_links: bool = False, progress: Progress | None = None,
) -> Suggestions:  # fmt: skip
    """Return the items of a set whose labels would say most about the classes."""
    images = open_set(encoder, data, skip_bad=skip_bad, follow_links=follow_links, progress=progress)
    found: list[Suggestion] = []
    for part, given in read_parts(images, "Looking for images to label", progress):
        vectors = encoder.encode(given)
        shares, novelty = predictive.predict(vectors, look_at(predictive, given))
        bits = mutual_information(predictive, vectors)
        for row, own, new, gain in zip(range(part.start, part.stop), shares, novelty, bits, strict=True):
            best = int(own.argmax())
            found.append(
                Suggestion(
                    row, images.ids[row], float(gain), predictive.classes[best], float(own[best]), float(new)
                )
            )
        found = sorted(found, key=lambda one: -one.information)[:number]
    return Suggestions(images, tuple(found), novelty_words(predictive, images.noun)[1])


def mutual_information(
    predictive: Predictive, vectors: NDArray[np.floating], seed: int = 0
) -> NDArray[np.float64]:
    """Return the bits (N,) that the label of each vector (N, D) would tell about the class means.

    H(E[p]) - E[H(p)] over draws of the means from their posterior (docs/method.md, eq. 21).
    """
    rng = np.random.default_rng(seed)
    out = np.empty(len(vectors))
    for start in range(0, len(vectors), BLOCK):
        part = slice(start, start + BLOCK)
        joint = draw_log_joint(predictive, vectors[part], DRAWS, rng)  # (S, n, K)
        if predictive.lessons is not None:
            joint = np.stack([predictive.lessons.weigh(one, predictive.log_prior) for one in joint])
        chance = np.exp(joint - np.logaddexp.reduce(joint, 2)[:, :, None])
        out[part] = _entropy(chance.mean(0)) - _entropy(chance).mean(0)
    return np.maximum(out, 0.0)


def _entropy(chance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the entropies in bits over the last axis."""
    return -(chance * np.log2(np.maximum(chance, 1e-300))).sum(-1)
