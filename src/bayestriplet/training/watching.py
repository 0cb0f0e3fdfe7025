"""Noticing within seconds that a process of a training has failed, is gone, or does not answer."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from bayestriplet.errors import ProcessError, last_line, reason_of
from bayestriplet.training.board import LEFT, Board, Failure, FolderBoard

TICK = 0.5  # seconds between two looks
SILENT_TICKS = 40  # looks without a sign of life; looks, not time: a suspended computer is no failure
GRACE = 6.0  # seconds in which the training itself can end, after a failure is known
FIRST = 0


class Watcher:
    """A thread in every process that leaves signs of life and looks for failures of the others.

    The first process looks at all others, and they look at the first. When a failure is known, the processes
    that this one has started are killed. The training notices by an error of its communication; where that
    waits for ever, ``conclude`` says what the error becomes, and the process ends.
    """

    def __init__(
        self, board: Board, rank: int, world: int, children: Sequence[subprocess.Popen[bytes]] = ()
    ) -> None:
        self.board, self.rank, self.world, self.children = board, rank, world, list(children)
        self.first_started_all = isinstance(board, FolderBoard)
        self.parent = os.getppid()
        self.failure: Failure | None = None
        self.conclude: Callable[[BaseException], BaseException] = lambda error: error
        self.failed_first = False
        self.known, self.over = threading.Event(), threading.Event()
        self._pulses: dict[int, tuple[int, int]] = {}  # of a rank: what it was, and for how many looks
        self._thread = threading.Thread(target=self._watch, name="watcher", daemon=True)

    @property
    def speaks(self) -> bool:
        """Whether this process prints the failure: the first, or under torchrun who failed first."""
        if not self.first_started_all:
            return self.failed_first
        return self.rank == FIRST or (self.rank == FIRST + 1 and self._is_orphan())

    def _is_orphan(self) -> bool:
        """Whether the first process has started this one, and is gone."""
        return self.rank != FIRST and self.first_started_all and os.getppid() != self.parent

    def start(self) -> "Watcher":
        """Begin to watch."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """End watching, because this process has done its part or has failed."""
        self.over.set()
        if threading.current_thread() is not self._thread:
            self._thread.join(2 * TICK)

    def post(self, error: BaseException) -> Failure:
        """Make an error of this process known to all; return the first failure of any."""
        own = Failure.of(self.rank, error)
        self._declare(own)
        return self.failure or own

    def end_children(self) -> None:
        """Kill the processes that this one has started: they wait for each other, and hold nothing."""
        for child in self.children:
            with suppress(OSError):
                child.kill()
        for child in self.children:
            child.wait()

    def _declare(self, failure: Failure) -> None:
        try:
            is_first = self.board.post(failure)
            self.failure = self.board.read() or failure
        except RuntimeError:  # the store is gone
            is_first, self.failure = True, failure
        self.failed_first = self.failed_first or is_first
        self.known.set()

    def _watch(self) -> None:
        while not self.known.is_set():
            if self.over.wait(TICK):
                return
            self._look()
        self.end_children()
        if self.over.wait(GRACE) or self.failure is None:
            return
        shown = last_line(self.conclude(self.failure.error()))
        if self.speaks:
            print(f"Error: {shown}", file=sys.stderr, flush=True)
        os._exit(1)

    def _look(self) -> None:
        try:
            self.board.beat(self.rank)
            self.failure = self.board.read()
            if self.failure is not None:
                self.known.set()
                return
            self._look_at_children()
            self._look_at_others()
        except RuntimeError as error:
            self._lose(f"torchrun does not answer: {reason_of(error)}")
        if self._is_orphan():
            self._lose("the process of rank 0 was killed")

    def _lose(self, text: str) -> None:
        self._declare(Failure.of(self.rank, ProcessError(text)))

    def _look_at_children(self) -> None:
        for rank, child in enumerate(self.children, start=1):
            code = child.poll()
            if code:  # a failure of its own it has posted before it ended
                ended = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
                self._lose(f"the process of rank {rank} {ended}")

    def _look_at_others(self) -> None:
        for rank in range(1, self.world) if self.rank == FIRST else (FIRST,):
            pulse = self.board.pulse(rank)
            before, looks = self._pulses.get(rank, (0, 0))
            self._pulses[rank] = (pulse, looks + 1 if pulse and pulse == before else 0)
            if self._pulses[rank][1] > SILENT_TICKS and not self.board.has(rank, LEFT):
                self._lose(
                    f"the process of rank {rank} has not answered for {TICK * SILENT_TICKS:.0f} seconds"
                )
