"""Small pictures of items, as bytes that a table can hold."""

import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image

LARGEST = 256  # pixels a side
HEAVIEST = 48 * 1024  # bytes: as base64 it fits into the longest text that Milvus takes
QUALITIES = (85, 70, 50, 30, 10)  # of JPEG, tried until a thumbnail is light enough
PLAIN = 32  # pixels a side up to which PNG is the smaller file, and keeps every pixel


def make_thumbnail(pixels: NDArray[np.uint8]) -> bytes:
    """Return an image (size, size, C) as PNG, or as JPEG where it is large: at most 256 pixels, 48 kB."""
    image = Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
    if image.width > LARGEST:
        image = image.resize((LARGEST, LARGEST), Image.Resampling.BICUBIC, reducing_gap=2.0)
    if image.width <= PLAIN:
        return _to_file(image)
    files = (_to_jpeg(image, quality) for quality in QUALITIES)
    return next((file for file in files if len(file) <= HEAVIEST), b"")


def thumbnail_side(image: Image.Image, size: int) -> int:
    """Return the side of a thumbnail's square: an encoder's ``size``, or more if the image has it."""
    return max(size, min(LARGEST, *image.size))


def make_picture(image: Image.Image, most: int) -> bytes:
    """Return an image in mode L or RGB as the content of a file, shrunk to at most ``most`` pixels a side."""
    if max(image.size) > most:
        image = image.copy()
        image.thumbnail((most, most))
    return _to_file(image)


def picture_type(content: bytes) -> str:
    """Return the media type of what was made here: PNG or JPEG."""
    return "image/png" if content.startswith(b"\x89PNG") else "image/jpeg"


def _to_file(image: Image.Image) -> bytes:
    if max(image.size) > PLAIN:
        return _to_jpeg(image, 90)
    out = io.BytesIO()
    image.save(out, "PNG", compress_level=1)
    return out.getvalue()


def _to_jpeg(image: Image.Image, quality: int) -> bytes:
    out = io.BytesIO()
    image.save(out, "JPEG", quality=quality)
    return out.getvalue()


def read_thumbnail(content: bytes) -> NDArray[np.uint8]:
    """Return the pixels (H, W, C) of a thumbnail."""
    with Image.open(io.BytesIO(content), formats=("PNG", "JPEG")) as image:
        pixels = np.asarray(image, dtype=np.uint8)
    return pixels[..., None] if pixels.ndim == 2 else pixels
