"""Embeddings trained on triplets drawn from Bayesian-updated class distributions.

Names are imported when they are first used, so ``import bayestriplet`` itself is instant.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bayestriplet.api import Run as Run
    from bayestriplet.api import compare as compare
    from bayestriplet.api import train as train
    from bayestriplet.errors import BayesTripletError as BayesTripletError
    from bayestriplet.evaluation.few_shot import few_shot_accuracy as few_shot_accuracy
    from bayestriplet.evaluation.metrics import recall_at_k as recall_at_k
    from bayestriplet.posterior.posterior import ClassPosterior as ClassPosterior
    from bayestriplet.posterior.priors import NIWPrior as NIWPrior
    from bayestriplet.posterior.statistics import ClassStatistics as ClassStatistics
    from bayestriplet.posterior.statistics import merge as merge
    from bayestriplet.retrieval.index import Index as Index
    from bayestriplet.triplets.baselines import baseline as baseline
    from bayestriplet.triplets.criteria import BUNCA as BUNCA
    from bayestriplet.triplets.criteria import BUT as BUT
    from bayestriplet.triplets.losses import nca_loss as nca_loss
    from bayestriplet.triplets.losses import triplet_loss as triplet_loss
    from bayestriplet.triplets.sampler import TripletSampler as TripletSampler
    from bayestriplet.triplets.triplets import Triplets as Triplets

__version__ = version("bayestriplet")

_WHERE = {
    "Run": "api",
    "compare": "api",
    "train": "api",
    "BayesTripletError": "errors",
    "few_shot_accuracy": "evaluation.few_shot",
    "recall_at_k": "evaluation.metrics",
    "ClassPosterior": "posterior.posterior",
    "NIWPrior": "posterior.priors",
    "ClassStatistics": "posterior.statistics",
    "merge": "posterior.statistics",
    "Index": "retrieval.index",
    "baseline": "triplets.baselines",
    "BUNCA": "triplets.criteria",
    "BUT": "triplets.criteria",
    "nca_loss": "triplets.losses",
    "triplet_loss": "triplets.losses",
    "TripletSampler": "triplets.sampler",
    "Triplets": "triplets.triplets",
}
__all__ = list(_WHERE)


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"module 'bayestriplet' has no attribute {name!r}")
    return getattr(import_module(f"bayestriplet.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE])
