"""The one way a file or folder of the project is written: completely, or not at all.

It lies below the layers that use it: data sets that are kept, runs, indexes and figures.
"""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bayestriplet.errors import InputError, reason_of


@contextmanager
def replacing(path: Path, *, folder: bool = False) -> Iterator[Path]:
    """Give a name beside ``path`` to write under, which takes the place of ``path`` after the block.

    If the block raises, ``path`` stays as it was and nothing is left behind. The file gets the
    rights that the umask allows, whatever its writer gives it, and is on the disk before it gets its name.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}")
    try:
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
        raise InputError(f"{path} cannot be written: {reason_of(error)}") from error
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


def _flush(file: Path) -> None:
    if file.is_file():
        with file.open("rb") as opened:
            os.fsync(opened.fileno())
