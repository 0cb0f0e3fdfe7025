"""Decoding of one image file into pixels, and what can be wrong with it."""

import io
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError, features

from bayestriplet.data.bounds import scan_problem, size_problem
from bayestriplet.data.depth import FULL, declared_bits, holding_bits, is_deep, to_eight_bits
from bayestriplet.data.digests import digest_of
from bayestriplet.errors import DataError

SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".webp", ".jp2", ".j2k")
FORMATS = ("PNG", "JPEG", "TIFF", "BMP", "WEBP", "JPEG2000")
OPTIONAL = {"WEBP": ("webp", "WebP"), "JPEG2000": ("jpg_2000", "JPEG 2000")}
"""Formats that Pillow can be built without: its name of the feature, and ours."""
LARGE = 16_000_000  # pixels above which a JPEG file is decoded at a reduced size, where that is asked for
REDUCED = 2048  # pixels a side that it has then at least
TOO_MUCH_MEMORY = "takes too much memory to decode"
BAND = 256  # rows that are laid on white at a time


@dataclass(frozen=True)
class Inspection:
    """What a file holds, or the one problem it has."""

    problem: str | None = None
    width: int = 0
    height: int = 0
    mode: str = ""
    """As stored, in Pillow's words."""
    grey: bool = False
    most: int = 0
    """The highest value stored in a 16-bit file that does not declare its bits."""
    digest: int = 0
    """Of the decoded pixels; of the stored values where these have 16 bits."""


@dataclass(frozen=True)
class _Loaded:
    """A decoded image in mode L or RGB, and what its file was like."""

    image: Image.Image
    mode: str
    values: NDArray[np.uint16] | None = None
    """(H, W) as stored, of a 16-bit file."""
    most: int = 0


class _BadImageError(Exception):
    """Carries the problem of a file, as a phrase that follows its name."""


def decode(path: Path, size: int, channels: int, *, bits: int = FULL) -> NDArray[np.uint8]:
    """Return the image (size, size, channels): the shorter side resized to ``size``, then the centre.

    Transparency is laid on white and the camera's orientation is applied. Grey of 16 bits is scaled to
    8 by the bits that the file declares, or else by ``bits``: 2^bits - 1 is white.
    """
    return shape_image(load_listed(path, bits=bits), size, channels)


def load_listed(path: Path, *, bits: int = FULL) -> Image.Image:
    """Return the whole image of a file of a set; the error of a bad one says what can be done."""
    try:
        return load_image(path, bits=bits)
    except DataError as bad:
        raise DataError(f"{bad}; replace or remove it, or leave such files out with --skip-bad") from None


def decode_one(
    path: Path, size: int, channels: int, *, bits: int = FULL, invert: bool = False
) -> NDArray[np.uint8]:
    """Return an image as :func:`decode` does; the error of a bad one says what it is, and no more."""
    return exchange(shape_image(load_image(path, bits=bits), size, channels), invert)


def exchange(pixels: NDArray[np.uint8], invert: bool) -> NDArray[np.uint8]:
    """Return pixels with dark and light exchanged, if asked for."""
    return np.uint8(255) - pixels if invert else pixels


def load_image(path: Path, *, bits: int = FULL) -> Image.Image:
    """Return the whole image of a file, upright, in mode L or RGB; a very large JPEG at a reduced size."""
    try:
        return _load(path, bits, reduce=True).image
    except _BadImageError as bad:
        raise DataError(f"{path} {bad}") from None


def decode_bytes(
    content: bytes, size: int, channels: int, *, bits: int = FULL, invert: bool = False
) -> NDArray[np.uint8]:
    """Return the image that the content of a file is, as :func:`decode_one` does."""
    return exchange(shape_image(load_bytes(content, bits=bits), size, channels), invert)


def load_bytes(content: bytes, *, bits: int = FULL) -> Image.Image:
    """Return the whole image that the content of a file is, as :func:`load_image` does."""
    try:
        return _load(io.BytesIO(content), bits, reduce=True).image
    except _BadImageError as bad:
        raise DataError(f"the file {bad}") from None


def shape_pixels(pixels: NDArray[np.uint8], size: int, channels: int) -> NDArray[np.uint8]:
    """Return pixels (H, W), (H, W, 1) or (H, W, 3) as (size, size, channels), as a file of them would be."""
    grey = pixels.ndim == 3 and pixels.shape[2] == 1
    return shape_image(Image.fromarray(pixels[..., 0] if grey else pixels), size, channels)


def to_unit(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return pixels (b, H, W, C) in 0 .. 1, the range that encoders take."""
    return pixels.astype(np.float32) / np.float32(255)


def shape_image(image: Image.Image, size: int, channels: int) -> NDArray[np.uint8]:
    """Return a decoded image as (size, size, channels); one of that size keeps its pixels exactly."""
    mode = "L" if channels == 1 else "RGB"
    image = image if image.mode == mode else image.convert(mode)
    # fit() crops and resizes in one step, so that a long thin image never becomes a huge one on the way.
    image = ImageOps.fit(image, (size, size), method=Image.Resampling.BICUBIC)
    return np.asarray(image, dtype=np.uint8).reshape(size, size, channels)


def shape_opened(
    image: Image.Image, size: int, channels: int, *, bits: int = FULL, invert: bool = False
) -> NDArray[np.uint8]:
    """Return an image that the caller has opened with Pillow, as :func:`decode_one` returns a file."""
    try:
        upright = ImageOps.exif_transpose(image)
        found = _load_deep(upright, None, None, bits).image if is_deep(image) else _convert(upright)
    except (_BadImageError, OSError, ValueError) as bad:
        raise DataError(f"the image {bad}") from None
    return exchange(shape_image(found, size, channels), invert)


def is_opened(given: object) -> bool:
    """Whether this is an image of Pillow, which is not imported to know it."""
    return hasattr(given, "convert") and hasattr(given, "getbands")


def problem(path: Path) -> str | None:
    """Return what is wrong with a file as a phrase ("is truncated"), or None; it is decoded entirely."""
    return inspect(path).problem


def inspect(path: Path) -> Inspection:
    """Decode a file entirely and return what it holds."""
    try:
        found = _load(path)
    except _BadImageError as bad:
        return Inspection(problem=str(bad))
    image = found.image
    digest = digest_of(np.asarray(image) if found.values is None else found.values)
    return Inspection(None, image.width, image.height, found.mode, image.mode == "L", found.most, digest)


def _load(file: Path | io.BytesIO, bits: int = FULL, *, reduce: bool = False) -> _Loaded:
    """Decode a file."""
    try:
        if (file.stat().st_size if isinstance(file, Path) else len(file.getbuffer())) == 0:
            raise _BadImageError("is empty")
        with Image.open(file, formats=FORMATS) as image:
            _check_header(image, file)
            declared = declared_bits(image)
            if reduce and image.width * image.height > LARGE:
                image.draft(None, (REDUCED, REDUCED))  # only JPEG can
            image.load()
            form = image.format
            ImageOps.exif_transpose(image, in_place=True)
            if is_deep(image):
                return _load_deep(image, form, declared, bits)
            return _Loaded(_convert(image), image.mode)
    except _BadImageError:
        raise
    except UnidentifiedImageError:
        raise _BadImageError(_foreign_problem(file)) from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise _BadImageError(size_problem(*_stored_size(file)) or "is not an image") from None
    except MemoryError:
        raise _BadImageError(TOO_MUCH_MEMORY) from None
    except Exception as error:  # a decoder given hostile bytes may raise anything; each is a bad file
        raise _BadImageError(_phrase(error)) from None


def _check_header(image: Image.Image, file: Path | io.BytesIO) -> None:
    """Refuse what must not be decoded, before any of it is."""
    if problem := size_problem(*image.size):
        raise _BadImageError(problem)
    if image.format in ("JPEG", "MPO") and (problem := scan_problem(file)):
        raise _BadImageError(problem)
    if image.format in OPTIONAL:
        _check_build(image.format)
    if image.format == "TIFF":
        if _has_second_page(image):
            raise _BadImageError("has more than one page")
    # Phones store a preview or a depth map behind the photo (MPO): there the first frame is the photo.
    elif image.format != "MPO" and (frames := getattr(image, "n_frames", 1)) > 1:
        raise _BadImageError(f"is animated ({frames} frames)")


def _check_build(form: str) -> None:
    """Refuse a format that this build of Pillow lacks the library for."""
    feature, name = OPTIONAL[form]
    if not features.check(feature):
        raise _BadImageError(
            f"is {name}, which this build of Pillow cannot read; install another or convert the file"
        )


def _foreign_problem(file: Path | io.BytesIO) -> str:
    """Return what is wrong with a file that Pillow does not know: WebP may be what it lacks."""
    if isinstance(file, Path):
        with file.open("rb") as opened:
            start = opened.read(16)
    else:
        start = bytes(file.getbuffer()[:16])
    if start.startswith(b"RIFF") and start[8:12] == b"WEBP":
        _check_build("WEBP")
    return "is not an image"


def _has_second_page(image: Image.Image) -> bool:
    """Whether there is a page to turn to; counting them all takes long for a file of very many."""
    try:
        image.seek(1)
    except EOFError:
        return False
    return True


def _stored_size(file: Path | io.BytesIO) -> tuple[int, int]:
    """Return the size in the header of a file too large for ``Image.open``, which does not say."""
    for form in FORMATS:
        plugin = Image.OPEN[form][0]
        try:
            if isinstance(file, io.BytesIO):
                file.seek(0)
            with plugin(file, "") as image:  # type: ignore[arg-type]
                return image.size
        except (Image.DecompressionBombError, Image.DecompressionBombWarning):
            raise _BadImageError("has more than 64 million pixels") from None  # WebP refuses by itself
        except (SyntaxError, ValueError, OSError):
            continue
    raise _BadImageError("is not an image")


def _phrase(error: Exception) -> str:
    reason = str(error).split("\n")[0]
    if isinstance(error, EOFError | struct.error) or "truncated" in reason.lower():
        return "is truncated"
    if isinstance(error, OSError) and error.strerror:
        reason = error.strerror
    return f"cannot be read: {reason or type(error).__name__}"


def _load_deep(image: Image.Image, form: str | None, declared: int | None, bits: int) -> _Loaded:
    """Return an upright image of more than 8 bits, out of a file of this format, with 8."""
    values = np.clip(np.asarray(image), 0, 65535).astype(np.uint16)
    own = holding_bits(values, declared, form)
    eight = Image.fromarray(to_eight_bits(values, own or bits))
    return _Loaded(eight, image.mode, values, 0 if own else int(values.max()))


def _convert(image: Image.Image) -> Image.Image:
    """Return an upright image of 8 bits or fewer in mode L or RGB."""
    if image.mode in ("I", "F"):
        kind = "32-bit" if image.mode == "I" else "floating-point"
        raise _BadImageError(f"has {kind} pixels; convert it to 8 or 16 bits")
    grey = image.mode in ("1", "L", "LA", "La") or _has_grey_palette(image)
    if image.has_transparency_data:
        image = _lay_on_white(image)
    elif image.mode not in ("L", "RGB"):
        image = image.convert("RGB")
    return image.convert("L") if grey and image.mode != "L" else image


def _lay_on_white(image: Image.Image) -> Image.Image:
    """Return an image without transparency, a band at a time: whole images of four channels are large."""
    plain = Image.new("RGB", image.size)
    for top in range(0, image.height, BAND):
        box = (0, top, image.width, min(top + BAND, image.height))
        over = image.crop(box).convert("RGBA")
        white = Image.new("RGBA", over.size, "white")
        plain.paste(Image.alpha_composite(white, over).convert("RGB"), box)
    return plain


def _has_grey_palette(image: Image.Image) -> bool:
    if image.mode != "P":
        return False
    palette = np.asarray(image.getpalette("RGB") or [0, 0, 0]).reshape(-1, 3)
    return bool((palette == palette[:, :1]).all())
