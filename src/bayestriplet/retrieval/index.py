"""The index of a run: images put in, images and vectors asked about."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from bayestriplet.checks import check_choice, check_whole
from bayestriplet.data.progress import Progress
from bayestriplet.errors import InputError, StateError
from bayestriplet.retrieval.adding import added_items, no_such_item
from bayestriplet.retrieval.answers import Answer, make_neighbours, take_vote
from bayestriplet.retrieval.conditions import FILTERS, Condition, Where, read_conditions
from bayestriplet.retrieval.encoder import OnnxEncoder
from bayestriplet.retrieval.finding import check_fulfilled, find_others
from bayestriplet.retrieval.indexing import Change, ChangedRows
from bayestriplet.retrieval.items import Rows
from bayestriplet.retrieval.live import LivePredictive, describe_vectors, look_at, novelty_words
from bayestriplet.retrieval.opening import open_set, open_split
from bayestriplet.retrieval.queries import Queries, read_queries, thumbnails_of
from bayestriplet.retrieval.sets import SetChange, choose_set, emptied, locate, relatives
from bayestriplet.retrieval.store import Store
from bayestriplet.retrieval.stores import open_store
from bayestriplet.retrieval.vector_queries import read_vector_queries
from bayestriplet.runs.folder import RunFolder
from bayestriplet.runs.predictive import Predictive

MOST = 10_000  # neighbours that can be asked for


class Index:
    """Images of any number, searchable by the encoder of a run. No torch is needed.

    >>> index = bt.Index.open("runs/first")
    >>> len(index)
    60
    """

    def __init__(
        self, run: Path, encoder: OnnxEncoder, store: Store, predictive: LivePredictive | None = None
    ) -> None:
        self.run, self.encoder, self.store, self.live = run, encoder, store, predictive

    @property
    def predictive(self) -> Predictive | None:
        """What the run says of vectors, with all that it was taught by now.

        >>> index.predictive.classes
        ('0', '1', '2')
        """
        return None if self.live is None else self.live.get()

    @classmethod
    def open(cls, run: str | Path, store: str | None = None) -> "Index":
        """Open the index of a run folder, or of another store; there may be nothing in it yet.

        >>> len(bt.Index.open("runs/first"))
        60
        """
        encoder = OnnxEncoder.open(Path(run))
        predictive = LivePredictive(RunFolder(Path(run)), encoder.fingerprint)
        index = cls(Path(run), encoder, open_store(Path(run), store), predictive)
        stored = index.store.fingerprint()
        if stored not in (None, encoder.fingerprint):
            raise StateError(
                f"{index.store.uri} was made with another encoder ({str(stored)[:12]}) than that of {run} "
                f"({encoder.fingerprint[:12]}): name another --store, or delete it and index again"
            )
        return index

    def __len__(self) -> int:
        return self.store.count()

    def search(
        self, queries: Any, k: int = 10, *, where: Where | None = None, exclude_self: bool = False,
        exclude_group: str | None = None,
    ) -> list[Answer]:  # fmt: skip
        """Return an answer for every query, with its k nearest items, or all where there are fewer.

        Queries are paths of images or of folders, uint8 pixels, or vectors (n, D); for a run on vectors
        vectors:FILE, vectors:FILE#ROW or #ID, ids of items, or arrays (n, F). ``where`` asks
        for items of a label, group or source: ``{"label": "TUM"}``, or texts such as ``["group!=P7"]``.
        ``exclude_self`` leaves out items whose pixels are those of the query, ``exclude_group`` those
        of a group; items without a group stay. For a query that is an item of the index, its own group is
        left out if none is named; ``exclude_group=""`` leaves out none.

        >>> (answer,) = index.search("query.png", k=2, where={"label": "2"})
        >>> [one.label for one in answer.neighbours]
        ['2', '2']
        """
        self.check_search(k, where, exclude_group or None)
        return self.ask_others(self.read(queries), k, where, exclude_self, exclude_group)

    def ask_others(
        self, queries: Queries, k: int, where: Where | None = None, exclude_self: bool = False,
        exclude_group: str | None = None,
    ) -> list[Answer]:  # fmt: skip
        """Return an answer for every query that was read already, without the query's own group.

        >>> (answer,) = index.ask_others(index.read("query.png"), k=2, exclude_self=True)
        >>> len(answer.neighbours)
        2
        """
        groups: list[str] = [exclude_group or ""] * len(queries.names)
        if exclude_group is None and not any(one.field == "group" for one in read_conditions(where)):
            groups = self._own_groups(queries)
        answers: dict[int, Answer] = {}
        for group in dict.fromkeys(groups):
            rows = [i for i, one in enumerate(groups) if one == group]
            found = self.ask(
                queries.take(rows), k, where=where, exclude_self=exclude_self, exclude_group=group or None
            )
            answers |= dict(zip(rows, found, strict=True))
        return [answers[row] for row in range(len(groups))]

    def _own_groups(self, queries: Queries) -> list[str]:
        """Return the group of the indexed item that each query is, empty where it is none."""
        if queries.hashes is None:
            return [""] * len(queries.names)
        found = self.store.search(queries.vectors, 1, ())
        return [
            hits[0].item.group if hits and hits[0].item.hash == own else ""
            for hits, own in zip(found, queries.hashes, strict=True)
        ]

    def read(self, queries: Any) -> Queries:
        """Return queries as vectors; where items are vectors, also an item of the index by its id.

        >>> index.read(["query.png"]).vectors.shape
        (1, 8)
        """
        if self.encoder.info.inputs:
            return read_vector_queries(self.encoder, queries, self.store)
        found = read_queries(self.encoder, queries)
        return replace(found, looks=look_at(self.predictive, found.pixels))

    def check_search(self, k: int, where: Where | None = None, exclude_group: str | None = None) -> None:
        """Raise if nothing can be searched, or not in this way.

        >>> index.check_search(k=10)
        """
        check_whole("k", k, 1)
        if k > MOST:
            raise InputError(f"k must be at most {MOST}; got {k}")
        read_conditions(where, exclude_group)
        self._check_made()

    def has_group(self, name: str) -> bool:
        """Return whether any item is of a group.

        >>> index.has_group("P7")
        False
        """
        anywhere = np.zeros((1, self.encoder.dim), np.float32)
        return any(self.store.search(anywhere, 1, [Condition("group", name)]))

    def _check_made(self) -> None:
        if self.store.fingerprint() is None:
            uri, command = self.store.uri, f"bayestriplet index {self.run} IMAGES"
            if uri == str(self.run / "index"):
                raise StateError(f"{self.run} has no index yet: `{command}` makes one")
            raise StateError(f"{uri} holds no index: `{command} --store {uri}` makes one")

    def ask(
        self, queries: Queries, k: int, *, where: Where | None = None, exclude_self: bool = False,
        exclude_group: str | None = None,
    ) -> list[Answer]:  # fmt: skip
        """Return an answer for every query that was read already.

        >>> (answer,) = index.ask(index.read("query.png"), k=1)
        >>> answer.neighbours[0].label
        '2'
        """
        own = queries.hashes if exclude_self else None
        found = find_others(self.store, queries.vectors, k, read_conditions(where, exclude_group), own)
        if where and not any(found):
            check_fulfilled(self.store, queries.vectors[:1], read_conditions(where), self.encoder.classes)
        predictive = self.predictive
        answers, said_of = [], describe_vectors(predictive, queries.vectors, queries.looks)
        words = novelty_words(predictive, "vector" if self.encoder.info.inputs else "image")
        for name, hits, said in zip(queries.names, found, said_of, strict=True):
            neighbours = make_neighbours(hits)
            answers.append(Answer(name, neighbours, take_vote(neighbours), *said, exclude_group, *words))
        return answers

    def update(
        self,
        data: str,
        *,
        split: str | None = None,
        name: str | None = None,
        skip_bad: bool = False,
        follow_links: bool = False,
        progress: Progress | None = None,
    ) -> Change:
        """Make the index hold a data set (a folder, a manifest, a name) as it is now, or one split of it.

        New items are added, changed ones replaced, and those gone from this set removed, in one change;
        items of other sets stay. A set is its path and split, or the ``name`` it is given: then its
        data may have moved.

        >>> change = index.update("photos")
        >>> change.added, change.unchanged
        (0, 60)
        """
        if split is None:
            images = open_set(
                self.encoder, data, skip_bad=skip_bad, follow_links=follow_links, progress=progress
            )
        else:
            images = open_split(self.encoder, self.run, data, split, skip_bad=skip_bad, progress=progress)
        began = time.perf_counter()
        known, sets = {item.id: item for item in self.store.items()}, self.store.sets()
        part = "" if split in (None, "all") else str(split)
        chosen = choose_set(sets, known.values(), data=locate(data), split=part, last=images.name, name=name)
        own, kin = chosen.after, relatives(sets, chosen.after)
        rows = ChangedRows(images, own, self.encoder, known, kin, progress)
        listed, owned = set(rows.ids), {own.name, *([] if own.split else kin)}
        gone = [one.id for one in known.values() if one.source in owned and one.id not in listed]
        self._write(iter(rows), gone, [] if chosen.before == own else [chosen])
        seconds = time.perf_counter() - began
        counts = rows.added, rows.replaced, len(gone), rows.unchanged
        taken = 0 if own.name in sets else sum(one.source == own.name for one in known.values())
        beside = sets.get(images.name) if own.name not in sets else None
        labels = Counter(images.classes[k] for k in images.labels)
        return Change(*counts, seconds, own, chosen.moved_from, taken, beside, images.noun, labels)

    def remove(self, where: Mapping[str, str]) -> int:
        """Take out the items with these values of label, group, source or id; return how many.

        >>> change = index.add(["query.png"], labels=["odd"])
        >>> index.remove({"label": "odd"})
        1
        """
        if not where:
            raise InputError("remove needs a condition, such as group=NAME")
        for field in where:
            check_choice("remove", field, ("id", *FILTERS))
        self._check_made()
        known = self.store.items()
        gone = {
            one.id for one in known if all(getattr(one, field) == value for field, value in where.items())
        }
        if not gone:
            raise InputError(no_such_item(where, known))
        forgotten = emptied(self.store.sets(), (one for one in known if one.id not in gone))
        self._write(iter(()), sorted(gone), forgotten)
        return len(gone)

    def purge(self) -> None:
        """Remove what was taken out or replaced from the disk, too, as far as the store can.

        >>> index.purge()
        """
        self._check_made()
        if forgotten := emptied(self.store.sets(), self.store.items()):
            self._write(iter(()), [], forgotten)
        self.store.purge()

    def add(
        self,
        images: Any,
        *,
        labels: Sequence[str] | None = None,
        ids: Sequence[str] | None = None,
        groups: Sequence[str] | None = None,
    ) -> Change:
        """Add images (paths or uint8 pixels), in place of items with the same id; none is ever removed.

        The id is the path if not given, or the hash of the pixels.

        >>> index.add(["query.png"], labels=["odd"], ids=["one"]).added
        1
        >>> index.remove({"id": "one"})
        1
        """
        began = time.perf_counter()
        read = self.read(images)
        if read.hashes is None or (read.pixels is None and not self.encoder.info.inputs):
            raise InputError("only images can be added: paths, or uint8 pixels")
        items = added_items(read, read.hashes, labels, ids, groups)
        known = {item.id for item in self.store.items()}
        self._write(iter([Rows(items, read.vectors, thumbnails_of(read, self.encoder.info))]), [])
        old = sum(item.id in known for item in items)
        return Change(len(items) - old, old, 0, 0, time.perf_counter() - began)

    def _write(self, rows: Iterator[Rows], gone: Sequence[str], sets: Sequence[SetChange] = ()) -> None:
        """Store a change, if there is any."""
        first = next(rows, None)
        if first is None and not gone and not sets:
            return
        all_rows: Iterable[Rows] = rows if first is None else chain([first], rows)
        self.store.write(self.encoder.fingerprint, self.encoder.dim, all_rows, gone, sets)
