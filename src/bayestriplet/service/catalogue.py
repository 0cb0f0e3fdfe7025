"""The index that is served: always its last version, and what the page needs to know of it."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bayestriplet.errors import StateError
from bayestriplet.retrieval.index import Index
from bayestriplet.retrieval.items import Item, Stored
from bayestriplet.service.mapping import MOST_ITEMS, MapMaker
from bayestriplet.service.places import Places
from bayestriplet.service.questions import Question, Reply, answer_all

EXAMPLES = 10  # items offered to begin with, one a label


@dataclass(frozen=True, eq=False)
class Edition:
    """What is known of one version of the index."""

    index: Index
    version: str
    labels: dict[str, int]
    """Number of items by label."""
    groups: Sequence[str]
    """Names of groups (patients, slides), sorted."""
    sample: Sequence[Stored]
    """For the map."""
    how: str
    """It searches, as a phrase."""

    @property
    def items(self) -> int:
        """How many there are."""
        return sum(self.labels.values())

    @property
    def examples(self) -> list[Item]:
        """One item of each of the first labels."""
        first: dict[str, Item] = {}
        for one in self.sample:
            first.setdefault(one.item.label, one.item)
        return [first[label] for label in sorted(first)[:EXAMPLES]]


@dataclass(frozen=True, eq=False)
class PlacedReply:
    """A reply, where the query lies in the map, and the version of the index that gave it."""

    reply: Reply
    place: tuple[float, float] | None
    version: str


class Catalogue:
    """A run's index. Every call looks whether there is a new version first; any thread may call."""

    def __init__(self, run: Path, store: str | None = None) -> None:
        self.run, self.store = run, store
        self.index = Index.open(run, store)
        self.maps = MapMaker(run / "maps")
        self._edition: Edition | None = None
        self._lock = threading.Lock()

    def edition(self) -> Edition:
        """Return the last version; the error of there being none says how to make one."""
        with self._lock:
            version = self.index.store.version()
            if version is None:
                raise StateError(
                    f"{self.run} has no index yet: `bayestriplet index {self.run} IMAGES` makes one"
                )
            if self._edition is None or self._edition.version != version:
                self._edition = self._open(version)
            return self._edition

    def _open(self, version: str) -> Edition:
        store = self.index.store
        if store.fingerprint() != self.index.encoder.fingerprint:  # made anew, with another network
            self.index = Index.open(self.run, self.store)
            store = self.index.store
        groups = sorted(filter(None, store.groups()))
        sample = store.sample(MOST_ITEMS)
        return Edition(self.index, version, store.labels(), groups, sample, store.prepare())

    def places(self) -> Places | None:
        """Return the map as far as it is made."""
        edition = self.edition()
        return self.maps.places(edition.version, edition.sample)

    def answer(self, questions: Sequence[Question]) -> list[PlacedReply | Exception]:
        """Answer questions with one version of the index."""
        edition = self.edition()
        places = self.maps.places(edition.version, edition.sample)
        return [
            reply
            if isinstance(reply, Exception)
            else PlacedReply(reply, None if places is None else places.place(reply.vector), edition.version)
            for reply in answer_all(edition.index, questions)
        ]

    def find(self, ids: Sequence[str]) -> list[Stored | Exception]:
        """Return items by id; for one that is not there the error that says so."""
        there = self.edition().index.store.find(ids)
        return [there[name] if name in there else UnknownItemError(name) for name in ids]

    def thumbnails(self, ids: Sequence[str]) -> list[bytes | Exception]:
        """Return the thumbnails of items by id."""
        there = self.edition().index.store.thumbnails(ids)
        return [there[name] if name in there else UnknownItemError(name) for name in ids]

    def close(self) -> None:
        """End what goes on in the background."""
        self.maps.close()


class UnknownItemError(StateError):
    """An id that the index does not hold."""

    def __init__(self, name: str) -> None:
        shown = name if len(name) <= 200 else f"{name[:200]}…"
        super().__init__(f"the index holds no item {shown!r}")
