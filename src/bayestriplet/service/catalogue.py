"""The index that is served: always its last version, and what the page needs to know of it."""

import math
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bayestriplet.errors import BayesTripletError, StateError
from bayestriplet.retrieval.index import Index
from bayestriplet.retrieval.items import Item, Stored
from bayestriplet.retrieval.stores import open_store
from bayestriplet.service.mapping import MOST_ITEMS, MapMaker
from bayestriplet.service.places import Places
from bayestriplet.service.questions import Question, Reply, answer_all

GLANCE = 0.1  # seconds to wait for a new version, for who asks about the index and is the first to see it
RETRY = 1.0  # seconds after which a version that could not be opened is tried again
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
    places: Places | None = None
    """Where the sample lies, as far as that was known when it was opened."""

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


class Opening:
    """A version of the index that a thread of its own makes ready."""

    def __init__(self, version: str, work: Callable[[str], Edition]) -> None:
        self.version, self.work = version, work
        self.edition: Edition | None = None
        self.error: Exception | None = None
        self.ended = math.inf
        self._done = threading.Event()
        threading.Thread(target=self._run, name="open-index", daemon=True).start()

    def _run(self) -> None:
        try:
            self.edition = self.work(self.version)
        except Exception as error:  # for whoever asks
            self.error = error
        self.ended = time.monotonic()
        self._done.set()

    def is_for(self, version: str) -> bool:
        """Return whether it makes this version ready; one that failed is tried again in a moment."""
        return self.version == version and (self.error is None or time.monotonic() - self.ended < RETRY)

    def wait(self, seconds: float | None) -> Edition | None:
        """Return the version once it is ready, or None if it takes longer."""
        self._done.wait(seconds)
        if self.error is not None:
            raise self.error
        return self.edition


class Catalogue:
    """A run's index. Every call looks whether there is a new version first; any thread may call.

    While a new version is made ready, which takes a while for a large one, the last one answers.
    """

    def __init__(self, run: Path, store: str | None = None) -> None:
        self.run, self.store = run, store
        self.index = Index.open(run, store)
        self._source = self.index.store
        self.maps = MapMaker(run / "maps")
        self._edition: Edition | None = None
        self._opening: Opening | None = None
        self._lock = threading.Lock()

    def edition(self, patience: float = 0.0) -> Edition:
        """Return the last version that is ready; the error of there being none says how to make one.

        A call that finds a new version first waits for it so many seconds: most are ready soon. Searches
        do not wait, since all of them would.
        """
        version = self._source.version()
        if version is None:
            raise StateError(f"{self.run} has no index yet: `bayestriplet index {self.run} IMAGES` makes one")
        with self._lock:
            last, opening = self._edition, self._opening
            if last is not None and last.version == version:
                return last
            begun = opening is None or not opening.is_for(version)
            if opening is None or begun:
                opening = self._opening = Opening(version, self._open)
        return opening.wait(None if last is None else patience if begun else 0.0) or self._last()

    def _last(self) -> Edition:
        if self._edition is None:
            raise StateError(f"{self.run} has no index yet")
        return self._edition

    def _open(self, version: str) -> Edition:
        """Make a version ready, with a connection of its own: the last one answers meanwhile."""
        index = Index(self.run, self.index.encoder, open_store(self.run, self.store), self.index.live)
        if index.store.fingerprint() != self.index.encoder.fingerprint:  # made anew, with another network
            index = Index.open(self.run, self.store)
        index.store = store = index.store.pinned(apart=True)
        how, groups = store.prepare(), sorted(filter(None, store.groups()))
        version = store.version() or version  # it may have changed again meanwhile
        sample = store.sample(MOST_ITEMS)
        places = self.maps.begin(version, sample)
        edition = Edition(index, version, store.labels(), groups, sample, how, places)
        with self._lock:
            self._edition, self.index = edition, index
        return edition

    def warm_up(self) -> None:
        """Open the index and load its database, so that no request has to wait for that."""
        with suppress(BayesTripletError):  # whoever asks is told
            self._source.sets()
            self.edition()

    def places(self) -> Places | None:
        """Return the map as far as it is made."""
        return self.maps.best(self.edition(GLANCE).places)

    def answer(self, questions: Sequence[Question]) -> list[PlacedReply | Exception]:
        """Answer questions with one version of the index."""
        edition = self.edition()
        places = self.maps.best(edition.places)
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
