"""LanceDB as the store of an index: a folder or a bucket, every change one new version."""

import shutil
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from bayestriplet.data.progress import Progress, report
from bayestriplet.errors import MissingDependencyError, StoreError
from bayestriplet.retrieval.columns import Column
from bayestriplet.retrieval.conditions import Condition
from bayestriplet.retrieval.items import FIELDS, Hit, Item, Rows, Stored, Vectors
from bayestriplet.retrieval.lance_tables import (
    SETS,
    TABLE,
    changing,
    copy_apart,
    forget_versions,
    hash_manifests,
    is_one_of,
    make_schema,
    making_copy,
    purge_table,
    read_fingerprint,
    read_sets,
    reason_in_words,
    write_aside,
    write_sets,
)
from bayestriplet.retrieval.memory import Memory
from bayestriplet.retrieval.pinned import PinnedStore
from bayestriplet.retrieval.sets import IndexedSet, SetChange, apply_changes
from bayestriplet.retrieval.store import Store, in_one_line, no_index
from bayestriplet.retrieval.table_sums import note_files, verify_files

MANY = 10_000  # items of which a copy takes long to make


class LanceStore:
    """A LanceDB table. Searching is done in memory, from a copy of the table's last version.

    ``folder`` is where the database lies if that is a folder here, ``copies`` where copies are kept. While
    a copy is up to date, which the manifests show, lancedb is not even imported.
    """

    def __init__(self, uri: str, folder: Path | None, copies: Path) -> None:
        self.uri, self.folder, self.copies = uri, folder, copies
        self._database: Any = None
        self._table: Any = None
        self._loaded: Memory | None = None
        self._loading = threading.Lock()

    def pinned(self, apart: bool = False) -> Store:
        key = self._made()
        if apart and not (self.copies / key).is_dir() and self._number() >= MANY:
            copy_apart(self.uri, self.folder, self.copies)
        return PinnedStore(self, self._memory(self._made()))

    def _number(self) -> int:
        with self._errors("cannot be read; delete it and index again"):
            return int(self._open().count_rows())

    def fingerprint(self) -> str | None:
        key = self._key()
        return None if key is None else self._memory(key).fingerprint

    def count(self) -> int:
        key = self._key()
        return 0 if key is None else len(self._memory(key))

    def items(self) -> list[Item]:
        key = self._key()
        return [] if key is None else self._memory(key).items()

    def version(self) -> str | None:
        return self._key()

    def find(self, ids: Iterable[str]) -> dict[str, Stored]:
        return {one.item.id: one for one in self._memory(self._made()).find(ids)}

    def sample(self, number: int) -> list[Stored]:
        return self._memory(self._made()).sample(number)

    def labels(self) -> dict[str, int]:
        return self._memory(self._made()).columns["label"].count()

    def groups(self) -> dict[str, int]:
        return self._memory(self._made()).columns["group"].count()

    def prepare(self, progress: Progress | None = None) -> str:
        return self._memory(self._made(), progress).describe()

    def search(self, vectors: Vectors, k: int, where: Sequence[Condition]) -> list[list[Hit]]:
        return self._memory(self._made()).search(vectors, k, where)

    def thumbnails(self, ids: Iterable[str]) -> dict[str, bytes]:
        wanted = sorted(set(ids))
        if not wanted:
            return {}
        self._made()
        with self._errors("cannot be read"):
            table = self._open()
            table.checkout_latest()  # another process may have written since
            query = table.search().where(is_one_of(wanted)).select(["id", "thumbnail"])
            rows = query.limit(len(wanted)).to_arrow()
            return dict(zip(rows["id"].to_pylist(), rows["thumbnail"].to_pylist(), strict=True))

    def sets(self) -> dict[str, IndexedSet]:
        if self.folder is not None and not self.folder.is_dir():  # connecting would make it
            return {}
        with self._errors("cannot be read"):
            return read_sets(self._connect())

    def write(
        self, fingerprint: str, dim: int, rows: Iterable[Rows], gone: Sequence[str],
        sets: Sequence[SetChange] = (),
    ) -> None:  # fmt: skip
        failed = "cannot be written; it is as it was"
        # Rows are put aside first: encoding goes on in this thread, and the change is made at once.
        with self._locked(), self._errors(failed), self._put_aside() as aside:
            schema = make_schema(dim, fingerprint)
            number = write_aside(rows, aside, schema)
            with self._registering(sets):
                if number or gone or not sets:
                    self._change(aside, schema, gone)
                    self._forget_versions()
            note_files(self.folder)
        self._table = None

    @contextmanager
    def _registering(self, changes: Sequence[SetChange]) -> Iterator[None]:
        """Register sets before the block and forget others after it; if it fails, leave all as it was."""
        if not changes:
            yield
            return
        before = read_sets(self._connect())
        after = apply_changes(before, changes, self.uri)
        both = before | after
        if both != before:
            write_sets(self._connect(), both)
        try:
            yield
        except Exception:
            if both != before:
                write_sets(self._connect(), before)
            raise
        if after != both:
            write_sets(self._connect(), after)

    def _change(self, aside: IO[bytes], schema: Any, gone: Sequence[str]) -> None:
        """Make a change, or leave neither a version nor files of it."""
        key, before = self._key(), self._data_files()
        try:
            self._commit(aside, schema, key is not None, gone)
        except Exception:  # not Ctrl-C, at which LanceDB completes the change in its own thread
            if self._key() == key:
                self._clear(self._data_files() - before, key is not None)
            raise

    def _forget_versions(self) -> None:
        """Remove old versions of the table; that nothing can be removed is no reason for a change to fail."""
        with suppress(Exception):
            for name in (TABLE, SETS):
                forget_versions(self._connect(), name)

    def purge(self) -> None:
        self._made()
        with self._locked(), self._errors("cannot be purged; it is as it was"):
            for name in (TABLE, SETS):
                purge_table(self._connect(), name)
            note_files(self.folder)
        self._table = None
        shutil.rmtree(self.copies, ignore_errors=True)
        self._loaded = None
        if self.copies.exists():
            raise StoreError(f"{self.copies} cannot be removed; it may still hold what was taken out")

    @property
    def after_purge(self) -> str:
        return f"Older versions are gone from {self.uri}."

    def _commit(self, aside: IO[bytes], schema: Any, made: bool, gone: Sequence[str]) -> None:
        import pyarrow

        aside.seek(0)
        with pyarrow.ipc.open_stream(aside) as reader:
            if not made:
                self._connect().create_table(TABLE, data=reader, schema=schema)
                return
            merge = self._open().merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
            if gone:
                merge = merge.when_not_matched_by_source_delete(is_one_of(gone))
            merge.execute(reader)

    def _clear(self, written: set[Path], made: bool) -> None:
        """Remove what a change that failed has written; the lock keeps others from writing meanwhile."""
        for path in written:
            path.unlink(missing_ok=True)
        if self.folder is not None and not made:
            shutil.rmtree(self.folder / f"{TABLE}.lance", ignore_errors=True)

    def _made(self) -> str:
        """Return the key of the last version, or say that there is none."""
        key = self._key()
        if key is None:
            raise no_index(self.uri)
        return key

    def _key(self) -> str | None:
        """Return a name that changes with every version of the table; None while there is no table."""
        if self.folder is not None:
            with self._errors("cannot be read"):
                return hash_manifests(self.folder / f"{TABLE}.lance" / "_versions")
        with self._errors("cannot be reached"):
            if TABLE not in self._connect().list_tables().tables:
                return None
            table = self._connect().open_table(TABLE)
            origin = (table.schema.metadata or {}).get(b"origin", b"").decode()
            return f"version-{origin}-{table.version}"

    def _memory(self, key: str, progress: Progress | None = None) -> Memory:
        with self._loading:
            loaded = self._loaded
            if loaded is None or loaded.key != key:
                self._table = None  # the table itself may be another one
                loaded = Memory.load(self.copies, key)
                loaded = loaded or self._copy(key, progress)
                self._loaded = loaded
            return loaded

    def _copy(self, key: str, progress: Progress | None) -> Memory:
        """Make the copy of a version, or wait for another process that is making it."""
        report(progress, "reading the table", 0, 0)
        with making_copy(self.copies):
            loaded = Memory.load(self.copies, key)
            if loaded is None:
                loaded = self._read(key, progress)
                loaded.save(self.copies)
        return loaded

    def _read(self, key: str, progress: Progress | None) -> Memory:
        with self._errors("cannot be read; delete it and index again"):
            table = self._open()
            table.checkout_latest()
            rows = table.search().select([*FIELDS, "vector"]).limit(table.count_rows() or 1).to_arrow()
            fingerprint = read_fingerprint(table.schema, self.uri)
            dim = table.schema.field("vector").type.list_size
            flat = rows["vector"].combine_chunks().flatten().to_numpy()
            columns = {field: Column.of_arrow(rows[field]) for field in FIELDS}
        vectors = np.ascontiguousarray(flat.reshape(-1, dim), np.float32)
        return Memory.make(key, fingerprint, vectors, columns, progress)

    def _connect(self) -> Any:
        if self._database is None:
            try:
                import lancedb
            except ImportError as error:
                raise MissingDependencyError(
                    "an index needs LanceDB: pip install 'bayestriplet[search]'"
                ) from error
            verify_files(self.folder)
            self._database = lancedb.connect(self.uri)
        return self._database

    def _open(self) -> Any:
        if self._table is None:
            verify_files(self.folder)
            self._table = self._connect().open_table(TABLE)
        return self._table

    def _data_files(self) -> set[Path]:
        """Return the files with the table's rows, where they are files here."""
        if self.folder is None:
            return set()
        return set((self.folder / f"{TABLE}.lance").glob("data/*"))

    @contextmanager
    def _put_aside(self) -> Iterator[IO[bytes]]:
        """Give a file without a name, which is gone whatever happens to this process."""
        with tempfile.TemporaryFile(dir=self.folder) as file:
            yield file

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Let one process at a time change a table in a folder; in a bucket LanceDB sees to it."""
        if self.folder is None:
            yield
            return
        with self._errors("cannot be written"):
            self.folder.mkdir(parents=True, exist_ok=True)
        with changing(self.folder):
            yield

    def _errors(self, what: str) -> AbstractContextManager[None]:
        return in_one_line(self.uri, what, reason_in_words)
