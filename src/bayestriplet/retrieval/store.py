"""What an index asks of the database that keeps it, and the errors of all of them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from bayestriplet.data.progress import Progress
from bayestriplet.errors import BayesTripletError, StateError, StoreError
from bayestriplet.retrieval.conditions import Condition
from bayestriplet.retrieval.items import Hit, Item, Rows, Stored, Vectors
from bayestriplet.retrieval.sets import IndexedSet, SetChange


class Store(Protocol):
    """A table of items with vectors of one encoder. Every error is one of errors.py and names the URI."""

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

    def groups(self) -> dict[str, int]:
        """Return how many items each group has; those without one are counted under ""."""

    def sets(self) -> dict[str, IndexedSet]:
        """Return what is registered of each set, by its name; version 0.1.0 registered nothing."""

    def write(
        self, fingerprint: str, dim: int, rows: Iterable[Rows], gone: Sequence[str],
        sets: Sequence[SetChange] = (),
    ) -> None:  # fmt: skip
        """Add these rows, in place of those with the same id, and remove the ids that are gone.

        A set is registered before its rows are written and forgotten after they are removed: a crash
        in between leaves a set without items, which the next update of that set fills.
        """

    def purge(self) -> None:
        """Remove what older versions held from the disk, too, as far as the database does that."""

    @property
    def after_purge(self) -> str:
        """What a purge has done, as a sentence."""

    def pinned(self, apart: bool = False) -> "Store":
        """Return the store as it is now, ready for searching; later changes do not reach it.

        With ``apart``, what takes long of that is done in another process, which lets others go first.
        A database that searches by itself has no such thing, and is its own: its changes are seen.
        """

    def prepare(self, progress: Progress | None = None) -> str:
        """Make ready what searching needs; return how it searches, as a phrase."""

    def search(self, vectors: Vectors, k: int, where: Sequence[Condition]) -> list[list[Hit]]:
        """Return at most k hits for each vector (n, D), nearest first, among items that fulfil conditions."""

    def thumbnails(self, ids: Iterable[str]) -> dict[str, bytes]:
        """Return the thumbnails of items by id, of those that are there."""


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


def check_store_format(uri: str, found: str, known: str) -> None:
    """Raise where a store is of another format than the one that is read."""
    if found != known:
        raise StoreError(f"{uri} has format {found!r}; this version reads {known}")
