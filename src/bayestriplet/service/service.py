"""What all requests share: queues and threads, apart for what is quick and for what takes a moment."""

import asyncio
import gc
import os
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response

from bayestriplet.data.thumbnails import make_thumbnail
from bayestriplet.errors import InputError
from bayestriplet.retrieval.items import Stored
from bayestriplet.retrieval.live import count_measures
from bayestriplet.service.batching import Batcher
from bayestriplet.service.catalogue import Catalogue, PlacedReply
from bayestriplet.service.decoding import Decoders
from bayestriplet.service.questions import Question
from bayestriplet.service.uploads import Asked, Held, read_replay

BATCH = 32  # queries that go through the encoder together
FEW = 100  # neighbours that are found, and written as JSON, in no time
DECODERS = min(4, os.cpu_count() or 1)  # images that are decoded at a time
WARM_UP = 20.0  # seconds that opening the index may take before the server answers without it
BUSY_GRACE = 1.0  # seconds that images may take to be decoded when the server stops
HasGone = Callable[[], Awaitable[bool]]


class Service:
    """The catalogue, the pools and the queues before them.

    What is quick never stands behind what takes a moment: searches of few neighbours among all items,
    looks into the index and the decoding of images have threads of their own.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self.encoding = ThreadPoolExecutor(1, "encode")
        self.gathering = ThreadPoolExecutor(1, "gather")
        self.reading = ThreadPoolExecutor(DECODERS, "read")
        self.working = ThreadPoolExecutor(DECODERS, "work")
        self.decoding = ThreadPoolExecutor(DECODERS, "decode")
        self.decoders = Decoders(DECODERS)
        self.turns = asyncio.Semaphore(DECODERS)
        self.held = Held()
        self.answers = Batcher(catalogue.answer, self.encoding, BATCH)
        self.long_answers = Batcher(catalogue.answer, self.gathering, BATCH)
        self.items = Batcher(catalogue.find, self.reading, 1000)
        self.thumbnails = Batcher(catalogue.thumbnails, self.reading, 1000)

    async def glance(self, function: Any, *arguments: Any) -> Any:
        """Call something that looks into the index, in the pool for that."""
        return await asyncio.get_running_loop().run_in_executor(self.reading, function, *arguments)

    async def call(self, function: Any, *arguments: Any) -> Any:
        """Call something that takes a moment, such as a lesson or the picture of a file."""
        return await asyncio.get_running_loop().run_in_executor(self.working, function, *arguments)

    async def search(self, asked: Asked, has_gone: HasGone) -> tuple[PlacedReply, bytes | None]:
        """Return the reply, and a thumbnail of the query if it is an image."""
        encoder = self.catalogue.index.encoder
        if asked.image is not None:
            if encoder.info.inputs:
                needs = encoder.info.needs
                raise InputError(f"this run needs {needs}, not images: search from an indexed item")
            pixels, thumbnail = await self.decode(asked.image, has_gone)
            return await self._ask(Question(asked.name, asked.options, pixels=pixels)), thumbnail
        if asked.item is not None:
            stored: Stored = await self.items.ask(asked.item)
            options = asked.options.of_item(stored.item.group)
            question = Question(asked.item, options, vector=stored.vector, hash=stored.item.hash)
        else:
            live = self.catalogue.index.live
            measures = count_measures(None if live is None else live.last)  # this is the event loop
            vector, own, looks = read_replay(asked.replay or "", encoder.dim, measures)
            question = Question("replay", asked.options, vector=vector, hash=own, looks=looks)
        return await self._ask(question), None

    async def decode(self, image: bytes, has_gone: HasGone) -> tuple[NDArray[np.uint8], bytes]:
        """Return the pixels of an upload and a thumbnail, first come first served.

        Whoever has gone when it is their turn is left out: else many who come and go would keep
        the others waiting.
        """
        decode, info = self.decoders.decode, self.catalogue.index.encoder.info
        async with self.turns:
            if await has_gone():
                raise ClientDisconnect
            return await asyncio.get_running_loop().run_in_executor(
                self.decoding, lambda: (found := decode(image, info), make_thumbnail(found))
            )

    async def _ask(self, question: Question) -> PlacedReply:
        """Return the reply; many neighbours, or some items only, are searched beside the others."""
        options = question.options
        is_long = options.k > FEW or options.where or options.exclude_group
        return await (self.long_answers if is_long else self.answers).ask(question)

    async def render(self, function: Any, *arguments: Any) -> Response:
        """Return what a function says as JSON, both made in the pool: others are answered meanwhile."""
        response: Response = await self.call(lambda: JSONResponse(function(*arguments)))
        return response

    async def start(self) -> None:
        """Do what takes a moment, so that no request has to wait for it.

        What is imported by then lives as long as the server: the garbage collector need not look at it,
        which would stop all requests for a quarter of a second every now and then.
        """
        loop = asyncio.get_running_loop()
        work = (self.decoding, self.decoders.warm_up), (self.reading, self.catalogue.warm_up)
        await asyncio.wait([loop.run_in_executor(*one) for one in work], timeout=WARM_UP)
        gc.collect()
        gc.freeze()

    def stop_soon(self) -> None:
        """End the decoding of images in a moment: requests that can be answered by then are."""
        timer = threading.Timer(BUSY_GRACE, self.decoders.close)
        timer.daemon = True
        timer.start()

    def close(self) -> None:
        """End everything that goes on."""
        self.decoders.close()
        self.catalogue.close()
        for pool in (self.encoding, self.gathering, self.reading, self.working, self.decoding):
            pool.shutdown(wait=False, cancel_futures=True)
