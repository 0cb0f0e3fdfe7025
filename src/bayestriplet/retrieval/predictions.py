"""What a run says of a whole set of images: probabilities, vote and novelty, and their vectors."""

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bayestriplet.atomic import replacing, write_text
from bayestriplet.data.dataset import LabelledImages
from bayestriplet.data.progress import Progress
from bayestriplet.errors import InputError
from bayestriplet.retrieval.answers import Answer
from bayestriplet.retrieval.encoder import OnnxEncoder
from bayestriplet.retrieval.index import Index
from bayestriplet.retrieval.items import Vectors
from bayestriplet.retrieval.live import look_at, novelty_words
from bayestriplet.retrieval.opening import open_set, read_parts
from bayestriplet.retrieval.queries import Queries
from bayestriplet.runs.predictive import Predictive

EMBEDDING_FILES = (".npz", ".parquet")


@dataclass(frozen=True, eq=False)
class Embedding:
    """The vectors (N, D) of a set of images."""

    images: LabelledImages
    vectors: Vectors
    looks: NDArray[np.float64] | None = None
    """(N, F) how the images look, where that was asked for and is known."""

    def __str__(self) -> str:
        number, dim = self.vectors.shape
        return f"{number:,} vectors of {dim} numbers"

    @property
    def labels(self) -> list[str]:
        """The class of every image; empty where it is unknown."""
        return [self.images.classes[k] for k in self.images.labels]

    def save(self, path: str | Path) -> None:
        """Write an .npz or .parquet file with vectors, ids, labels and groups, as far as they are known."""
        path = Path(path)
        write = {".npz": self._write_npz, ".parquet": self._write_parquet}[check_embedding_file(path)]
        with replacing(path) as partial:
            write(partial)

    def _write_npz(self, path: Path) -> None:
        columns = {"vectors": self.vectors, "ids": np.array(self.images.ids)}
        if any(self.labels):
            columns |= {"labels": self.images.labels, "classes": np.array(self.images.classes)}
        if self.images.groups is not None:
            columns["groups"] = self.images.groups
        with path.open("wb") as file:
            np.savez(file, **columns)  # type: ignore[arg-type]

    def _write_parquet(self, path: Path) -> None:
        import pyarrow
        from pyarrow import parquet

        flat = pyarrow.array(self.vectors.ravel())
        columns = {
            "vectors": pyarrow.FixedSizeListArray.from_arrays(flat, self.vectors.shape[1]),
            "ids": pyarrow.array(self.images.ids),
        }
        if any(self.labels):
            columns["labels"] = pyarrow.array(self.labels)
        if self.images.groups is not None:
            columns["groups"] = pyarrow.array(self.images.groups.tolist())
        parquet.write_table(pyarrow.table(columns), path)


@dataclass(frozen=True, eq=False)
class Predictions:
    """What is said of N images, or vectors, in the order of their ids."""

    ids: tuple[str, ...]
    labels: tuple[str, ...]
    """Their own, empty where unknown."""
    classes: tuple[str, ...]
    probabilities: NDArray[np.float64] | None
    """(N, K); None for a run that keeps no predictive distribution."""
    novelty: NDArray[np.float64] | None
    """(N,) percent of held-out items that are less novel; NaN without held-out items."""
    answers: tuple[Answer, ...] | None
    """The nearest indexed items and their vote; None without an index."""
    noun: str = "image"
    """What an item is called."""
    evidence: str = ""
    """What novelty rests on, where that is little."""

    def __str__(self) -> str:
        lines = [f"{len(self.ids):,} {self.noun}s"]
        if self.probabilities is not None and len(self.ids):
            counts = np.bincount(self.probabilities.argmax(1), minlength=len(self.classes))
            order = np.argsort(-counts, kind="stable")[:10]
            lines += [f"  {self.classes[k]}: {counts[k]:,}" for k in order if counts[k]]
        lines += [f"Novelty: {self.evidence}."] * bool(self.evidence)
        return "\n".join(lines)

    def save(self, path: str | Path) -> None:
        """Write a CSV file with a row per image."""
        path = Path(path)
        check_table_file(path)
        text = io.StringIO(newline="")
        writer = csv.writer(text)
        writer.writerow([*self._headings()])
        writer.writerows(self._row(i) for i in range(len(self.ids)))
        write_text(path, text.getvalue())

    def _headings(self) -> Iterator[str]:
        yield from ("id", "label")
        if self.answers is not None:
            yield from ("vote", "vote_share", "nearest", "distance")
        if self.probabilities is not None:
            yield from ("prediction", "probability", "novelty")
            yield from (f"p({name})" for name in self.classes)

    def _row(self, i: int) -> list[str]:
        row = [self.ids[i], self.labels[i]]
        if self.answers is not None:
            row += _vote_cells(self.answers[i])
        if self.probabilities is not None and self.novelty is not None:
            shares = self.probabilities[i]
            best, novelty = int(shares.argmax()), self.novelty[i]
            row += [self.classes[best], f"{shares[best]:.6f}", "" if np.isnan(novelty) else f"{novelty:.2f}"]
            row += [f"{share:.6f}" for share in shares]
        return row


def check_embedding_file(path: Path) -> str:
    """Return the ending of a file that vectors can be written to."""
    if path.suffix.lower() not in EMBEDDING_FILES:
        raise InputError(f"--out must name an .npz or .parquet file; got {path}")
    return path.suffix.lower()


def check_table_file(path: Path) -> None:
    """Raise unless a table can be written to a file of this name."""
    if path.suffix.lower() != ".csv":
        raise InputError(f"--out must name a .csv file; got {path}")


def embed_images(
    encoder: OnnxEncoder, data: str, *, skip_bad: bool = False, follow_links: bool = False,
    progress: Progress | None = None, predictive: Predictive | None = None,
) -> Embedding:  # fmt: skip
    """Return the vectors of a folder, a manifest or a named set; with a predictive, also how they look."""
    images = open_set(encoder, data, skip_bad=skip_bad, follow_links=follow_links, progress=progress)
    vectors, looks = np.empty((len(images), encoder.dim), np.float32), []
    for part, pixels in read_parts(images, "Encoding", progress):
        vectors[part] = encoder.encode(pixels)
        if (seen := look_at(predictive, pixels)) is not None:
            looks.append(seen)
    return Embedding(images, vectors, np.concatenate(looks) if looks else None)


def predict_images(
    index: Index, data: str, k: int = 10, *, skip_bad: bool = False, follow_links: bool = False,
    progress: Progress | None = None,
) -> Predictions:  # fmt: skip
    """Return what the run of an index says of a folder, a manifest or a named set."""
    predictive = index.predictive
    found = embed_images(
        index.encoder, data, skip_bad=skip_bad, follow_links=follow_links, progress=progress,
        predictive=predictive,
    )  # fmt: skip
    said = None if predictive is None else predictive.predict(found.vectors, found.looks)
    answers = None
    if index.store.fingerprint() is not None:
        index.check_search(k)
        answers = tuple(index.ask(Queries(found.images.ids, found.vectors, looks=found.looks), k))
    return Predictions(
        ids=found.images.ids,
        labels=tuple(found.labels),
        classes=index.encoder.classes if predictive is None else predictive.classes,
        probabilities=None if said is None else said[0],
        novelty=None if said is None else said[1],
        answers=answers,
        noun=found.images.noun,
        evidence=novelty_words(predictive, found.images.noun)[1],
    )


def _vote_cells(answer: Answer) -> list[str]:
    vote, near = answer.vote, answer.neighbours
    nearest = [near[0].path or near[0].id, f"{near[0].distance:.4f}"] if near else ["", ""]
    if vote is None:
        return ["", "", *nearest]
    return [" / ".join(vote.tied) or vote.label, f"{vote.share:.4f}", *nearest]
