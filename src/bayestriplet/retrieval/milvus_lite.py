"""A file of Milvus Lite, which is a folder: brought to rest after a change, and its checksums noted then."""

from collections import Counter
from contextlib import closing
from pathlib import Path

from bayestriplet.retrieval.table_sums import note_files, sizes_and_times

TURNS = 10  # openings in which merges come to an end, at most
_stops: Counter[Path] = Counter()
"""How often the server of each folder was stopped in this process."""


def stops(uri: str) -> int:
    """Return how often a folder's server was stopped: clients from before ask one that is gone."""
    return _stops[Path(uri).resolve()]


def rest(uri: str) -> None:
    """Stop a folder's server and open the folder until that changes no file any more; then note the files.

    Milvus Lite merges files in the background, also after it was opened only to be read. So they would
    change while they are noted, or later. Without a rest nothing is noted.
    """
    from milvus_lite.db import MilvusLite
    from milvus_lite.exceptions import DataDirLockedError
    from milvus_lite.server_manager import server_manager_instance

    server_manager_instance.release_server(uri)  # waits for what goes on in the background
    _stops[Path(uri).resolve()] += 1
    folder, before = Path(uri), None
    for _ in range(TURNS):
        try:
            database = MilvusLite(uri)  # keeps other processes out while it is open
        except DataDirLockedError:  # one has taken it by now, and may change it
            return
        with closing(database):
            now = sizes_and_times(folder)
            if now == before:
                note_files(folder)
                return
            for name in database.list_collections():
                database.get_collection(name).load()  # makes what rows are searched by, a file of its own
        before = now
