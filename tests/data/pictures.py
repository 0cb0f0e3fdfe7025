"""Image files for tests, small and made on the spot."""

import io
import struct
import zlib

import numpy as np
from PIL import Image


def noise(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def save_picture(path, *shape, seed=0, **options):
    """Write noise of shape (h, w) or (h, w, 3)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(noise(*(shape or (12, 12, 3)), seed=seed)).save(path, **options)
    return path


def make_folder(root, counts, shape=(12, 12, 3)):
    """Write ``counts[class]`` PNG files into a folder a class."""
    for number, (name, count) in enumerate(counts.items()):
        for i in range(count):
            save_picture(root / name / f"{i}.png", *shape, seed=1000 * number + i)
    return root


def save_deep(path, values, sbit=None, **options):
    """Write 16-bit values (h, w) as they are; ``sbit`` adds the chunk that a PNG declares its bits with."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.asarray(values, dtype=np.uint16)).save(path, **options)
    if sbit is not None:
        content = path.read_bytes()
        chunk = b"sBIT" + bytes([sbit])
        added = struct.pack(">I", 1) + chunk + struct.pack(">I", zlib.crc32(chunk))
        path.write_bytes(content[:33] + added + content[33:])  # behind the signature and IHDR
    return path


def ramp(bits, side=64):
    """Return every value of 0 .. 2^bits - 1, as evenly as side x side pixels hold them."""
    return np.rint(np.linspace(0, 2**bits - 1, side * side)).astype(np.uint16).reshape(side, side)


def jpeg2000(values, bits, boxed=True):
    """Return a JPEG 2000 file of values (h, w) that declares a precision of ``bits``.

    Pillow writes 16 bits alone. The declared precision is only the offset that the decoder adds, so a
    file of 16 bits whose values have the difference of both offsets added is one of fewer bits.
    """
    out = io.BytesIO()
    shifted = np.asarray(values, dtype=np.uint16) + np.uint16(2**15 - 2 ** (bits - 1))
    Image.fromarray(shifted).save(out, "JPEG2000", no_jp2=not boxed, irreversible=False)
    content = bytearray(out.getvalue())
    content[content.index(b"\xff\x4f\xff\x51") + 42] = bits - 1  # Ssiz
    if boxed:
        content[content.index(b"ihdr") + 14] = bits - 1
    return bytes(content)
