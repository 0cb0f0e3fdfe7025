"""The tables of an index in LanceDB: their columns, their files, and the register of sets."""

import hashlib
import re
import secrets
import subprocess
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, Any

from bayestriplet.errors import StateError, reason_of
from bayestriplet.retrieval.items import FIELDS, Rows
from bayestriplet.retrieval.sets import IndexedSet
from bayestriplet.retrieval.store import check_store_format

TABLE = "items"
FORMAT = "1"  # of the table; one of version 0.1.0 names none
VERSIONS = 3  # of a table that are kept in any case
YOUNG = timedelta(days=1)  # versions that are kept, too
PATIENCE = 120.0  # seconds to wait for a copy that another process makes
SETS = "sets"  # the register, in a table of its own: readers of version 0.1.0 do not look there


def read_sets(database: Any) -> dict[str, IndexedSet]:
    """Return the register of sets by name."""
    if SETS not in database.list_tables().tables:
        return {}
    rows = database.open_table(SETS).to_arrow().to_pylist()
    return {row["name"]: IndexedSet(**row) for row in rows}


def write_sets(database: Any, sets: Mapping[str, IndexedSet]) -> None:
    """Replace the register of sets, in one version."""
    import pyarrow

    schema = pyarrow.schema([(field, pyarrow.string()) for field in IndexedSet._fields])
    rows = pyarrow.Table.from_pylist([one._asdict() for one in sets.values()], schema=schema)
    mode = "overwrite" if SETS in database.list_tables().tables else "create"
    database.create_table(SETS, data=rows, schema=schema, mode=mode)


def purge_table(database: Any, name: str) -> None:
    """Write a table anew and remove all files of older versions.

    Rows that were removed are only marked in the files that hold them, and LanceDB merges such files
    where many rows are marked: so all rows are written again.
    """
    if name not in database.list_tables().tables:
        return
    table = database.open_table(name)
    rows = table.search().limit(table.count_rows() or 1).to_batches()
    written = database.create_table(name, data=rows, schema=table.schema, mode="overwrite")
    with warnings.catch_warnings():  # that readers of older versions will fail: they look for the last one
        warnings.simplefilter("ignore")
        written.optimize(cleanup_older_than=timedelta(0), delete_unverified=True)


def forget_versions(database: Any, name: str) -> None:
    """Remove the versions of a table that are older than a day, but for the last few.

    Files that a change under way has written are younger, and stay.
    """
    if name not in database.list_tables().tables:
        return
    table = database.open_table(name)
    written = sorted(one["timestamp"].astimezone() for one in table.list_versions())
    if len(written) <= VERSIONS or datetime.now().astimezone() - written[-VERSIONS - 1] < YOUNG:
        return
    # Of the first that is kept, a moment earlier: its files are not older than that.
    age = datetime.now().astimezone() - written[-VERSIONS] + timedelta(milliseconds=100)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table.optimize(cleanup_older_than=max(age, YOUNG))


@contextmanager
def changing(folder: Path) -> Iterator[None]:
    """Let one process at a time change the tables in a folder; a second one is refused."""
    import filelock

    try:
        with filelock.FileLock(folder / ".lock", timeout=0):
            yield
    except filelock.Timeout:
        raise StateError(f"{folder} is being changed by another process; wait for it") from None


@contextmanager
def making_copy(copies: Path) -> Iterator[None]:
    """Let one process at a time make a copy of a table; where there can be no lock, each makes its own."""
    import filelock

    lock = filelock.FileLock(copies.with_name(f".{copies.name}.lock"), timeout=PATIENCE)
    with suppress(filelock.Timeout, OSError):
        copies.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def copy_apart(uri: str, folder: Path | None, copies: Path) -> None:
    """Have another process make the copy of a table's last version; that it cannot is no error."""
    names = [uri, str(folder or ""), str(copies)]
    command = [sys.executable, "-P", "-m", "bayestriplet.retrieval.copying", *names]
    nothing = subprocess.DEVNULL
    subprocess.run(command, stdin=nothing, stdout=nothing, stderr=nothing, check=False)  # noqa: S603


def hash_manifests(folder: Path) -> str | None:
    """Return a name for the last version of a table: no two tables and no two versions have the same."""
    manifests = sorted(folder.glob("*.manifest"))
    if not manifests:
        return None
    digest = hashlib.sha256("\n".join(path.name for path in manifests).encode())
    for path in (manifests[0], manifests[-1]):  # the last version is one of them; its name counts up or down
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def make_schema(dim: int, fingerprint: str) -> Any:
    """Return the columns of the table, and what distinguishes it from others."""
    import pyarrow

    fields = [(field, pyarrow.string()) for field in FIELDS]
    fields += [("vector", pyarrow.list_(pyarrow.float32(), dim)), ("thumbnail", pyarrow.binary())]
    about = {"fingerprint": fingerprint, "origin": secrets.token_hex(8), "format": FORMAT}
    return pyarrow.schema(fields, metadata=about)


def read_fingerprint(schema: Any, uri: str) -> str:
    """Return what a table says of its encoder, if this version reads tables of its format."""
    about = {key.decode(): value.decode() for key, value in (schema.metadata or {}).items()}
    check_store_format(uri, about.get("format", FORMAT), FORMAT)
    return about["fingerprint"]


def write_aside(rows: Iterable[Rows], file: IO[bytes], schema: Any) -> int:
    """Write rows into a file in Arrow's form; return how many there are."""
    import pyarrow

    number, dim = 0, schema.field("vector").type.list_size
    with pyarrow.ipc.new_stream(file, schema) as writer:
        for part in rows:
            columns = [pyarrow.array([getattr(item, field) for item in part.items]) for field in FIELDS]
            columns.append(pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(part.vectors.ravel()), dim))
            columns.append(pyarrow.array(part.thumbnails, pyarrow.binary()))
            writer.write_batch(pyarrow.record_batch(columns, schema=schema))
            number += len(part.items)
    return number


def is_one_of(ids: Sequence[str]) -> str:
    """Return the condition that an id is one of these, with quotes as SQL wants them."""
    quoted = ", ".join("'" + name.replace("'", "''") + "'" for name in ids)
    return f"id IN ({quoted})"


def reason_in_words(error: Exception) -> str:
    """Return what went wrong in a few words: LanceDB names lines of its own source, too."""
    if code := re.search(r"<Code>(\w+)</Code>", str(error)):  # what a bucket answers, deep inside
        return code[1]
    line = re.sub(r"^(lance error: )?LanceError\(\w+\): ", "", reason_of(error))
    return re.split(r", /|: IO \{", line)[0][:200]
