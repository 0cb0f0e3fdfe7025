"""The picture of an indexed item: its file, as long as that still shows what was indexed."""

from http import HTTPStatus
from pathlib import Path

from bayestriplet.data.images import exchange, load_image, shape_image
from bayestriplet.data.thumbnails import make_picture
from bayestriplet.errors import DataError
from bayestriplet.retrieval.encoder import OnnxEncoder
from bayestriplet.retrieval.indexing import hash_pixels
from bayestriplet.retrieval.items import Item
from bayestriplet.service.refusals import RefusalError

LARGEST = 1024  # pixels a side


def read_picture(item: Item, encoder: OnnxEncoder) -> bytes:
    """Return the file of an item as PNG or JPEG of at most 1024 pixels a side.

    The file is decoded and written anew, and only if its pixels are those that were indexed:
    whatever has come to lie at its path meanwhile is not served.
    """
    path = Path(item.path)
    if not path.is_file():
        raise RefusalError(
            HTTPStatus.GONE,
            f"the image file of {item.id} is no longer where it was indexed; the thumbnail is kept",
        )
    try:
        image = load_image(path, bits=encoder.info.bits)
    except DataError:
        raise RefusalError(HTTPStatus.GONE, f"the image file of {item.id} can no longer be read") from None
    pixels = shape_image(image, encoder.size, encoder.channels)
    if item.hash not in (hash_pixels(pixels), hash_pixels(exchange(pixels, True))):  # as it was indexed
        raise RefusalError(HTTPStatus.GONE, f"the image file of {item.id} has changed since; index it again")
    return make_picture(image, LARGEST)
