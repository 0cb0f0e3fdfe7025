"""What is written when a training has ended: the encoder, its class distributions, and the results."""

import platform
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import torch

from bayestriplet.config import TrainConfig
from bayestriplet.data.dataset import LabelledImages
from bayestriplet.data.progress import Progress, report
from bayestriplet.data.vectors import describe_vectors
from bayestriplet.errors import InputError, MissingDependencyError, WriteError
from bayestriplet.evaluation.appearance_fit import add_appearance
from bayestriplet.evaluation.bootstrap import scores_to_json
from bayestriplet.evaluation.embeddings import Embedded
from bayestriplet.evaluation.encoders import save_encoder
from bayestriplet.evaluation.evaluate import ItemSet, Vectors
from bayestriplet.evaluation.galleries import GalleryScores
from bayestriplet.evaluation.predictive_of import fit_predictive
from bayestriplet.evaluation.teaching_fit import fit_teaching
from bayestriplet.model.backbone import OnnxFeatures
from bayestriplet.model.encoder import Encoder, HeadEncoder
from bayestriplet.model.onnx_export import export_onnx
from bayestriplet.model.onnx_file import read_checked
from bayestriplet.posterior.posterior import ClassPosterior
from bayestriplet.runs.checksums import record_bytes, recorded
from bayestriplet.runs.encoder_files import fingerprint_of, onnx_metadata
from bayestriplet.runs.folder import RunFolder
from bayestriplet.runs.posterior import write_posterior as write_posterior_file
from bayestriplet.training.callbacks import Validation
from bayestriplet.training.events import OnEvent, PhaseEvent, WarningEvent

PACKAGES = ("bayestriplet", "torch", "lightning", "monai", "pytorch-metric-learning", "faiss-cpu", "numpy")
PART = 4096  # items that the posterior is updated with at a time


@dataclass(frozen=True)
class Outcome:
    """How a training ended."""

    encoder: Encoder | HeadEncoder
    validation: Validation
    steps: int
    seconds: float
    stopped_by: int
    """Number of the signal that stopped it before its last step; 0 for none."""

    def best_encoder(self) -> Encoder | HeadEncoder:
        """Return the network that validated best, on the CPU and in eval mode."""
        if self.validation.best_weights:
            self.encoder.load_state_dict(self.validation.best_weights)
        return self.encoder.cpu().eval()

    def results(
        self, config: TrainConfig, images: LabelledImages, found: "Measured | None", measure: bool = True
    ) -> dict[str, Any]:
        """Return what results.json holds; without ``measure`` the test items are still to be measured."""
        validation = self.validation
        ended = "finished" if measure else "unmeasured"
        return {
            "data": images.name,
            "classes": list(images.classes),
            **({"input": describe_vectors(images)} if images.length else {}),
            "method": config.method,
            "seed": config.seed,
            "status": "interrupted" if self.stopped_by else ended,
            "stopped_by": self.stopped_by or None,
            "steps": self.steps,
            "best_step": validation.best_step,
            "validation_recall@1": validation.best if validation.best >= 0 else None,
            "seconds": round(self.seconds, 1),
            **({"test": None} if found is None else found.to_json()),
            "versions": {
                "python": platform.python_version(),
                **{name: version(name) for name in PACKAGES},
            },
        }


@dataclass(frozen=True)
class Measured:
    """What was found for the test items: among themselves, in other galleries, and why not in some."""

    first: GalleryScores
    others: list[GalleryScores]
    notes: list[str]

    def to_json(self) -> dict[str, Any]:
        """Return what results.json holds of it: the scores among the test items, and the other galleries."""
        first = self.first.to_json()
        return {
            "test": scores_to_json(self.first.rows),
            "gallery": {"name": self.first.name} | {key: first[key] for key in first if key != "rows"},
            "galleries": {one.name: one.to_json() for one in self.others},
            "notes": self.notes,
        }


def diverged(config: TrainConfig, reason: str) -> dict[str, Any]:
    """Return what results.json holds of a training that broke down: in a search it is the worst."""
    return {
        "method": config.method,
        "seed": config.seed,
        "status": "diverged",
        "reason": reason,
        "validation_recall@1": 0.0,
        "test": None,
    }


def write_encoder(run: RunFolder, encoder: Encoder) -> None:
    """Write the model file of a run."""
    save_encoder(encoder, run.model)


def write_posterior(
    run: RunFolder, images: LabelledImages, digest: str, vectors: Vectors, progress: Progress | None = None
) -> None:  # fmt: skip
    """Fit the posterior exactly, without memory, to the final network's training embeddings.

    How it is read to predict is fitted to the validation embeddings and written beside it.
    """

    def embedded(split: str) -> Embedded:
        rows = images.indices(split)
        labels = images.labels[rows]
        return Embedded(vectors(ItemSet(images, rows, labels, split)), labels)

    classes, train, val = images.classes, embedded("train"), embedded("val")
    report(progress, "Fitting the posterior", 0, 0)
    posterior = ClassPosterior(len(classes), train.vectors.shape[1], dtype=torch.float64)
    for start in range(0, len(train.labels), PART):
        part = slice(start, start + PART)
        posterior.update(torch.from_numpy(train.vectors[part]), torch.from_numpy(train.labels[part]))
    state = {name: value.numpy() for name, value in posterior.state_dict().items()}
    write_posterior_file(run.posterior, classes, posterior.prior, state)
    predictive = fit_predictive(posterior, classes, digest, train, val, progress)
    predictive.save(run.predictive)
    report(progress, "Fitting the prior of new classes", 0, 0)
    known = (posterior.seen > 0).numpy()[val.labels]
    teaching = fit_teaching(predictive, train, val.take(known), val.take(~known))
    rows = images.indices("train"), images.indices("val")[known]
    add_appearance(teaching, predictive, images, *rows, progress).save(run.teaching)


def write_onnx(run: RunFolder, encoder: Encoder, on_event: OnEvent) -> None:
    """Write the encoder for searching; a training is worth keeping also where that cannot be done.

    A disk that is full is another matter: nothing else would be written either.
    """
    on_event(PhaseEvent("Exporting the encoder", 0, 0))
    try:
        export(run, encoder)
    except WriteError:
        raise
    except (InputError, MissingDependencyError) as error:
        run.encoder.unlink(missing_ok=True)  # of an earlier network of this run
        on_event(WarningEvent(str(error)))


def export(run: RunFolder, encoder: Encoder) -> None:
    """Write encoder.onnx of a run whose model file is there, and beside it the ONNX file it goes on from."""
    metadata = onnx_metadata(encoder.info, fingerprint_of(run.model))
    if isinstance(encoder.backbone, OnnxFeatures) and encoder.backbone.file.path != run.backbone:
        file = encoder.backbone.file
        record_bytes(run.backbone, read_checked(file.path, file.sha256))
    with recorded(run.encoder) as partial:
        export_onnx(encoder, metadata, partial)
