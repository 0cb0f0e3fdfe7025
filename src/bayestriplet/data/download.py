"""Fetching of files over HTTPS into the cache folder."""

import http.client
import os
import urllib.request
from pathlib import Path

from bayestriplet.atomic import write_bytes
from bayestriplet.data.progress import Progress, report
from bayestriplet.errors import DataError, InputError, reason_of

LIMIT = 100_000_000  # bytes a download may have
TIMEOUT = 4.0  # seconds until a server that does not answer is given up
CHUNK = 1 << 18


class FetchError(Exception):
    """A source did not give what it should; the next one may."""


def cache_folder() -> Path:
    """Return the folder downloads are kept in: ``BAYESTRIPLET_DATA``, else the user's cache folder."""
    if own := os.environ.get("BAYESTRIPLET_DATA"):
        return Path(own).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "bayestriplet"


def fetch(url: str, progress: Progress | None = None, limit: int | None = None) -> bytes:
    """Return what lies at ``url``, at most ``limit`` bytes of it, or 100 MB."""
    most = LIMIT if limit is None else limit
    parts: list[bytes] = []
    done = 0
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT) as answer:  # noqa: S310 - constants, all https
            total = int(answer.headers.get("Content-Length") or 0)
            while chunk := answer.read(CHUNK):
                parts.append(chunk)
                done += len(chunk)
                if done > most:
                    raise FetchError(f"more than {most // 1_000_000} MB")
                report(progress, f"downloading {url.rsplit('/', 1)[-1]}", done, total)
    except (OSError, ValueError, http.client.HTTPException) as error:  # URLError and timeouts are OSErrors
        raise FetchError(str(getattr(error, "reason", error))) from error
    if done < total:
        raise FetchError(f"it broke off after {done:,} of {total:,} bytes")
    return b"".join(parts)


def keep(path: Path, content: bytes) -> None:
    """Write a file of the cache folder, whole or not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, content)
    except (OSError, InputError) as error:
        reason = reason_of(error).removeprefix(f"{path} cannot be written: ")
        raise DataError(f"cannot write {path}: {reason}; set BAYESTRIPLET_DATA to another folder") from error
