"""What an image file may ask of its decoder: pixels, a side, and passes over them."""

import io
import mmap
import re
from pathlib import Path

MAX_PIXELS = 64_000_000
MAX_SIDE = 32_767
MAX_SCANS = 100  # of a JPEG file; programs write about ten

MARKER = re.compile(rb"\xff+([^\x00\xd0-\xd7\xff])", re.DOTALL)  # but for those inside of a scan
END, SCAN = 0xD9, 0xDA


def size_problem(width: int, height: int) -> str | None:
    """Return what is wrong with the size of an image, as a phrase, or None."""
    if width * height > MAX_PIXELS:
        return f"has {width} x {height} pixels, more than 64 million"
    if max(width, height) > MAX_SIDE:
        return f"has {width} x {height} pixels, a side of more than {MAX_SIDE:,}"
    return None


def scan_problem(file: Path | io.BytesIO) -> str | None:
    """Return what is wrong with the scans of a JPEG file, each of which is a pass over all its pixels."""
    if isinstance(file, io.BytesIO):
        many = has_many_scans(file.getbuffer())
    else:
        with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
            many = has_many_scans(content)
    return f"has more than {MAX_SCANS} scans" if many else None


def has_many_scans(content: "memoryview | mmap.mmap") -> bool:
    """Whether a JPEG file has more scans than allowed, by its markers up to the end of the first image."""
    position, scans = 2, 0
    while (found := MARKER.search(content, position)) is not None:
        marker, position = found[1][0], found.end()
        if marker == END:
            return False
        scans += marker == SCAN
        if scans > MAX_SCANS:
            return True
        # What follows a marker begins with its length, and may hold whole images, such as a preview.
        position += max(2, int.from_bytes(content[position : position + 2], "big"))
    return False
