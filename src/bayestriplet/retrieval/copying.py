"""A process that makes the copy of a large table ready for searching, while another one answers."""

import subprocess
import sys
from pathlib import Path

NICE = 10  # whoever answers requests goes first


def copy_apart(uri: str, folder: Path | None, copies: Path) -> None:
    """Have another process make the copy of a LanceDB table's last version; that it cannot is no error."""
    command = [
        sys.executable,
        "-P",
        "-m",
        "bayestriplet.retrieval.copying",
        uri,
        str(folder or ""),
        str(copies),
    ]
    nothing = subprocess.DEVNULL
    subprocess.run(command, stdin=nothing, stdout=nothing, stderr=nothing, check=False)  # noqa: S603


def main(uri: str, folder: str, copies: str) -> None:
    """Make the copy, unless there is one by then."""
    import os

    from bayestriplet.retrieval.lance import LanceStore

    if hasattr(os, "nice"):
        os.nice(NICE)
    LanceStore(uri, Path(folder) if folder else None, Path(copies)).prepare()


if __name__ == "__main__":
    main(*sys.argv[1:])
