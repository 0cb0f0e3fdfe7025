"""checksums.json in a LanceDB index or a file of Milvus Lite: the SHA-256 of what they consist of.

So a damaged file is never believed. Those of LanceDB never change once they are written; each version adds
some. Those of Milvus Lite change with the index alone, and their sums are forgotten before that. A file
without a known sum, as those of earlier versions of this package, passes.
"""

import hashlib
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from bayestriplet.atomic import write_text
from bayestriplet.errors import StoreError, reason_of

NAME = "checksums.json"
FORMAT = 1
OF_MILVUS = "collections/bayestriplet"  # of Milvus Lite, which may keep tables of others beside ours
FILES = (
    "*.lance/data/*",
    "*.lance/_deletions/*",
    "*.lance/_versions/*.manifest",
    f"{OF_MILVUS}/partitions/*/*/*",  # rows, removed rows and what searches them
    f"{OF_MILVUS}/*.json",  # fields, and the list of these files: Milvus Lite would take a former one
)
Known = dict[str, list[Any]]  # size, time in nanoseconds and sum of a file, by its path in the folder
_verified: dict[Path, tuple[int, int, int, str]] = {}
"""What was verified in this process: size, time and number of a file, and its sum."""


def note_files(folder: Path | None, by: str = "", before: Known | None = None) -> None:
    """Write down the sums of a table's files; only those of new ones are computed.

    ``by`` names who may change them, ``before`` are sums that were forgotten. That it cannot be written down
    is no reason for a change to fail, which is made by then.
    """
    if folder is None:  # in a bucket, which has sums of its own
        return
    with suppress(OSError, StoreError):
        known, now = before or _read(folder, by), {}
        for name, path in _files(folder):
            about = path.stat()
            size, time, _ = own = known.get(name, [-1, -1, ""])
            same = size == about.st_size and time == about.st_mtime_ns
            now[name] = own if same else [about.st_size, about.st_mtime_ns, _sum_of(path)]
        if now != known or before:
            write_text(folder / NAME, json.dumps({"format": FORMAT, "by": by, "files": now}) + "\n")


def verify_files(folder: Path | None, by: str = "") -> None:
    """Raise if a file of a table is not as it was written; each is read once in a process.

    LanceDB would crash inside at some damage, in words of its own, and believe other damage. Milvus Lite
    would search what is left of its rows.
    """
    if folder is None:
        return
    known, there = _read(folder, by), dict(_files(folder))
    damaged = sorted(name for name in known if name.startswith(OF_MILVUS) and name not in there)
    for name in sorted(known.keys() & there.keys()):
        path, wanted = there[name], known[name][2]
        try:
            about = path.stat()
            seen = about.st_size, about.st_mtime_ns, about.st_ino, wanted
            if _verified.get(path) == seen:
                continue
            found = _sum_of(path)
        except OSError:  # an old version that another process removes; else whoever reads it says so
            continue
        if found == wanted:
            _verified[path] = seen
        else:
            damaged.append(name)
    now = _read(folder, by) if damaged else {}  # another process may have changed the table meanwhile
    for name in damaged:
        if name in now and now[name][2] == known[name][2]:
            raise StoreError(
                f"{folder / name} is damaged: it is not what was written; bring back a copy of {folder}, "
                "or delete it and index again"
            )


def sizes_and_times(folder: Path) -> dict[str, tuple[int, int]]:
    """Return what tells a changed file from one that is as it was, by its path in the folder."""
    about = {name: path.stat() for name, path in _files(folder)}
    return {name: (one.st_size, one.st_mtime_ns) for name, one in about.items()}


def forget_files(folder: Path, by: str) -> Known:
    """Forget the sums, before a change that may write files anew under names that were there; return them."""
    known = _read(folder, by)
    with suppress(NotADirectoryError):
        (folder / NAME).unlink(missing_ok=True)
    return known


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    for pattern in FILES:
        for path in sorted(folder.glob(pattern)):
            if path.is_file() and not path.name.startswith("."):
                yield path.relative_to(folder).as_posix(), path


def _sum_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read(folder: Path, by: str) -> Known:
    """Return the sums that are known; none where another program may have changed the files since."""
    path = folder / NAME
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):  # whoever opens the store says what is there instead
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise StoreError(f"{path} cannot be read: {reason_of(error)}; delete it") from None
    files = found.get("files") if isinstance(found, dict) else None
    if isinstance(found, dict) and found.get("format") != FORMAT:
        raise StoreError(f"{path} has format {found.get('format')!r}; this version reads {FORMAT}")
    if not isinstance(files, dict) or not all(map(_is_entry, files, files.values())):
        raise StoreError(f"{path} holds no checksums; delete it")
    return files if found.get("by", "") == by else {}


def _is_entry(name: str, value: Any) -> bool:
    return name.isprintable() and isinstance(value, list) and list(map(type, value)) == [int, int, str]
