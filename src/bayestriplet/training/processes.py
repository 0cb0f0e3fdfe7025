"""The processes of one training: started together, watched, and ended together."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from bayestriplet.errors import BayesTripletError, ProcessError
from bayestriplet.posterior.distributed import RefusedElsewhereError
from bayestriplet.training.board import FOLDER, LEFT, READY, FolderBoard, find_board
from bayestriplet.training.watching import FIRST, TICK, Watcher

if TYPE_CHECKING:
    from lightning.fabric.plugins.environments.cluster_environment import ClusterEnvironment
    from lightning.pytorch import Trainer

VERDICT = 5.0  # seconds after which an error of the communication is not explained by anyone's failure
CONTACT = re.compile(r"gloo|nccl|connection (closed|reset)|broken pipe|timed out|socket", re.IGNORECASE)
Conclude = Callable[[BaseException], BaseException]

_joined: list[Watcher] = []  # the watcher of a process that was started to train


def own_rank() -> tuple[int, int]:
    """Return how many processes there are and which one this is, of a process started as one of several."""
    return int(os.environ["WORLD_SIZE"]), int(os.environ.get("RANK", os.environ.get("LOCAL_RANK", 0)))


@contextmanager
def sharing_failures() -> Iterator[None]:
    """End all processes of a training with one line when this one fails; alone it changes nothing.

    The line is printed by the first process, which has started the others; under torchrun by the first to
    fail. The others end in silence, with exit code 1.
    """
    board = find_board() if "LOCAL_RANK" in os.environ and "WORLD_SIZE" in os.environ else None
    if board is None:
        yield
        return
    world, rank = own_rank()
    watcher = Watcher(board, rank, world).start()
    _joined.append(watcher)
    try:
        yield
        board.mark(rank, LEFT)
    except (BayesTripletError, OSError) as error:
        watcher.post(error)
        if watcher.speaks:
            raise
        raise SystemExit(1) from None
    except Exception as error:
        watcher.post(error)
        raise
    finally:
        _joined.remove(watcher)
        watcher.stop()


@contextmanager
def training_together(trainer: "Trainer", conclude: Conclude) -> Iterator[None]:
    """Train on all processes: start those that are not there, wait for them, and fail with any of them.

    ``conclude`` writes down how the run ended, and returns the error to show.
    """
    from lightning.pytorch.strategies import ParallelStrategy

    if not isinstance(trainer.strategy, ParallelStrategy) or trainer.strategy.cluster_environment is None:
        yield
        return
    world, environment = trainer.world_size, trainer.strategy.cluster_environment
    if environment.creates_processes_externally:
        with _outlasting_torchrun(), _explaining(_joined[0] if _joined else None, conclude):
            yield
        return
    folder = Path(tempfile.mkdtemp(prefix="bayestriplet-"))
    with _environment(world, environment, folder):
        watcher = Watcher(FolderBoard(folder), FIRST, world, _start_others(world)).start()
        try:
            with _explaining(watcher, conclude):
                yield
            watcher.board.mark(FIRST, LEFT)
        except BaseException:
            watcher.end_children()
            raise
        finally:
            watcher.stop()
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _outlasting_torchrun() -> Iterator[None]:
    """Let a process say why it ends: torchrun sends SIGTERM to all others as soon as one was killed.

    During the steps the training handles the signal itself, until its end is explained.
    """
    if threading.current_thread() is not threading.main_thread():  # others cannot handle signals
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGTERM, before)


@contextmanager
def _explaining(watcher: Watcher | None, conclude: Conclude) -> Iterator[None]:
    """Turn errors of the communication into the failure that caused them, on whichever process it was."""
    if watcher is None:  # started by neither: what is known of the others is the communication's timeout
        yield
        return
    watcher.conclude = conclude
    try:
        _wait_for_all(watcher)
        yield
    except BayesTripletError as error:
        if (
            isinstance(error, ProcessError | RefusedElsewhereError)
            and watcher.known.wait(VERDICT)
            and watcher.failure is not None
        ):
            raise watcher.failure.error() from None
        watcher.post(error)
        raise
    except RuntimeError as error:
        if watcher.known.wait(VERDICT) and watcher.failure is not None:
            raise watcher.failure.error() from None
        if not CONTACT.search(str(error)):
            watcher.post(error)
            raise
        lost = ProcessError("the contact with another process was lost")
        raise watcher.post(lost).error() from None


def _wait_for_all(watcher: Watcher) -> None:
    """Wait until every process is there, however long it takes to read the data; or until one has failed."""
    watcher.board.mark(watcher.rank, READY)
    missing = set(range(watcher.world))
    while missing:
        if watcher.known.wait(TICK) and watcher.failure is not None:
            raise watcher.failure.error()
        missing -= {rank for rank in missing if watcher.board.has(rank, READY)}


@contextmanager
def _environment(world: int, environment: "ClusterEnvironment", folder: Path) -> Iterator[None]:
    """Set what the processes know each other by, as long as they train."""
    values = {
        "MASTER_ADDR": environment.main_address,
        "MASTER_PORT": str(environment.main_port),
        "NODE_RANK": str(environment.node_rank()),
        "LOCAL_RANK": str(FIRST),
        "WORLD_SIZE": str(world),
        FOLDER: str(folder),
    }
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            with suppress(KeyError):
                del os.environ[name]
            if value is not None:
                os.environ[name] = value


def _start_others(world: int) -> list[subprocess.Popen[bytes]]:
    """Start this very command again, once per further process."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    script = [str(Path(sys.argv[0]).absolute())] if spec is None else ["-m", spec.name]
    command = [sys.executable, *script, *sys.argv[1:]]
    return [
        subprocess.Popen(command, env=os.environ | {"LOCAL_RANK": str(rank)})  # noqa: S603
        for rank in range(1, world)
    ]
