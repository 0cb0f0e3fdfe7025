"""A process that makes the copy of a large table ready for searching, while another one answers."""

import os
import sys
from pathlib import Path

from bayestriplet.retrieval.lance import LanceStore

NICE = 10  # whoever answers requests goes first


def main(uri: str, folder: str, copies: str) -> None:
    """Make the copy of a LanceDB table's last version, unless there is one by then."""
    if hasattr(os, "nice"):
        os.nice(NICE)
    LanceStore(uri, Path(folder) if folder else None, Path(copies)).prepare()


if __name__ == "__main__":
    main(*sys.argv[1:])
