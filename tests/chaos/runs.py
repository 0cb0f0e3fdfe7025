"""A small run with an index, to be treated badly."""

from dataclasses import dataclass
from pathlib import Path

from tests.chaos.commands import OPTIONS, run


@dataclass(frozen=True)
class Made:
    run: Path
    scans: Path


def make_run(folder, scans=200):
    """Train on digits, and index some of them as files."""
    from tests.service.servers import fill_folder

    folder.mkdir(parents=True, exist_ok=True)
    made = Made(folder / "run", fill_folder(folder / "scans", range(scans)))
    steps = ("--max-steps", "150", "--validate-every", "75", "--lr", "0.003")
    for arguments in (
        ("train", "digits", *OPTIONS, *steps, "--out", made.run),
        ("index", made.run, made.scans),
    ):
        done = run(*arguments)
        assert done.returncode == 0, done.stderr
    return made
