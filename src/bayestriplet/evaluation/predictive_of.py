"""The predictive distributions of a run: its posterior, read as held-out items suggest."""

from dataclasses import asdict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bayestriplet.evaluation.embeddings import Embedded
from bayestriplet.evaluation.predictive_fit import Reading, fit_reading, log_densities
from bayestriplet.posterior.posterior import ClassPosterior
from bayestriplet.posterior.predictive import StudentClasses, class_log_probabilities
from bayestriplet.runs.predictive import Predictive


def fit_predictive(
    posterior: ClassPosterior, classes: tuple[str, ...], fingerprint: str, train: Embedded, held_out: Embedded
) -> Predictive:
    """Fit the reading to held-out items and return all it takes to give probabilities and novelty.

    Held-out items of classes without training items tell nothing and are left out. Where none
    is left the reading is fitted to the training items, and there is nothing to compare novelty with.
    """
    seen = posterior.seen > 0
    log_prior = class_log_probabilities(posterior.seen, posterior.num_classes)
    items = held_out.take(seen.numpy()[held_out.labels])
    reading, students = _fit(posterior, log_prior, items if len(items.labels) else train)
    joint = log_densities(students, items.vectors) / reading.temperature + log_prior[seen].numpy()
    return Predictive(
        classes=classes,
        encoder=fingerprint,
        log_prior=log_prior.numpy(),
        temperature=reading.temperature,
        held_out=np.sort(-np.logaddexp.reduce(joint, 1)),
        reading=asdict(reading),
        **_whole(students, seen),
    )


def _fit(posterior: ClassPosterior, log_prior: Tensor, items: Embedded) -> tuple[Reading, StudentClasses]:
    """Fit the reading of the classes that were seen."""
    seen = posterior.seen > 0
    number = (seen.cumsum(0) - 1).numpy()  # position of each class among those seen
    statistics = posterior.statistics.rows(seen.nonzero().squeeze(1))
    numbered = Embedded(items.vectors, number[items.labels])
    reading = fit_reading(statistics, log_prior[seen].numpy(), numbered)
    return reading, reading.students(statistics)


def _whole(students: StudentClasses, seen: Tensor) -> dict[str, NDArray[np.float64]]:
    """Return the parameters of all K classes; those never seen, whose prior is 0, have standard ones."""
    dim, number = students.mean.shape[1], len(seen)
    out = {
        "mean": torch.zeros(number, dim, dtype=torch.float64),
        "whitening": torch.zeros(number, dim, dim, dtype=torch.float64),
        "log_normaliser": torch.zeros(number, dtype=torch.float64),
        "freedom": torch.ones(number, dtype=torch.float64),
    }
    for name, value in out.items():
        value[seen] = getattr(students, name)
    return {name: value.numpy() for name, value in out.items()}
