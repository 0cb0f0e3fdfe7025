"""Running the service until a signal stops it."""

import errno
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from bayestriplet.errors import InputError, MissingDependencyError
from bayestriplet.service.guard import is_loopback
from bayestriplet.service.logs import log, start_logging

GRACE = 5  # seconds that requests may take to end when the server stops
SWITCH = 0.001  # seconds after which a thread at work lets others work
KEEP_ALIVE = 10  # seconds that a connection is kept for a further request
AT_ONCE = 32  # new connections that are taken before requests get their turn again
MOST_WAITING = 2048  # new connections that the system keeps meanwhile
LONGEST_HEAD = 32 * 2**10  # bytes of a request before its body
Announce = Callable[[str, bool], None]


def serve(
    run: Path, *, store: str | None, host: str, port: int, token: str | None, announce: Announce,
    read_only: bool | None = None,
) -> None:  # fmt: skip
    """Serve a run until SIGINT or SIGTERM; ``read_only`` by default where other machines reach it.

    Once it answers, ``announce`` is called with its address and whether there is an index.
    """
    _check(host, port, token)
    listening = _listen(host, port)
    with listening:
        refuses = not is_loopback(host) if read_only is None else read_only
        _run(run, store, listening, token, announce, refuses)


def _run(
    run: Path, store: str | None, listening: socket.socket, token: str | None, announce: Announce,
    read_only: bool,
) -> None:  # fmt: skip
    import uvicorn

    from bayestriplet.service.app import make_app
    from bayestriplet.service.catalogue import Catalogue
    from bayestriplet.service.connections import BoundedConnection, limit_log
    from bayestriplet.service.service import Service

    catalogue = Catalogue(run, store)
    service = Service(catalogue)
    indexed = catalogue.index.store.version() is not None

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            listening.listen(MOST_WAITING)
            announce(_address(listening), indexed)

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            service.stop_soon()
            await super().shutdown(sockets)

    start_logging()
    limit_log()
    sys.setswitchinterval(SWITCH)  # a request changes threads often
    config = uvicorn.Config(
        make_app(catalogue, token, service, read_only), log_config=None, access_log=False,
        server_header=False, backlog=AT_ONCE,
        lifespan="on", timeout_graceful_shutdown=GRACE, timeout_keep_alive=KEEP_ALIVE,
        http=BoundedConnection, h11_max_incomplete_event_size=LONGEST_HEAD,
    )  # fmt: skip
    # The server stops on these signals and raises them again, for whoever was there before: nobody.
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, lambda *_: None)
    Server(config).run(sockets=[listening])
    log.info("stopped")


def _check(host: str, port: int, token: str | None) -> None:
    try:
        import fastapi  # noqa: F401
        import python_multipart  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError("serving needs FastAPI: pip install 'bayestriplet[serve]'") from error
    if not 0 <= port <= 65535:
        raise InputError(f"--port must lie in 0..65535; got {port}")
    if token is not None and (not token or not token.isascii() or not token.isprintable() or " " in token):
        raise InputError("--token must be printable ASCII without spaces, and not empty")
    if token is None and not is_loopback(host):
        raise InputError(
            f"--host {host} can be reached from other machines: --token SECRET is needed, for them to send"
        )


def _listen(host: str, port: int) -> socket.socket:
    """Return a socket of this address, or say why there is none."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise InputError(f"--host {host} is no address of this machine: {error.strerror}") from None
    listening = socket.socket(family, kind, protocol)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(address)
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE:
            raise InputError(f"port {port} of {host} is in use: choose another with --port") from None
        raise InputError(f"port {port} of {host} cannot be used: {error.strerror}") from None
    return listening


def _address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
