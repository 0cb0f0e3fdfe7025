"""Connections that ask for nothing are closed, and make room for others before there are too many."""

import logging
import time
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from bayestriplet.service.logs import log

PAUSE = 10.0  # seconds without a whole request after which a connection is closed
LONGEST = 30  # such pauses that an answer may take to be sent and read
MOST_OPEN = 512  # connections; for a further one the one is closed that has waited longest for its client
QUIET = 60.0  # seconds between two lines of the log about refused connections
ANSWER = 3
REFUSALS = ("socket.accept() out of system resource",)


class RarelyLogged(logging.Filter):
    """Lets one line about refused connections pass in a minute."""

    def __init__(self) -> None:
        super().__init__()
        self.last = -QUIET

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is logged."""
        return not record.getMessage().startswith(REFUSALS) or self.is_due()

    def is_due(self) -> bool:
        """Return whether a line may be logged now, which counts as one."""
        if time.monotonic() - self.last < QUIET:
            return False
        self.last = time.monotonic()
        return True


RARELY = RarelyLogged()


class BoundedConnection(H11Protocol):
    """A connection that is looked at every few seconds, and closed if nothing has come of it."""

    def connection_made(self, transport: Any) -> None:
        """Begin, unless there are too many."""
        super().connection_made(transport)
        self._since = self.loop.time()
        self._looked_at: object = None
        self._looks = 0
        self._timer = self.loop.call_later(PAUSE, self._look)
        if len(self.connections) > MOST_OPEN:
            if RARELY.is_due():
                log.warning("connections refused", extra={"open": len(self.connections)})
            others = (
                one for one in self.connections if isinstance(one, BoundedConnection) and one is not self
            )
            waiting = [one for one in others if one.expects < ANSWER]
            min(waiting, key=lambda one: (one.expects, one._since), default=self).transport.abort()

    @property
    def expects(self) -> int:
        """What comes next: a first request, another one, the rest of a request, or the ANSWER."""
        if self.cycle is None:
            return 0
        if self.cycle.response_complete:
            return 1
        return 2 if self.cycle.more_body else ANSWER

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._timer.cancel()
        super().connection_lost(exc)

    def _look(self) -> None:
        """Close if there is no request, or the same one for too long."""
        idle = self.cycle is None or self.cycle.response_complete
        self._looks = self._looks + 1 if self.cycle is self._looked_at else 0
        if (idle and (self.cycle is None or self._looks)) or self._looks >= LONGEST:
            self.transport.abort()
            return
        self._looked_at = self.cycle
        self._timer = self.loop.call_later(PAUSE, self._look)


def limit_log() -> None:
    """Have refused connections logged once a minute, not once each."""
    for name in ("uvicorn.error", "asyncio"):
        logging.getLogger(name).addFilter(RARELY)
