"""The form that a search is asked with: read under limits, and checked."""

import asyncio
import base64
import binascii
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus

import numpy as np
from numpy.typing import NDArray
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from bayestriplet.checks import nearest
from bayestriplet.errors import InputError
from bayestriplet.retrieval.conditions import FILTERS
from bayestriplet.retrieval.items import Vectors
from bayestriplet.service.questions import SearchOptions
from bayestriplet.service.refusals import RefusalError

MOST_BYTES = 32 * 2**20  # of an upload
LONGEST = 64 * 2**10  # bytes of a field that is no file
PATIENCE = 30.0  # seconds for an upload to arrive
PAUSE = 10.0  # seconds in which nothing more of it arrives
MOST_HELD = 16 * MOST_BYTES  # of all uploads that arrive or are answered at a time
WAYS = ("image", "item", "replay")
FIELDS = (*WAYS, "k", *FILTERS, "exclude_self", "exclude_group")
HASH_BYTES = 16


@dataclass(frozen=True)
class Asked:
    """A checked form: one of image, item and replay is set."""

    options: SearchOptions
    image: bytes | None = None
    name: str = ""
    """Of the image's file, as its sender calls it."""
    item: str | None = None
    replay: str | None = None


class Held:
    """Counts the bytes of all uploads, from when they arrive until they are answered."""

    def __init__(self, most: int = MOST_HELD) -> None:
        self.most, self.total = most, 0

    @contextmanager
    def upload(self) -> Iterator[Callable[[int], None]]:
        """Give a function that adds bytes of one upload, or refuses it; all are given back in the end."""
        own = 0

        def add(number: int) -> None:
            nonlocal own
            if self.total + number > self.most:
                raise RefusalError(HTTPStatus.SERVICE_UNAVAILABLE, "too many uploads at a time; try again")
            own, self.total = own + number, self.total + number

        try:
            yield add
        finally:
            self.total -= own


async def read_search(request: Request, add: Callable[[int], None]) -> Asked:
    """Return what a search asks for; ``add`` is called with the number of bytes as they arrive."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "multipart/form-data":
        raise RefusalError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            "a search is a form (multipart/form-data) with an image, such as `curl -F image=@FILE`",
        )
    limits = {"max_files": 1, "max_fields": 2 * len(FIELDS), "max_part_size": LONGEST}
    parser = MultiPartParser(request.headers, _counted(request, add), **limits)
    parser.spool_max_size = MOST_BYTES + 1  # in memory: nothing that is sent touches the disk
    try:
        async with asyncio.timeout(PATIENCE):
            form = await parser.parse()
    except MultiPartException as error:
        message = f"the form cannot be read: {error.message.rstrip('.').lower()}"
        raise RefusalError(HTTPStatus.BAD_REQUEST, message) from None
    except TimeoutError:
        message = f"the upload paused for {PAUSE:.0f} seconds or took longer than {PATIENCE:.0f}"
        raise RefusalError(HTTPStatus.REQUEST_TIMEOUT, message) from None
    try:
        return await _check(form)
    finally:
        await form.close()


async def _counted(request: Request, add: Callable[[int], None]) -> AsyncGenerator[bytes, None]:
    """Yield the body of a request until it is too large, or pauses."""
    message = f"the upload is larger than {MOST_BYTES // 2**20} MB; shrink the image"
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > MOST_BYTES:
        raise RefusalError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message)
    seen, chunks = 0, request.stream()
    while (chunk := await asyncio.wait_for(anext(chunks, None), PAUSE)) is not None:
        seen += len(chunk)
        add(len(chunk))
        if seen > MOST_BYTES:
            raise RefusalError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message)
        yield chunk


async def _check(form: FormData) -> Asked:
    names = [name for name, _ in form.multi_items()]
    for name in names:
        if name not in FIELDS:
            hint = nearest(name, FIELDS)
            raise InputError(f"there is no field {name[:100]!r}{hint}; the fields are {', '.join(FIELDS)}")
        if names.count(name) > 1:
            raise InputError(f"{name} is given {names.count(name)} times; once is allowed")
        if isinstance(form[name], UploadFile) != (name == "image"):
            raise InputError(f"{name} must be {'a file' if name == 'image' else 'text, not a file'}")
    given = [way for way in WAYS if way in form]
    if len(given) != 1:
        got = " and ".join(given) or "none"
        raise InputError(f"a search needs one of image (a file), item (an id) and replay; got {got}")
    texts = {name: value for name, value in form.items() if isinstance(value, str)}
    options = SearchOptions(
        k=_whole(texts.get("k", "10")),
        where=tuple((field, texts[field]) for field in FILTERS if field in texts),
        exclude_self=_flag(texts.get("exclude_self", "false")),
        exclude_group=texts.get("exclude_group"),
    )
    image = form.get("image")
    if isinstance(image, UploadFile):
        return Asked(options, image=await image.read(), name=_plain(image.filename or "image"))
    return Asked(options, item=texts.get("item"), replay=texts.get("replay"))


def _plain(name: str) -> str:
    """Return the name of a file as text that can be sent back, whatever its sender made of it."""
    return name[:200].encode(errors="replace").decode()


def _whole(text: str) -> int:
    try:
        return int(text[:20])
    except ValueError:
        raise InputError(f"k must be a whole number; got {text[:100]!r}") from None


def _flag(text: str) -> bool:
    if text not in ("true", "false"):
        raise InputError(f"exclude_self must be true or false; got {text[:100]!r}")
    return text == "true"


def write_replay(vector: Vectors, own_hash: str, looks: NDArray[np.float64] | None = None) -> str:
    """Return a query as text that asks the same again: the hash of its pixels, its vector (D,), its looks."""
    content = bytes.fromhex(own_hash).ljust(HASH_BYTES, b"\0") + vector.astype("<f4").tobytes()
    content += b"" if looks is None else looks.astype("<f4").tobytes()
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def read_replay(text: str, dim: int, measures: int) -> tuple[Vectors, str, NDArray[np.float64] | None]:
    """Return the vector (D,), the hash and the looks (F,) of a text that :func:`write_replay` made."""
    try:
        content = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        content = b""
    body = content[HASH_BYTES:]
    numbers = np.frombuffer(body[: len(body) // 4 * 4], "<f4")
    vector, looks = numbers[:dim].astype(np.float32), numbers[dim:].astype(np.float64)
    whole = len(body) in (4 * dim, 4 * (dim + measures))
    if not whole or not np.isfinite(np.square(numbers).sum()):  # what overflows has no distance
        raise InputError("replay must be what an earlier answer of this run gave; this is not, or not whole")
    return vector, content[:HASH_BYTES].hex(), looks if len(looks) else None
