"""Where the processes of one training leave signs of life, and the first failure of any of them."""

import json
import os
import threading
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from bayestriplet import errors
from bayestriplet.errors import BayesTripletError, ProcessError, last_line

if TYPE_CHECKING:
    from torch.distributed import Store  # type: ignore[attr-defined]

FOLDER = "BAYESTRIPLET_BOARD"
"""Environment variable with the folder of the processes that the first one has started."""

READY, LEFT = "ready", "left"


@dataclass(frozen=True)
class Failure:
    """What ended a training on one of its processes."""

    rank: int
    kind: str
    """Name of the error's class."""
    message: str

    @classmethod
    def of(cls, rank: int, error: BaseException) -> "Failure":
        """Describe an error on this process."""
        return cls(rank, type(error).__name__, last_line(error))

    def error(self) -> BayesTripletError:
        """Return the error as this process would have raised it."""
        kind = getattr(errors, self.kind, None)
        if isinstance(kind, type) and issubclass(kind, BayesTripletError):
            return kind(self.message)
        return ProcessError(f"the process of rank {self.rank} failed: {self.message}")


class Board(Protocol):
    """A place that all processes can read and write at any time."""

    def post(self, failure: Failure) -> bool:
        """Leave a failure; tell whether it is the first."""

    def read(self) -> Failure | None:
        """Return the first failure."""

    def beat(self, rank: int) -> None:
        """Leave a sign of life."""

    def mark(self, rank: int, what: str) -> None:
        """Say that a process is READY, or has LEFT because it has done its part."""

    def pulse(self, rank: int) -> int:
        """Return a number that changes with every sign of life; 0 before the first."""

    def has(self, rank: int, what: str) -> bool:
        """Whether a process has said so."""


class FolderBoard:
    """A folder on the machine on which all processes run; it may be removed at any time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def post(self, failure: Failure) -> bool:
        """Leave a failure, complete from the moment it can be seen."""
        own = self.folder / f"failure-{os.getpid()}-{threading.get_ident()}"
        try:
            own.write_text(json.dumps(asdict(failure)))
            os.link(own, self.folder / "failure")
        except OSError:  # there is one, or the folder is gone
            return False
        finally:
            own.unlink(missing_ok=True)  # it shares its content with the link
        return True

    def read(self) -> Failure | None:
        """Return the first failure."""
        with suppress(OSError):
            return Failure(**json.loads((self.folder / "failure").read_text()))
        return None

    def beat(self, rank: int) -> None:
        """Leave a sign of life: the time of a file."""
        with suppress(OSError):
            (self.folder / f"beat-{rank}").touch()

    def mark(self, rank: int, what: str) -> None:
        """Say how far a process is."""
        with suppress(OSError):
            (self.folder / f"{what}-{rank}").touch()

    def pulse(self, rank: int) -> int:
        """Return the time of the latest sign of life."""
        with suppress(OSError):
            return (self.folder / f"beat-{rank}").stat().st_mtime_ns
        return 0

    def has(self, rank: int, what: str) -> bool:
        """Whether a process has said so."""
        return (self.folder / f"{what}-{rank}").exists()


class StoreBoard:
    """The store of torchrun, which every process of every machine can reach."""

    def __init__(self, store: "Store") -> None:
        self.store = store

    def post(self, failure: Failure) -> bool:
        """Leave a failure; only the first one stays."""
        text = json.dumps(asdict(failure))
        return bool(self.store.compare_set("failure", "", text) == text.encode())

    def read(self) -> Failure | None:
        """Return the first failure."""
        if not self.store.check(["failure"]):
            return None
        return Failure(**json.loads(self.store.get("failure")))

    def beat(self, rank: int) -> None:
        """Leave a sign of life: a count."""
        self.store.add(f"beat/{rank}", 1)

    def mark(self, rank: int, what: str) -> None:
        """Say how far a process is."""
        self.store.set(f"{what}/{rank}", "1")

    def pulse(self, rank: int) -> int:
        """Return the number of signs of life."""
        return int(self.store.add(f"beat/{rank}", 0))

    def has(self, rank: int, what: str) -> bool:
        """Whether a process has said so."""
        return bool(self.store.check([f"{what}/{rank}"]))


def find_board() -> Board | None:
    """Return the board of a process that was started by the first one or by torchrun; None for others."""
    if FOLDER in os.environ:
        return FolderBoard(Path(os.environ[FOLDER]))
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return None
    import torch.distributed as dist

    store = dist.TCPStore(  # type: ignore[attr-defined]
        os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False
    )
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return StoreBoard(dist.PrefixStore(f"bayestriplet/{attempt}", store))  # type: ignore[attr-defined]
