"""Examples in docstrings: what they begin with, and a trained run for those that need one."""

import sys
from pathlib import Path

import pytest
from _pytest.doctest import DoctestItem

from tests.exporting import remember_operators

sys.path.insert(0, str(Path(__file__).parent / "docs" / "site"))

NEED_A_RUN = ("bayestriplet.api.", "bayestriplet.retrieval.index")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup():
    """Let all exports of a process but the first be fast."""
    remember_operators()


@pytest.fixture(scope="session")
def example_folder(tmp_path_factory):
    """Make a folder with photos, a query, and a run with an index of the photos."""
    import numpy as np
    from PIL import Image
    from sklearn.datasets import load_digits

    import bayestriplet as bt

    folder, digits = tmp_path_factory.mktemp("examples"), load_digits()
    for label in range(4):
        home = folder / "photos" / str(label) if label < 3 else folder / "new" / "three"
        home.mkdir(parents=True)
        for number, row in enumerate(np.flatnonzero(digits.target == label)[: 20 if label < 3 else 5]):
            pixels = np.rint(digits.images[row] * (255 / 16)).astype(np.uint8)
            Image.fromarray(pixels).resize((16, 16)).save(home / f"{number:02}.png")
    (folder / "query.png").write_bytes((folder / "photos" / "2" / "07.png").read_bytes())
    options = {"width": 0.25, "dim": 8, "max_steps": 40, "validate_every": 20, "workers": 0}
    run = bt.train(str(folder / "photos"), out=folder / "runs" / "first", **options)
    run.index(str(folder / "photos"))
    return folder


@pytest.fixture(autouse=True)
def _example(request, doctest_namespace):
    """Give an example of a docstring the names that the page of the reference begins with."""
    if not isinstance(request.node, DoctestItem) or not request.node.name.startswith("bayestriplet."):
        return
    from names import OF_A_RUN, PREAMBLE

    exec(PREAMBLE, doctest_namespace)  # noqa: S102
    if request.node.name.startswith(NEED_A_RUN):
        monkeypatch = request.getfixturevalue("monkeypatch")
        monkeypatch.chdir(request.getfixturevalue("example_folder"))
        exec(OF_A_RUN, doctest_namespace)  # noqa: S102
