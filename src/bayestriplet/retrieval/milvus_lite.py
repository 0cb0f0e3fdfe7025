"""A file of Milvus Lite, which is a folder: brought to rest after a change, and its checksums noted then."""

from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from functools import wraps
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from threading import RLock
from typing import Any, TypeVar

from bayestriplet.errors import StoreError
from bayestriplet.retrieval.table_sums import (
    OF_MILVUS,
    Known,
    forget_files,
    note_files,
    sizes_and_times,
    verify_files,
)

Answer = TypeVar("Answer")
TURNS = 10  # openings in which merges come to an end, at most
opening = RLock()
"""Held while a folder is opened or comes to rest, so that no thread opens one that another brings to rest."""
_stops: Counter[Path] = Counter()
"""How often the server of each folder was stopped in this process."""


def verify(uri: str) -> None:
    """Raise if a file is not as it was when it was noted."""
    verify_files(Path(uri), _program())


def forget(uri: str) -> Known:
    """Forget the sums before a change, and return them."""
    return forget_files(Path(uri), _program())


def stops(uri: str) -> int:
    """Return how often a folder's server was stopped: clients from before ask one that is gone."""
    return _stops[Path(uri).resolve()]


def asked_again(read: Callable[..., Answer]) -> Callable[..., Answer]:
    """Have a method of a store read again if its folder's server was stopped while it read."""

    @wraps(read)
    def ask(self: Any, *given: Any) -> Answer:
        before = stops(self.uri)
        try:
            return read(self, *given)
        except StoreError:
            with opening:  # waits for a change that comes to rest
                if stops(self.uri) == before:
                    raise
                return read(self, *given)

    return ask


def rest(uri: str, before: Known) -> None:
    """Stop a folder's server and open the folder until that changes no file any more; then note the files.

    Milvus Lite merges files in the background, also after it was opened only to be read. So they would
    change while they are noted, or later. ``before`` are the sums from before the change. Without a rest
    nothing is noted; that is no reason for the change to fail, which is made by then.
    """
    from milvus_lite.server_manager import server_manager_instance

    with opening:
        server_manager_instance.release_server(uri)  # waits for merges
        _stops[Path(uri).resolve()] += 1
        with suppress(Exception):  # such as that another process has it by now; readers name any damage
            _note_at_rest(Path(uri), before)


def _note_at_rest(folder: Path, before: Known) -> None:
    from milvus_lite.db import MilvusLite

    table, last = folder / OF_MILVUS, None
    for _ in range(TURNS):
        with closing(MilvusLite(str(folder))) as database:  # keeps other processes out while it is open
            now = sizes_and_times(folder)
            if any(path.stat().st_size for path in table.glob("wal/*")):
                return  # rows that are not in the files yet
            if now == last:
                note_files(folder, _program(), before)
                return
            database.get_collection(table.name).load()  # makes what searches the rows, a file of its own
        last = now


def _program() -> str:
    """Return who may change the files: another version of Milvus Lite may merge them in another way."""
    try:
        return f"milvus-lite {version('milvus-lite')}"
    except PackageNotFoundError:  # pymilvus says so
        return ""
