"""A run with an index of image files, served once for all tests of a process."""

import shutil

import pytest

import bayestriplet as bt
from bayestriplet.retrieval.index import Index
from bayestriplet.service.mapping import MOST_ITEMS
from bayestriplet.service.places import Places
from tests.data.vector_samples import write_npz
from tests.service.browsers import DESKTOP, KNOWN, PATIENCE, WATCH
from tests.service.servers import HOSTILE, Server, fill_folder, save_scan


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


@pytest.fixture(scope="session")
def grouped(digits_run, tmp_path_factory):
    """A server of 60 items of three patients, one of them with a script as its name, and of none."""
    run = tmp_path_factory.mktemp("grouped") / "run"
    shutil.copytree(digits_run, run, ignore=shutil.ignore_patterns("index", "*.ckpt"))
    files = [save_scan(i, run.parent / f"{i}.png") for i in range(60)]
    groups = [("P7", "P8", HOSTILE, "")[i % 4] for i in range(60)]
    Index.open(run).add(files, labels=["a", "b"] * 30, ids=[f"item {i}" for i in range(60)], groups=groups)
    server = Server(run)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def tied(digits_run, tmp_path_factory):
    """A server of ten items, five of one label and five of another: every vote of ten is a tie."""
    run = tmp_path_factory.mktemp("tied") / "run"
    shutil.copytree(digits_run, run, ignore=shutil.ignore_patterns("index", "*.ckpt"))
    files = [save_scan(i, run.parent / f"{i}.png") for i in range(10)]
    Index.open(run).add(files, labels=["three", HOSTILE] * 5, ids=[f"item {i}" for i in range(10)])
    server = Server(run)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def vectors(tmp_path_factory):
    """A server of an index of 100 vectors, one of them with a script as its id."""
    folder = tmp_path_factory.mktemp("vectors")
    ids = [f"tile {i}" for i in range(99)] + [HOSTILE]
    data = write_npz(folder / "digits.npz", 10, ids=ids, source="pixels", groups=["P7", "P8"] * 50)
    run = bt.train(data, out=folder / "run", split_by="item", dim=8, max_steps=60, validate_every=30)
    run.index(data)
    server = Server(run.path)
    yield server
    server.stop()


@pytest.fixture
def visit(browser):
    """Open a page; at the end, nothing may have been refused, failed or fetched from elsewhere."""
    contexts, complaints = [], []

    def open_page(address, size=DESKTOP, ready="#examples button", **options):
        context = browser.new_context(viewport=size, **options)
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        page = context.new_page()
        page.add_init_script(WATCH)
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
        page.on("console", lambda message: _note(message, complaints))
        page.on("request", lambda request: _check_origin(request.url, address, complaints))
        page.goto(address)
        page.wait_for_selector(ready)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def _note(message, complaints):
    if message.text.startswith("refused:") and not KNOWN.search(message.text):
        complaints.append(message.text)


def _check_origin(url, address, complaints):
    origin = "/".join(address.split("/")[:3])
    if not url.startswith((origin, f"blob:{origin}")):
        complaints.append(f"from elsewhere: {url}")
