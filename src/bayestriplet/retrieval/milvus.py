"""Milvus as the store of an index: a file of Milvus Lite here, or a cluster by its address."""

import base64
import json
import logging
import os
import re
import secrets
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from bayestriplet.data.progress import Progress
from bayestriplet.errors import MissingDependencyError, reason_of
from bayestriplet.retrieval import milvus_lite
from bayestriplet.retrieval.cells import spaced
from bayestriplet.retrieval.conditions import Condition
from bayestriplet.retrieval.items import FIELDS, Hit, Item, Rows, Stored, Vectors
from bayestriplet.retrieval.milvus_rows import (
    is_one_of,
    to_entries,
    to_expression,
    to_hit,
    to_item,
    to_stored,
)
from bayestriplet.retrieval.sets import IndexedSet, SetChange, apply_changes
from bayestriplet.retrieval.store import check_store_format, in_one_line, no_index
from bayestriplet.retrieval.table_sums import Known

COLLECTION = "bayestriplet"
FORMAT = "1"  # of the collection; one of version 0.1.0 names none
BATCH = 500  # rows a request
LONGEST = {"id": 1024, "label": 1024, "path": 8192, "group": 1024, "source": 1024, "hash": 64}  # bytes
THUMBNAIL = 65535  # bytes, as base64
RESULTS = 50_000  # hits a request
PATIENCE = 10.0  # seconds to connect
UNKNOWN = re.compile(r"[\x00-\x07\x0b\x0e-\x1f]")  # what a condition cannot say, so that no id holds it


class MilvusStore:
    """A collection of Milvus, which searches it itself.

    Milvus has no versions: a change is made in parts, and one that was broken off is completed
    by making it again.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._client: Any = None
        self._found = False
        self._stops = 0

    def pinned(self, apart: bool = False) -> "MilvusStore":
        del apart
        return self

    @milvus_lite.asked_again
    def fingerprint(self) -> str | None:
        with self._errors("cannot be read"):
            if not self._exists():
                return None
            described = self._connect().describe_collection(COLLECTION)
            properties = described.get("properties", {})
            check_store_format(self.uri, properties.get("format", FORMAT), FORMAT)
            # Milvus Lite keeps the properties of a collection, and not its description.
            return str(properties.get("fingerprint") or described.get("description"))

    def _properties(self) -> dict[str, str]:
        return dict(self._connect().describe_collection(COLLECTION).get("properties", {}))

    @milvus_lite.asked_again
    def count(self) -> int:
        with self._errors("cannot be read"):
            if not self._exists():
                return 0
            counted = self._connect().query(COLLECTION, filter="", output_fields=["count(*)"])
            return int(counted[0]["count(*)"])

    @milvus_lite.asked_again
    def items(self) -> list[Item]:
        with self._errors("cannot be read"):
            if not self._exists():
                return []
            pages = self._connect().query_iterator(
                COLLECTION, batch_size=BATCH, filter="", output_fields=list(FIELDS)
            )
            items: list[Item] = []
            while page := pages.next():
                items += [to_item(row) for row in page]
            pages.close()
        return items

    @milvus_lite.asked_again
    def version(self) -> str | None:
        with self._errors("cannot be read"):
            if not self._exists():
                return None
            # The count shows a change that was broken off, too.
            return f"{self._properties().get('change', '')}-{self.count()}"

    def find(self, ids: Iterable[str]) -> dict[str, Stored]:
        return {row["id"]: to_stored(row) for row in self._rows(ids, [*FIELDS, "vector"])}

    @milvus_lite.asked_again
    def _rows(self, ids: Iterable[str], fields: list[str]) -> list[dict[str, Any]]:
        """Return fields of the items with these ids."""
        wanted = sorted(name for name in set(ids) if not UNKNOWN.search(name))
        rows: list[dict[str, Any]] = []
        with self._errors("cannot be read"):
            for start in range(0, len(wanted) if self._exists() else 0, BATCH):
                condition = is_one_of(wanted[start : start + BATCH])
                rows += self._connect().query(COLLECTION, filter=condition, output_fields=fields)
        return rows

    def sample(self, number: int) -> list[Stored]:
        ids = sorted(item.id for item in self.items())
        stored = self.find(ids[i] for i in spaced(len(ids), number))
        return [stored[name] for name in sorted(stored)]

    def labels(self) -> dict[str, int]:
        return dict(Counter(item.label for item in self.items()))

    def groups(self) -> dict[str, int]:
        return dict(Counter(item.group for item in self.items()))

    @milvus_lite.asked_again
    def sets(self) -> dict[str, IndexedSet]:
        with self._errors("cannot be read"):
            rows = json.loads(self._properties().get("sets", "[]")) if self._exists() else []
            return {row[0]: IndexedSet(*row) for row in rows}

    def write(
        self, fingerprint: str, dim: int, rows: Iterable[Rows], gone: Sequence[str],
        sets: Sequence[SetChange] = (),
    ) -> None:  # fmt: skip
        with self._errors("cannot be written"):
            if not self._exists():
                self._create(fingerprint, dim)
            before = self.sets()
            after = apply_changes(before, sets, self.uri)
            sums = milvus_lite.forget(self.uri) if self._is_local else {}
            self._note_change(before | after)
            for part in rows:
                self._upsert(part)
            for start in range(0, len(gone), BATCH):
                self._connect().delete(COLLECTION, filter=is_one_of(gone[start : start + BATCH]))
            self._note_change(after)
            self._settle(sums)

    def _settle(self, sums: Known) -> None:
        """Have a file of Milvus Lite come to rest, so that checksums of its parts hold."""
        if self._is_local:
            client, self._client, self._found = self._client, None, False
            if client is not None:
                client.close()
            milvus_lite.rest(self.uri, sums)

    def _note_change(self, sets: Mapping[str, IndexedSet]) -> None:
        """Write down that the collection is another one now, and its sets."""
        properties = {"change": secrets.token_hex(8), "sets": json.dumps(list(sets.values()))}
        self._connect().alter_collection_properties(COLLECTION, properties)

    def _upsert(self, rows: Rows) -> None:
        entries = to_entries(rows)
        for start in range(0, len(entries), BATCH):
            self._connect().upsert(COLLECTION, entries[start : start + BATCH])

    def purge(self) -> None:
        with self._errors("cannot be purged"):
            if not self._exists():
                raise no_index(self.uri)
            sums = milvus_lite.forget(self.uri) if self._is_local else {}
            self._connect().flush(COLLECTION)
            self._connect().compact(COLLECTION)
            self._settle(sums)

    @property
    def after_purge(self) -> str:
        if self._is_local:
            return (
                f"Milvus Lite keeps removed items in its files until it merges these: "
                f"to be rid of them now, delete {self.uri} and index again."
            )
        return "Milvus was asked to remove deleted items from its files, which it does in its own time."

    def prepare(self, progress: Progress | None = None) -> str:
        del progress
        return "search is Milvus's own"

    @milvus_lite.asked_again
    def search(self, vectors: Vectors, k: int, where: Sequence[Condition]) -> list[list[Hit]]:
        condition = " and ".join(map(to_expression, where))
        step = max(1, RESULTS // k)
        found: list[list[Hit]] = []
        with self._errors("cannot be searched"):
            if not self._exists():
                raise no_index(self.uri)
            for start in range(0, len(vectors), step):
                answers = self._connect().search(
                    COLLECTION, data=vectors[start : start + step], limit=k, filter=condition,
                    output_fields=list(FIELDS), search_params={"metric_type": "L2"},
                )  # fmt: skip
                found += [[to_hit(one) for one in answer] for answer in answers]
        return found

    def thumbnails(self, ids: Iterable[str]) -> dict[str, bytes]:
        rows = self._rows(ids, ["id", "thumbnail"])
        return {row["id"]: base64.b64decode(row["thumbnail"]) for row in rows}

    def _create(self, fingerprint: str, dim: int) -> None:
        from pymilvus import DataType, MilvusClient

        schema = MilvusClient.create_schema(
            auto_id=False, enable_dynamic_field=False, description=fingerprint
        )
        for field in FIELDS:
            schema.add_field(field, DataType.VARCHAR, is_primary=field == "id", max_length=LONGEST[field])
        schema.add_field("vector", DataType.FLOAT_VECTOR, dim=dim)
        schema.add_field("thumbnail", DataType.VARCHAR, max_length=THUMBNAIL)
        index = MilvusClient.prepare_index_params()
        # Of Milvus Lite that would be a graph, which loses most items of a filter and of a large k.
        kind = "FLAT" if self._is_local else "AUTOINDEX"
        index.add_index("vector", index_type=kind, metric_type="L2")
        self._connect().create_collection(
            COLLECTION, schema=schema, index_params=index, consistency_level="Strong",
            properties={"fingerprint": fingerprint, "format": FORMAT},
        )  # fmt: skip

    @property
    def _is_local(self) -> bool:
        """Whether it is a file of Milvus Lite."""
        return "://" not in self.uri

    def _exists(self) -> bool:
        if self._is_local and not Path(self.uri).exists():  # asking Milvus Lite would make it
            return False
        client = self._connect()
        if not self._found and client.has_collection(COLLECTION):
            client.load_collection(COLLECTION)  # after a crash, or released by somebody
            self._found = True
        return self._found

    def _connect(self) -> Any:
        if not self._is_local:
            self._client = self._client or self._open()
            return self._client
        with milvus_lite.opening:
            if self._client is None or self._stops != milvus_lite.stops(self.uri):
                milvus_lite.verify(self.uri)
                # Its server may have been stopped by another store of this process, too.
                self._client, self._found, self._stops = self._open(), False, milvus_lite.stops(self.uri)
            return self._client

    def _open(self) -> Any:
        try:
            from pymilvus import MilvusClient
        except ImportError as error:
            raise MissingDependencyError(
                f"{self.uri} is Milvus: pip install 'bayestriplet[milvus]'"
            ) from error
        for name in ("pymilvus", "milvus_lite", "grpc"):  # what they log is raised as well
            logging.getLogger(name).setLevel(logging.CRITICAL)
        token = os.environ.get("MILVUS_TOKEN", "")
        # Milvus Lite hangs up on a client that asks every 10 s, idle or not, whether it is still there.
        quiet = {"grpc.keepalive_time_ms": 600_000} if self._is_local else {}
        return MilvusClient(self.uri, token=token, timeout=PATIENCE, grpc_options=quiet)

    def _errors(self, what: str) -> AbstractContextManager[None]:
        return in_one_line(self.uri, what, _reason)


def _reason(error: Exception) -> str:
    """Return what went wrong in a few words."""
    reason = str(getattr(error, "message", None) or reason_of(error)).splitlines()[0][:200]
    held = reason.lower().startswith("open local milvus failed")
    return f"{reason}; another process may have it open, or the disk is read-only" if held else reason
