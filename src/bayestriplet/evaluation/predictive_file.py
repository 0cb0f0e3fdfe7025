"""The predictive distribution of a run as a file that needs no torch to be used."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bayestriplet.evaluation.calibration import fit_temperature
from bayestriplet.evaluation.run_folder import write_whole
from bayestriplet.posterior.posterior import ClassPosterior
from bayestriplet.posterior.predictive import StudentClasses, class_log_probabilities

FORMAT = "1"


@dataclass(frozen=True)
class HeldOut:
    """Embeddings (V, D) and labels (V,) of the validation items; V may be 0."""

    vectors: NDArray[np.float32]
    labels: NDArray[np.int64]


def write_predictive(
    path: Path, model: Path, posterior: ClassPosterior, classes: tuple[str, ...], held_out: HeldOut
) -> None:
    """Fit the temperature and write all it takes to give probabilities and novelty."""
    from safetensors.torch import save_file

    log_prior = class_log_probabilities(posterior.seen, posterior.num_classes)
    known = torch.from_numpy(held_out.labels)
    usable = (posterior.seen[known] > 0).numpy()  # an item of a class never seen tells nothing of T
    scores = posterior.log_predictive(torch.from_numpy(held_out.vectors[usable])).double()
    temperature = 1.0
    if len(scores):
        temperature = fit_temperature(scores.numpy(), held_out.labels[usable], log_prior.numpy())
    novelty = -(scores / temperature + log_prior).logsumexp(1)
    tensors = {
        **_whole(posterior.student_classes(), posterior.seen > 0),
        "log_prior": log_prior,
        "temperature": torch.tensor(temperature, dtype=torch.float64),
        "held_out": novelty.sort().values,
    }
    with model.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    metadata = {"format": FORMAT, "classes": json.dumps(classes), "encoder": digest}
    write_whole(path, lambda partial: save_file(tensors, partial, metadata))


def _whole(students: StudentClasses, seen: Tensor) -> dict[str, Tensor]:
    """Return the parameters of all K classes; those never seen, whose prior is 0, have a standard place."""
    dim, number = students.mean.shape[1], len(seen)
    out = {
        "mean": torch.zeros(number, dim, dtype=torch.float64),
        "whitening": torch.zeros(number, dim, dim, dtype=torch.float64),
        "log_normaliser": torch.zeros(number, dtype=torch.float64),
        "freedom": torch.ones(number, dtype=torch.float64),
    }
    for name, value in out.items():
        value[seen] = getattr(students, name)
    return out
