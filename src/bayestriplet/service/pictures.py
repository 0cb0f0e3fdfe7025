"""The picture of an indexed item: its file, as long as that still shows what was indexed."""

from http import HTTPStatus
from pathlib import Path

from bayestriplet.data.images import exchange
from bayestriplet.errors import DataError
from bayestriplet.model.info import EncoderInfo
from bayestriplet.retrieval.indexing import hash_pixels
from bayestriplet.retrieval.items import Item
from bayestriplet.service.decoding import Decoders
from bayestriplet.service.refusals import RefusalError

LARGEST = 1024  # pixels a side
MOST_BYTES = 2**28  # of a file


def read_picture(item: Item, info: EncoderInfo, decoders: Decoders) -> bytes:
    """Return the file of an item as PNG or JPEG of at most 1024 pixels a side.

    Another process decodes the file and writes it anew, like an upload. It is served only if its pixels
    are those that were indexed, whatever has come to lie at its path meanwhile.
    """
    path = Path(item.path)
    if not path.is_file():
        raise RefusalError(
            HTTPStatus.GONE,
            f"the image file of {item.id} is no longer where it was indexed; the thumbnail is kept",
        )
    try:
        if path.stat().st_size > MOST_BYTES:
            raise DataError("the file is too large")
        pixels, picture = decoders.picture(path.read_bytes(), info, LARGEST)
    except (DataError, OSError):
        raise RefusalError(HTTPStatus.GONE, f"the image file of {item.id} can no longer be read") from None
    if item.hash not in (hash_pixels(pixels), hash_pixels(exchange(pixels, True))):  # as it was indexed
        raise RefusalError(HTTPStatus.GONE, f"the image file of {item.id} has changed since; index it again")
    return picture
