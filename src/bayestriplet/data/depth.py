"""How many bits a 16-bit image file really holds, and how these become 8."""

import struct
from typing import IO

import numpy as np
from numpy.typing import NDArray
from PIL import Image

FULL = 16
FEWEST = 8  # no set is taken to hold fewer
BITS_PER_SAMPLE, HIGHEST_VALUES = 258, (281, 341)  # TIFF tags; MaxSampleValue and SMaxSampleValue
CHUNKS = 64  # of a PNG file, looked at for its bits
CODESTREAM = b"\xff\x4f\xff\x51"  # how the header of JPEG 2000 begins
HEADER = 1 << 16  # bytes of a JPEG 2000 file in which it is looked for
PRECISION_AT = 42  # bytes behind its beginning


def is_deep(image: Image.Image) -> bool:
    """Whether an opened image is grey with more than 8 bits, in a form that Pillow keeps."""
    return image.mode.startswith("I;16") or (image.mode == "I" and image.format == "PNG")


def declared_bits(image: Image.Image) -> int | None:
    """Return the bits that an opened file of more than 8 declares in its header, or None; call before load.

    A TIFF file declares them by its bits a sample, or by a highest value of 2^bits - 1: another one is
    that of its pixels, and says nothing of the range.
    """
    if not is_deep(image):
        return None
    if image.format == "TIFF":
        return _bits_of_tiff(image)
    fp = getattr(image, "fp", None)
    if fp is None or image.format not in ("PNG", "JPEG2000"):
        return None
    position = fp.tell()
    try:
        fp.seek(0)
        return _bits_of_png(fp) if image.format == "PNG" else _bits_of_jpeg2000(fp.read(HEADER))
    except (OSError, struct.error):
        return None
    finally:
        fp.seek(position)


def holding_bits(values: NDArray[np.uint16], declared: int | None, form: str | None) -> int | None:
    """Return the bits to scale these values by if the file of this format declares them, else None.

    PNG wants few bits at the top of 16, so that the range is whole; only where values show that they
    lie at the bottom are they scaled by the bits declared. Pillow brings JPEG 2000 to 16 bits itself.
    A declaration that the values exceed is false.
    """
    if declared is None:
        return None
    if form == "JPEG2000":
        return FULL if declared < FULL else None
    exceeded = int(values.max()) >> declared > 0
    if form == "PNG":
        low = (values & ((1 << (FULL - declared)) - 1)).any()
        return declared if low and not exceeded else FULL
    return None if exceeded else declared


def to_eight_bits(values: NDArray[np.uint16], bits: int) -> NDArray[np.uint8]:
    """Return 0 .. 2^bits - 1 as 0 .. 255, rounded; what is above is white."""
    top = (1 << bits) - 1
    scaled = np.minimum(values, top).astype(np.uint32)
    scaled *= 510
    scaled += top
    scaled //= 2 * top
    return scaled.astype(np.uint8)


def bits_for(most: int) -> int:
    """Return the fewest bits, of 8 to 16, that hold values up to ``most``; all 16 where there are none."""
    return max(FEWEST, most.bit_length()) if most else FULL


def _bits_of_tiff(image: Image.Image) -> int | None:
    tags = getattr(image, "tag_v2", {})
    sample = _first(tags.get(BITS_PER_SAMPLE))
    if sample is not None and sample < FULL:
        return int(sample)
    for tag in HIGHEST_VALUES:
        highest = _first(tags.get(tag))
        for bits in range(1, FULL):
            if highest == (1 << bits) - 1:
                return bits
    return None


def _first(value: object) -> float | None:
    if isinstance(value, tuple):
        value = value[0] if value else None
    return value if isinstance(value, int | float) else None


def _bits_of_png(fp: IO[bytes]) -> int | None:
    """Return what the chunk sBIT says, which stands before the pixels."""
    fp.seek(8)
    for _ in range(CHUNKS):
        length, kind = struct.unpack(">I4s", fp.read(8))
        if kind == b"sBIT" and length:
            (bits,) = struct.unpack("B", fp.read(1))
            return bits if 1 <= bits <= FULL else None
        if kind in (b"IDAT", b"IEND"):
            return None
        fp.seek(length + 4, 1)
    return None


def _bits_of_jpeg2000(header: bytes) -> int | None:
    start = header.find(CODESTREAM)
    if start < 0 or len(header) <= start + PRECISION_AT:
        return None
    return (header[start + PRECISION_AT] & 0x7F) + 1
