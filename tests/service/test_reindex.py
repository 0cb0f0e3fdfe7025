"""A new version of the index is made ready while the last one answers."""

import shutil
import time

import pytest

from bayestriplet.errors import StoreError
from bayestriplet.retrieval.index import Index
from bayestriplet.retrieval.memory import Memory
from bayestriplet.service import catalogue as catalogues
from bayestriplet.service.catalogue import Catalogue
from bayestriplet.service.questions import Question, SearchOptions
from tests.service.servers import save_scan, wait_until


@pytest.fixture
def changed(digits_run, tmp_path, monkeypatch):
    """A catalogue whose index has changed, and whose next version takes a second to be opened."""
    run = shutil.copytree(digits_run, tmp_path / "run", ignore=shutil.ignore_patterns("index", "*.ckpt"))
    files = [save_scan(i, tmp_path / f"{i}.png") for i in range(6)]
    index = Index.open(run)
    index.add(files[:5], ids=[f"item {i}" for i in range(5)])
    opened = Catalogue(run)
    assert opened.edition().items == 5
    load = Memory.load.__func__

    def slow(cls, *arguments):
        time.sleep(1)
        return load(cls, *arguments)

    index.add(files[5:], ids=["item 5"])
    monkeypatch.setattr(Memory, "load", classmethod(slow))
    yield opened
    opened.close()


def test_the_old_index_answers_until_the_new_one_is_ready(changed):
    before = changed.edition()
    vector = before.sample[0].vector
    question = Question("q", SearchOptions(k=10), vector=vector, hash=before.sample[0].item.hash)
    longest, sizes = 0.0, []
    for _ in range(10):
        began = time.perf_counter()
        sizes.append(len(changed.answer([question])[0].reply.answer.neighbours))
        longest = max(longest, time.perf_counter() - began)
    assert sizes[0] == 5
    assert longest < 0.5
    wait_until(lambda: changed.edition().items == 6, 30)
    answer = changed.answer([question])[0]
    assert answer.version == changed.edition().version != before.version
    assert len(answer.reply.answer.neighbours) == 6


def test_a_new_index_that_cannot_be_opened_is_said_and_tried_again(changed, monkeypatch):
    monkeypatch.setattr(catalogues, "RETRY", 0.2)
    with monkeypatch.context() as patch:
        patch.setattr(catalogues, "open_store", lambda *_: (_ for _ in ()).throw(StoreError("broken")))
        for _ in range(3):
            with pytest.raises(StoreError, match="broken"):
                changed.edition()
    wait_until(lambda: succeeds(changed), 30)


def succeeds(opened):
    try:
        return opened.edition().items == 6
    except StoreError:
        return False
