"""What a run expects of new classes: fitted on classes held out of its training, where there are such."""

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from bayestriplet.evaluation.calibration import auroc
from bayestriplet.evaluation.embeddings import Embedded
from bayestriplet.runs.background import TAIL, Background
from bayestriplet.runs.lessons import contrast_of, new_scale
from bayestriplet.runs.predictive import Predictive
from bayestriplet.runs.statistics import Prior, Statistics
from bayestriplet.runs.students import Floats
from bayestriplet.runs.teaching import READING, Evidence, NewClasses, Teaching, spread_rows

SHOTS = (1, 5, 20)  # examples that new classes are fitted with
WAYS = 20  # classes of an episode, at most
EPISODES = 2  # per number of examples
FEWEST = 4  # held-out classes to fit anything on
QUERIES = 300  # items of an episode
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the background that are tried on held-out classes
SHARE = 0.3  # without them: how far the background moves held-out items, as a part of how far the score does
WIDENING = (0.5, 1.0, 2.0, 4.0, 8.0)
WEIGHT = (3.0, 10.0, 30.0, 100.0)
OFFSET = (0.0, 0.25, 0.5, 0.75, 1.0)
SHARPENING = (0.5, 0.7, 1.0)
CONTRAST, BIAS = (1.0, 1.4, 1.8, 2.5), (-2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0)


@dataclass(frozen=True, eq=False)
class Episode:
    """Examples of some held-out classes, queries of them, and items of trained classes."""

    statistics: Statistics  # of the examples
    queries: Embedded  # labels are positions in the statistics
    old: Floats  # log evidence of the trained classes for each query


def fit_teaching(predictive: Predictive, train: Embedded, known: Embedded, new: Embedded) -> Teaching:
    """Return what a run expects of new classes.

    ``known`` are validation items of classes with training items, ``new`` those of classes without.
    """
    chosen = READING | predictive.reading
    statistics = pooled_statistics(train)
    prior = statistics.pooled_prior(chosen["weight"], chosen["floor"])
    found = NewClasses()
    # Training items flatter the trained classes, but stand in for validation items where there are none.
    base = known if len(known.labels) else train
    if (episodes := draw_episodes(predictive, new)) and len(base.labels):
        some = base.take(spread_rows(len(base.labels), QUERIES))
        found = fit_new_classes(predictive, prior, chosen["memory"], some, episodes)
    background = Background.of(statistics, chosen["floor"], 0.0)
    of_known, of_new = (_Scores.of(predictive, background, items) for items in (known, new))
    background = replace(background, share=usual_share(of_known.plain, of_known.surprise))
    background = background.with_tail(of_known.surprise)
    background, score = _choose_share(background, of_known, of_new, len(np.unique(new.labels)))
    held_out = background.score(of_known.plain, of_known.surprise)
    kept = spread_rows(len(known.labels))
    classes = len(np.unique(new.labels)) if score is not None else 0
    return Teaching(
        predictive.encoder, prior, chosen["memory"], found, background, known.vectors[kept],
        np.sort(held_out), Evidence(len(held_out), score, classes), -of_known.plain[kept],
    )  # fmt: skip


def pooled_statistics(train: Embedded) -> Statistics:
    """Return counts and means of the classes with items, and their pooled scatter as that of each."""
    names, rows = np.unique(train.labels, return_inverse=True)
    x = train.vectors.astype(np.float64)
    count = np.bincount(rows).astype(np.float64)
    mean = np.zeros((len(names), x.shape[1]))
    np.add.at(mean, rows, x)
    mean /= count[:, None]
    residual = x - mean[rows]
    average = residual.T @ residual / len(names)
    return Statistics(count, mean, np.broadcast_to(average, (len(names), *average.shape)))


def draw_episodes(predictive: Predictive, new: Embedded) -> list[Episode]:
    """Return episodes of held-out classes; none where there are too few of them."""
    names, sizes = np.unique(new.labels, return_counts=True)
    rng = np.random.default_rng(0)
    episodes = []
    for shots in SHOTS:
        able = names[sizes > shots + 1]
        if len(able) < FEWEST:
            continue
        for _ in range(EPISODES):
            chosen = rng.permutation(able)[: max(FEWEST // 2, min(WAYS, len(able) // 2))]
            episodes.append(_draw(predictive, new, chosen, shots, rng))
    return episodes


def _draw(
    predictive: Predictive, new: Embedded, names: NDArray[np.int64], shots: int, rng: np.random.Generator
) -> Episode:
    examples, queries, labels = [], [], []
    for place, name in enumerate(names):
        rows = rng.permutation(np.flatnonzero(new.labels == name))
        examples.append(rows[:shots])
        queries.append(rows[shots:][: max(1, QUERIES // len(names))])
        labels += [place] * len(queries[-1])
    rows = np.concatenate(examples)
    statistics = Statistics.of(new.vectors[rows], np.repeat(np.arange(len(names)), shots), len(names))
    asked = Embedded(new.vectors[np.concatenate(queries)], np.array(labels, np.int64))
    return Episode(statistics, asked, -predictive.novelty_scores(asked.vectors))


def fit_new_classes(
    predictive: Predictive, prior: Prior, memory: float, base: Embedded, episodes: list[Episode]
) -> NewClasses:
    """Return the reading of new classes with the least log loss; old and new items weigh alike."""
    trained = np.isfinite(predictive.log_prior)
    entropy = float(predictive.students.entropy[trained].mean())
    evidence = -predictive.novelty_scores(base.vectors)
    prior_odds = [np.log(len(one.statistics.count) / trained.sum()) for one in episodes]
    best = np.inf, NewClasses()
    for widening, weight in product(WIDENING, WEIGHT):
        read = [one.statistics.students(prior.wider(widening, weight), memory) for one in episodes]
        both = [np.concatenate([base.vectors, one.queries.vectors]).astype(np.float64) for one in episodes]
        densities = [s.log_density(x, np.arange(len(s.freedom))) for s, x in zip(read, both, strict=True)]
        for offset, sharpening in product(OFFSET, SHARPENING):
            new, odds = NewClasses(widening, weight, offset, sharpening), []
            for one, students, density in zip(episodes, read, densities, strict=True):
                heat, level = new_scale(new, one.statistics.count, students.entropy, entropy)
                scores = (density / heat + level) / predictive.temperature - np.log(len(heat))
                odds.append(Odds.of(scores, evidence, one))
            for contrast, bias in product(CONTRAST, BIAS):
                new = replace(new, contrast=contrast, bias=bias)
                losses = (
                    found.loss(contrast_of(new, one.statistics.count[:1])[0], bias + level)
                    for found, one, level in zip(odds, episodes, prior_odds, strict=True)
                )
                best = min(best, (sum(losses), new), key=lambda pair: pair[0])
    return best[1]


@dataclass(frozen=True, eq=False)
class Odds:
    """The log odds of new classes against old ones by their densities, and what a new item's label adds."""

    old: Floats  # of old items
    new: Floats  # of new ones
    rest: float  # mean log loss of new items among new classes alone

    @classmethod
    def of(cls, scores: Floats, evidence: Floats, episode: Episode) -> "Odds":
        """Return those of an episode; ``scores`` of new classes are of old items, then of its queries."""
        total, labels = np.logaddexp.reduce(scores, 1), episode.queries.labels
        number = len(evidence)
        own = scores[number:][np.arange(len(labels)), labels]
        return cls(
            total[:number] - evidence, total[number:] - episode.old, float((total[number:] - own).mean())
        )

    def loss(self, contrast: float, level: float) -> float:
        """Return the mean log loss of old and of new items, up to what old items lose among old classes."""
        of_old, of_new = (np.logaddexp(0.0, sign * (contrast * odds + level)).mean()
                          for sign, odds in ((1, self.old), (-1, self.new)))  # fmt: skip
        return float(of_old + of_new + self.rest) / 2


@dataclass(frozen=True)
class _Scores:
    """What novelty is made of, of some items."""

    plain: Floats  # (n,)
    surprise: Floats  # (n,) by the background

    @classmethod
    def of(cls, predictive: Predictive, background: Background, items: Embedded) -> "_Scores":
        if not len(items.labels):
            return cls(np.empty(0), np.empty(0))
        surprise = background.surprise(items.vectors.astype(np.float64), predictive.temperature)
        return cls(predictive.novelty_scores(items.vectors), surprise)


def usual_share(plain: Floats, surprise: Floats) -> float:
    """Return the share of the background for held-out items with these plain scores and surprises (V,).

    Where classes are read as wide, the plain score says little in numbers. The share shrinks with it, or the
    background would outweigh what it is compared with.
    """
    if not len(plain):
        return 0.0
    far, near = (float(np.quantile(one, TAIL) - np.median(one)) for one in (plain, surprise))
    return min(1.0, SHARE * far / near) if near > 0 else 0.0


def _choose_share(
    background: Background, known: _Scores, new: _Scores, classes: int
) -> tuple[Background, float | None]:
    """Return the background with the share that distinguishes held-out classes best, and how well."""
    if not len(known.plain) or classes < FEWEST:
        return background, None
    found: list[tuple[float, Background]] = []
    for share in SHARES:
        one = replace(background, share=share)
        found.append((auroc(*(one.score(items.plain, items.surprise) for items in (new, known))), one))
    best = max(found, key=lambda pair: pair[0])
    return best[1], best[0]
