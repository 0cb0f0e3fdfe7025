"""Making the copy of a large table ready for searching in another process, while this one answers."""

import subprocess
import sys
from pathlib import Path

COPIER = "bayestriplet.retrieval.copier"


def copy_apart(uri: str, folder: Path | None, copies: Path) -> None:
    """Have another process make the copy of a LanceDB table's last version; that it cannot is no error."""
    command = [sys.executable, "-P", "-m", COPIER, uri, str(folder or ""), str(copies)]
    nothing = subprocess.DEVNULL
    subprocess.run(command, stdin=nothing, stdout=nothing, stderr=nothing, check=False)  # noqa: S603
