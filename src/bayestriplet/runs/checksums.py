"""checksums.json: the SHA-256 of every file of a run, so that a damaged one is never believed."""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bayestriplet.atomic import replacing, write_text
from bayestriplet.errors import InputError, reason_of

NAME = "checksums.json"
FORMAT = 1
KEPT = 8  # sums of one file: so often in a row a process may be killed just before the file gets its name
MARK = "config.toml"  # the file that makes a folder a run
AGAIN = {  # what to do about a damaged file; bringing back a copy helps with all of them
    "encoder.onnx": "`bayestriplet export {run}` makes it anew",
    "last.ckpt": "bring back a copy, or train again",
}
_known: dict[Path, tuple[Any, ...]] = {}
"""What was verified in this process: size, time and number of a file, and the sums it may have."""


@contextmanager
def recorded(path: Path) -> Iterator[Path]:
    """Give a name to write a file of a run under, as :func:`replacing` does, and write down its sum.

    The new sum is written before the file gets its name, and stands beside earlier ones: so the process
    may be killed at any moment.
    """
    with replacing(path) as partial:
        yield partial
        if (path.parent / MARK).is_file() or path.name == MARK:
            _change(path, _sum_of(partial))


def record_text(path: Path, text: str) -> None:
    """Write a text file of a run, completely or not at all, with its sum."""
    record_bytes(path, text.encode())


def record_bytes(path: Path, content: bytes) -> None:
    """Write a file of a run, completely or not at all, with its sum."""
    with recorded(path) as partial:
        partial.write_bytes(content)


def record_as_it_is(path: Path) -> None:
    """Write down the sum of a file that has grown until now."""
    if path.is_file():
        _change(path, _sum_of(path))


def forget(path: Path) -> None:
    """Take back the sum of a file that is going to grow."""
    if path.name in _read(path.parent):
        _change(path, None)


def verify(path: Path) -> None:
    """Raise if a file is not as it was written. A file without a known sum, as in earlier runs, passes.

    The content is read once in a process, and again after the file or its sum has changed.
    """
    allowed = _read(path.parent).get(path.name)
    if allowed is None:
        return
    try:
        about = path.stat()
        seen = about.st_size, about.st_mtime_ns, about.st_ino, tuple(allowed)
        if _known.get(path) == seen:
            return
        found = _sum_of(path)
    except OSError:  # whoever reads it says so
        return
    if found not in allowed:
        advice = AGAIN.get(path.name, "bring back a copy").format(run=path.parent)
        raise InputError(
            f"{path} is damaged: it is not what was written; {advice} (if it was changed on purpose, "
            f"delete {NAME} beside it)"
        )
    _known[path] = seen


def _sum_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read(folder: Path) -> dict[str, list[str]]:
    """Return the sums that each file may have: its own, and those of earlier ones."""
    path = folder / NAME
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(
            f"{path} cannot be read: {reason_of(error)}; bring back a copy, or delete it"
        ) from None
    if isinstance(found, dict) and found.get("format") not in (None, FORMAT):
        raise InputError(f"{path} has format {found['format']!r}; this version reads {FORMAT}")
    sums = found.get("sha256") if isinstance(found, dict) else None
    if not isinstance(sums, dict) or not all(_are_sums(one) for one in sums.values()):
        raise InputError(f"{path} holds no checksums; bring back a copy, or delete it")
    return sums


def _are_sums(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, str) for one in value)


def _change(path: Path, new: str | None) -> None:
    """Put a new sum before that of the file as it is, or take them out."""
    with _alone(path.parent):
        sums = _read(path.parent)
        before = [one for one in sums.pop(path.name, []) if one != new] if path.is_file() else []
        if new is not None:
            sums[path.name] = [new, *before[: KEPT - 1]]
        text = json.dumps({"format": FORMAT, "sha256": dict(sorted(sums.items()))}, indent=1)
        write_text(path.parent / NAME, text + "\n")


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Let one process at a time change the sums, where the system can."""
    opened = None
    with suppress(ImportError, OSError):
        import fcntl

        opened = os.open(folder, os.O_RDONLY)
        fcntl.flock(opened, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if opened is not None:
            os.close(opened)
