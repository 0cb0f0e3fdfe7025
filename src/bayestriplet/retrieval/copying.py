"""A process that makes the copy of a large table ready for searching, while another one answers."""

import sys
from pathlib import Path

from bayestriplet.priority import let_others_go_first
from bayestriplet.retrieval.lance import LanceStore


def main(uri: str, folder: str, copies: str) -> None:
    """Make the copy of a LanceDB table's last version, unless there is one by then."""
    let_others_go_first()
    LanceStore(uri, Path(folder) if folder else None, Path(copies)).prepare()


if __name__ == "__main__":
    main(*sys.argv[1:])
