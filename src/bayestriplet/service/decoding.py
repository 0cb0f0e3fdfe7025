"""Uploads are decoded in processes of their own, which end with what exceeds their limits."""

import math
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bayestriplet.data.decoder_process import ANSWER, READY, REQUEST, receive
from bayestriplet.data.images import TOO_MUCH_MEMORY
from bayestriplet.errors import DataError
from bayestriplet.model.info import EncoderInfo
from bayestriplet.service.refusals import RefusalError

SECONDS = 2.0  # of computing that a file may take
STARTING = 60.0  # seconds that a process may take to be ready
PATIENCE = 10.0  # seconds for an answer, on a busy machine, beyond which the process is ended from here
COMMAND = (sys.executable, "-P", "-m", "bayestriplet.data.decoder_process")
Made = TypeVar("Made")


def _stopping() -> RefusalError:
    return RefusalError(HTTPStatus.SERVICE_UNAVAILABLE, "the server is stopping")


class _EndedError(Exception):
    """A process has ended instead of answering."""


class _Decoder:
    """One process."""

    def __init__(self, seconds: float) -> None:
        self.line, other = socket.socketpair()
        threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        with other:
            self.process = subprocess.Popen(  # noqa: S603
                [*COMMAND, str(seconds)], stdin=other.fileno(), stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, env={**os.environ, **threads},
            )  # fmt: skip
        self.ready = False

    def decode(self, content: bytes, info: EncoderInfo, most: int) -> tuple[NDArray[np.uint8], bytes]:
        """Return the pixels (size, size, C) of a file, and its picture of at most so many pixels a side."""
        shape = (info.size, info.size, info.channels)
        try:
            self.wait_until_ready()
            self.line.settimeout(PATIENCE)
            head = REQUEST.pack(len(content), info.size, info.channels, info.bits, info.invert, most)
            self.line.sendall(head + content)
            decoded, length = ANSWER.unpack(receive(self.line, ANSWER.size))
            found = receive(self.line, length)
        except (OSError, EOFError):
            raise _EndedError from None
        if not decoded:
            raise DataError(found.decode())
        pixels = np.frombuffer(found, np.uint8, math.prod(shape)).reshape(shape)
        return pixels, bytes(found[pixels.size :])

    def wait_until_ready(self) -> None:
        """Return when it has started."""
        if not self.ready:
            self.line.settimeout(STARTING)
            self.ready = receive(self.line, len(READY)) == READY

    def end(self) -> int:
        """End the process; return how it ended."""
        self.process.kill()
        self.line.close()
        return self.process.wait()


class Decoders:
    """At most so many processes, started when they are first needed; any thread may call."""

    def __init__(self, number: int, seconds: float = SECONDS) -> None:
        self.seconds, self.number = seconds, number
        self._free: queue.LifoQueue[_Decoder | None] = queue.LifoQueue()
        for _ in range(number):
            self._free.put(None)
        self._busy: set[_Decoder] = set()
        self._lock = threading.Lock()
        self._is_open = True

    def warm_up(self) -> None:
        """Start all processes, so that the first uploads find them ready."""
        decoders: list[_Decoder] = []
        try:
            for _ in range(self.number):
                decoders.append(self._take())
            for decoder in decoders:
                with suppress(OSError, EOFError):  # whoever uses it is told
                    decoder.wait_until_ready()
        finally:
            for decoder in decoders:
                self._give_back(decoder, keep=True)

    def decode(self, content: bytes, info: EncoderInfo) -> NDArray[np.uint8]:
        """Return the pixels (size, size, C) of a file, or say why there are none."""
        return self._use(lambda decoder: decoder.decode(content, info, 0))[0]

    def picture(self, content: bytes, info: EncoderInfo, most: int) -> tuple[NDArray[np.uint8], bytes]:
        """Return the pixels of a file, and a new file of the whole image, at most ``most`` pixels a side."""
        return self._use(lambda decoder: decoder.decode(content, info, most))

    def _use(self, work: Callable[[_Decoder], Made]) -> Made:
        decoder = self._take()
        keep = True
        try:
            return work(decoder)
        except _EndedError:
            keep = False
            raise self._explain(decoder.end()) from None
        except DataError as error:
            keep = TOO_MUCH_MEMORY not in str(error)
            raise
        finally:
            self._give_back(decoder, keep)

    def _take(self) -> _Decoder:
        """Return a process that nobody else uses."""
        decoder = self._free.get()
        with self._lock:
            if not self._is_open:
                self._free.put(decoder)
                raise _stopping()
            if decoder is None or decoder.process.poll() is not None:
                decoder = _Decoder(self.seconds)
            self._busy.add(decoder)
            return decoder

    def _give_back(self, decoder: _Decoder, keep: bool) -> None:
        with self._lock:
            self._busy.discard(decoder)
            if keep and self._is_open:
                self._free.put(decoder)
            else:
                decoder.end()
                self._free.put(None)

    def _explain(self, code: int) -> Exception:
        """Return why there is no answer, by how the process ended."""
        if not self._is_open:
            return _stopping()
        if code in (-signal.SIGPROF, -signal.SIGKILL):
            return DataError(f"the file takes longer than {self.seconds:g} seconds to decode; shrink it")
        return DataError("the file cannot be read: it broke its decoder")

    def close(self) -> None:
        """End all processes, also those at work; what they worked on is answered with that."""
        with self._lock:
            self._is_open = False
            for decoder in self._busy:
                decoder.process.kill()
            while not self._free.empty():
                if (idle := self._free.get()) is not None:
                    idle.end()
            self._free.put(None)  # whoever waits finds it closed, one after the other
