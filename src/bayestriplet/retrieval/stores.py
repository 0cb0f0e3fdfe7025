"""Which stores there are, by what a user types."""

import hashlib
from pathlib import Path

from bayestriplet.errors import InputError
from bayestriplet.retrieval.lance import LanceStore
from bayestriplet.retrieval.milvus import MilvusStore
from bayestriplet.retrieval.store import Store

BUCKETS = ("s3", "gs", "az", "abfss")  # object stores that LanceDB writes to


def open_store(run: Path, uri: str | None) -> Store:
    """Return the store that a URI names: by default LanceDB in the folder ``index`` of the run.

    A ``.db`` file or an http address is Milvus; a folder or a bucket LanceDB.
    """
    address = str(run / "index") if uri is None else uri
    scheme = address.partition("://")[0].lower() if "://" in address else ""
    if scheme in ("http", "https") or (not scheme and address.endswith(".db")):
        return MilvusStore(address)
    if scheme in BUCKETS:
        digest = hashlib.sha256(address.encode()).hexdigest()[:12]
        return LanceStore(address, None, run / "snapshots" / digest)
    if scheme or not address:
        known = ", ".join(f"{name}://" for name in (*BUCKETS, "http", "https"))
        raise InputError(f"--store must be a folder, a .db file, or begin with {known}; got {address!r}")
    folder = Path(address).expanduser()
    return LanceStore(str(folder), folder, folder / "snapshot")
