"""A run with an index of image files, served once for all tests of a process."""

import shutil

import pytest

from bayestriplet.retrieval.index import Index
from bayestriplet.service.mapping import MOST_ITEMS
from bayestriplet.service.places import Places
from tests.service.servers import Server, fill_folder


@pytest.fixture(scope="session")
def scans(tmp_path_factory):
    return fill_folder(tmp_path_factory.mktemp("service") / "scans", range(200))


@pytest.fixture(scope="session")
def indexed(digits_run, scans, tmp_path_factory):
    """A run with an index of files."""
    run = tmp_path_factory.mktemp("served") / "run"
    shutil.copytree(digits_run, run, ignore=shutil.ignore_patterns("*.ckpt"))
    index = Index.open(run)
    index.update(str(scans))
    index.store.prepare()
    # A map that is there already: what making one takes is tested where maps are tested.
    plain = Places.along_principal_axes(index.store.version(), index.store.sample(MOST_ITEMS))
    plain.placed(plain.points, "umap").save(run / "maps")
    return run


@pytest.fixture(scope="session")
def server(indexed):
    server = Server(indexed)
    yield server
    server.stop()
