"""One process at a time works in a folder: a run that is trained, or a comparison."""

import json
import os
import platform
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import filelock

from bayestriplet.errors import InputError, StateError, reason_of
from bayestriplet.runs.checksums import NAME as SUMS

NAME = ".lock"
PARTIAL = re.compile(r"\..+\.\d+-[0-9a-f]{8}")  # a file that was being written
Result = TypeVar("Result")


@contextmanager
def holding(folder: Path) -> Iterator[None]:
    """Keep other processes out of a folder during the block; the error of being kept out says by whom.

    The system frees the lock of a process that has died, whatever the file says.
    """
    if not folder.is_dir():  # the lock of a folder that is gone would be waited for
        raise InputError(f"{folder} cannot be written: no such folder")
    path = folder / NAME
    before = _read(path)
    lock = filelock.FileLock(path, timeout=0)
    try:
        lock.acquire()
    except filelock.Timeout:
        raise StateError(
            f"{folder} is in use by {_describe(before)}: wait for it to end, or stop it"
        ) from None
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {reason_of(error)}") from None
    try:
        path.write_text(json.dumps(_self()), encoding="utf-8")
        yield
    finally:
        with suppress(OSError):
            path.unlink()
        lock.release()


def alone(work: Callable[..., Result]) -> Callable[..., Result]:
    """Have a method of a training hold its folder, on the first rank; a folder that is not there is free."""

    @wraps(work)
    def hold(self: Any, *given: Any, **options: Any) -> Result:
        if not self.is_first or not self.folder.path.is_dir():
            return work(self, *given, **options)
        with holding(self.folder.path):
            return work(self, *given, **options)

    return hold


def is_taken(folder: Path) -> bool:
    """Return whether a folder holds anything but what a process leaves that is killed as it begins."""
    return any(
        path.name not in (NAME, SUMS) and not PARTIAL.fullmatch(path.name) for path in folder.iterdir()
    )


def _self() -> dict[str, Any]:
    since = time.strftime("%Y-%m-%d %H:%M:%S")
    return {"pid": os.getpid(), "host": platform.node(), "since": since}


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _describe(holder: dict[str, Any]) -> str:
    if not {"pid", "host", "since"} <= holder.keys():
        return "another process"
    pid, host, since = (str(holder[name])[:100] for name in ("pid", "host", "since"))
    return f"process {pid} on {host} since {since}"
