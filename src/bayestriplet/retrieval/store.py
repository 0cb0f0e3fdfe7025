"""What an index asks of the place that keeps it, and which places there are."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from bayestriplet.data.progress import Progress
from bayestriplet.errors import BayesTripletError, InputError, StateError, StoreError
from bayestriplet.retrieval.items import Hit, Item, Rows, Stored, Vectors

BUCKETS = ("s3", "gs", "az", "abfss")  # object stores that LanceDB writes to


class Store(Protocol):
    """A table of items with vectors of one encoder. Every error is one of errors.py and names the place."""

    uri: str

    def fingerprint(self) -> str | None:
        """Return that of the encoder the vectors are of; None while nothing was ever stored."""

    def count(self) -> int:
        """Return the number of items."""

    def items(self) -> list[Item]:
        """Return all items."""

    def version(self) -> str | None:
        """Return a name that changes when the items do; None while nothing was ever stored."""

    def find(self, ids: Iterable[str]) -> dict[str, Stored]:
        """Return items with their vectors by id, of those that are there."""

    def sample(self, number: int) -> list[Stored]:
        """Return at most this many items, spread over all of them."""

    def labels(self) -> dict[str, int]:
        """Return how many items each label has."""

    def write(self, fingerprint: str, dim: int, rows: Iterable[Rows], gone: Sequence[str]) -> None:
        """Add these rows, in place of those with the same id, and remove the ids that are gone."""

    def prepare(self, progress: Progress | None = None) -> str:
        """Make ready what searching needs; return how it searches, as a phrase."""

    def search(self, vectors: Vectors, k: int, where: Mapping[str, str]) -> list[list[Hit]]:
        """Return at most k hits for each vector (n, D), nearest first, among items with these fields."""

    def thumbnails(self, ids: Iterable[str]) -> dict[str, bytes]:
        """Return the thumbnails of items by id, of those that are there."""


def open_store(run: Path, uri: str | None) -> Store:
    """Return the store that a URI names: by default LanceDB in the folder ``index`` of the run.

    A ``.db`` file or an http address is Milvus; a folder or a bucket LanceDB.
    """
    from bayestriplet.retrieval.lance import LanceStore

    place = str(run / "index") if uri is None else uri
    scheme = place.partition("://")[0].lower() if "://" in place else ""
    if scheme in ("http", "https") or (not scheme and place.endswith(".db")):
        from bayestriplet.retrieval.milvus import MilvusStore

        return MilvusStore(place)
    if scheme in BUCKETS:
        digest = hashlib.sha256(place.encode()).hexdigest()[:12]
        return LanceStore(place, None, run / "snapshots" / digest)
    if scheme or not place:
        known = ", ".join(f"{name}://" for name in (*BUCKETS, "http", "https"))
        raise InputError(f"--store must be a folder, a .db file, or begin with {known}; got {place!r}")
    folder = Path(place).expanduser()
    return LanceStore(str(folder), folder, folder / "snapshot")


@contextmanager
def in_one_line(uri: str, what: str, reason: Callable[[Exception], str]) -> Iterator[None]:
    """Turn whatever a database raises in the block, which has no common base, into one line."""
    try:
        yield
    except BayesTripletError:
        raise
    except Exception as error:
        raise StoreError(f"{uri} {what}: {reason(error)}") from None


def no_index(uri: str) -> StateError:
    """Return the error of a store in which nothing is."""
    return StateError(f"{uri} holds no index: `bayestriplet index RUN IMAGES` makes one")
