"""The map of an index: principal axes at once, UMAP as soon as another process has made it."""

import logging
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from bayestriplet.retrieval.items import Stored
from bayestriplet.service.places import Places, Points

MOST_ITEMS = 2000  # drawn as single points
FEWEST_ITEMS = 30  # that are worth a UMAP
NICE = 19  # of the process that makes one

log = logging.getLogger(__name__)


class MapMaker:
    """Makes one map at a time, in a process of its own, and keeps the last one in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._places: Places | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False
        self._lock = threading.Lock()

    def begin(self, version: str, sample: Sequence[Stored]) -> Places | None:
        """Return the places that a version of the index has at once, and begin with better ones.

        None for an empty index. This takes a moment, so it is for the thread that opens a version.
        """
        if not sample:
            return None
        plain = Places.along_principal_axes(version, sample)
        plain = plain.load(self.folder) or plain
        with self._lock:
            self._places = plain
            self._start()
        return plain

    def best(self, plain: Places | None) -> Places | None:
        """Return the best places there are by now of the version that has these."""
        made = self._places
        return made if plain is not None and made is not None and made.version == plain.version else plain

    @property
    def is_working(self) -> bool:
        """Whether better places are on their way."""
        return self._process is not None

    def close(self) -> None:
        """Stop the process, if there is one."""
        with self._lock:
            self._closed = True
            if self._process is not None:
                self._process.kill()

    def _start(self) -> None:
        """Begin with the current places, unless a map is being made or there is no need; the lock is held."""
        places = self._places
        if places is None or places.way == "umap" or len(places.ids) < FEWEST_ITEMS:
            return
        if self._process is not None or self._closed:
            return
        folder = tempfile.TemporaryDirectory(prefix="bayestriplet-map-")
        vectors, points = Path(folder.name) / "vectors.npy", Path(folder.name) / "points.npy"
        np.save(vectors, places.vectors)
        command = [sys.executable, "-P", "-m", "bayestriplet.report.projection", str(vectors), str(points)]
        self._process = subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        if hasattr(os, "setpriority"):  # requests come first
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, self._process.pid, NICE)
        watch = threading.Thread(target=self._finish, args=(self._process, places, folder), daemon=True)
        watch.start()

    def _finish(
        self, process: "subprocess.Popen[bytes]", places: Places, folder: "tempfile.TemporaryDirectory[str]"
    ) -> None:
        """Wait for a map and take it over, if the index is still the same; else begin again."""
        said = process.communicate()[1]
        with folder, self._lock:
            self._process = None
            if self._closed:
                return
            points = _read_points(Path(folder.name) / "points.npy", len(places.ids))
            if points is None:
                reason = (said.decode(errors="replace").strip().splitlines() or ["it was stopped"])[-1]
                log.warning("no UMAP", extra={"reason": reason[:300]})
                return
            better = places.placed(points, "umap")
            better.save(self.folder)
            if self._places is places:
                self._places = better
            else:
                self._start()


def _read_points(path: Path, number: int) -> Points | None:
    try:
        points = np.asarray(np.load(path, allow_pickle=False), np.float32)
    except (OSError, ValueError):
        return None
    return points if points.shape == (number, 2) and np.isfinite(points).all() else None
