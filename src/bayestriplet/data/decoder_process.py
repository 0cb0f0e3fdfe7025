"""A process that decodes images out of untrusted bytes, within limits of time and memory.

It is started with a limit in seconds, and one end of a pair of sockets as its standard input. It says once
that it is ready. A request is a header, then the content of a file; an answer is whether that could be
decoded, and the pixels or the reason. Behind the pixels comes the picture as a new file, if asked for. A
file that takes longer than the limit ends the process, in whatever code it is.
"""

import contextlib
import signal
import socket
import struct
import sys
import warnings

from bayestriplet.data.images import TOO_MUCH_MEMORY, exchange, load_bytes, shape_image
from bayestriplet.data.thumbnails import make_picture
from bayestriplet.errors import DataError

BYTES = 5 * 2**28  # of addresses, the process itself included
REQUEST = struct.Struct(">IIBB?I")  # bytes of the file, size, channels, bits, invert, side of the picture
ANSWER = struct.Struct(">?I")  # whether it is pixels, and bytes that follow
READY = b"\x01"


def main(seconds: float) -> None:
    """Answer until there is nobody to ask; a file may take so many seconds of computing."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this one
    warnings.simplefilter("ignore")  # Pillow warns of odd tags in files it decodes well
    _limit_memory()
    with socket.socket(fileno=0) as line, contextlib.suppress(ConnectionError, EOFError):
        line.sendall(READY)
        while True:
            _answer(line, seconds)


def _answer(line: socket.socket, seconds: float) -> None:
    length, size, channels, bits, invert, most = REQUEST.unpack(receive(line, REQUEST.size))
    content = receive(line, length)
    signal.setitimer(signal.ITIMER_PROF, seconds)  # whose signal ends a process that does not handle it
    try:
        image = load_bytes(bytes(content), bits=bits)
        found = exchange(shape_image(image, size, channels), invert).tobytes()
        found += make_picture(image, most) if most else b""
        decoded = True
    except (DataError, MemoryError) as error:
        found, decoded = str(error).encode() or f"the file {TOO_MUCH_MEMORY}".encode(), False
    signal.setitimer(signal.ITIMER_PROF, 0)
    line.sendall(ANSWER.pack(decoded, len(found)) + found)


def receive(line: socket.socket, length: int) -> bytearray:
    """Return so many bytes; the error of there being fewer is EOFError."""
    content = bytearray(length)
    view = memoryview(content)
    while view:
        got = line.recv_into(view)
        if not got:
            raise EOFError
        view = view[got:]
    return content


def _limit_memory() -> None:
    """Refuse more memory than the limit, where the system can."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
            resource.setrlimit(kind, (BYTES, BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    main(float(sys.argv[1]))
