"""The one way a file or folder of the project is written: completely, or not at all.

It lies below the layers that use it: data sets that are kept, runs, indexes and figures.
"""

import glob
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bayestriplet.errors import WriteError, reason_of

STALE = 600.0  # seconds after which what a dead process has left half written is removed


@contextmanager
def replacing(path: Path, *, folder: bool = False) -> Iterator[Path]:
    """Give a name beside ``path`` to write under, which takes the place of ``path`` after the block.

    If the block raises, ``path`` stays as it was and nothing is left behind. The file gets the
    rights that the umask allows, whatever its writer gives it, and is on the disk before it gets its name.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}")
    try:
        _remove_leftovers(path)
        partial.mkdir() if folder else partial.touch(exist_ok=False)
        mode = partial.stat().st_mode
        yield partial
        if not folder:
            partial.chmod(mode)
        for file in partial.rglob("*") if folder else (partial,):
            _flush(file)
        if folder:
            shutil.rmtree(path, ignore_errors=True)
        partial.replace(path)
    except OSError as error:
        raise WriteError(f"{path} cannot be written: {reason_of(error)}") from error
    finally:
        with suppress(OSError):
            shutil.rmtree(partial, ignore_errors=True) if folder else partial.unlink()


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file completely or not at all."""
    with replacing(path) as partial:
        partial.write_bytes(content)


def write_text(path: Path, text: str) -> None:
    """Write a text as UTF-8, completely or not at all."""
    write_bytes(path, text.encode())


def _remove_leftovers(path: Path) -> None:
    """Remove what processes that were killed have left of this file; those of other machines have time."""
    pattern = re.compile(rf"\.{re.escape(path.name)}\.(\d+)(-[0-9a-f]+)?")
    for other in path.parent.glob(f".{glob.escape(path.name)}.*"):
        found = pattern.fullmatch(other.name)
        if found is None or _is_alive(int(found[1])):
            continue
        with suppress(OSError):
            if time.time() - other.stat().st_mtime > STALE:
                shutil.rmtree(other) if other.is_dir() else other.unlink()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _flush(file: Path) -> None:
    if file.is_file():
        with file.open("rb") as opened:
            os.fsync(opened.fileno())
