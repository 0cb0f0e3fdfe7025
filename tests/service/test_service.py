"""Queues: who has gone is left out, and what is quick does not stand behind what takes a moment."""

import asyncio
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from starlette.requests import ClientDisconnect

from bayestriplet.retrieval import live as lives
from bayestriplet.retrieval.teaching import Teacher
from bayestriplet.service.catalogue import Catalogue
from bayestriplet.service.service import FEW, Service
from bayestriplet.service.uploads import Asked, SearchOptions
from tests.service.servers import save_scan, wait_until


@pytest.fixture
def service(indexed):
    catalogue = Catalogue(indexed)
    catalogue.edition()
    opened = Service(catalogue)
    yield opened
    opened.close()


def in_a_loop(coroutine):
    """Run a coroutine in a thread of its own: a browser of another test may keep a loop in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()


async def is_there():
    return False


async def has_gone():
    return True


def test_an_upload_whose_sender_has_gone_is_not_decoded(service, tmp_path):
    query = save_scan(900, tmp_path / "query.png")
    seen, decode = [], service.decoders.decode

    def counted(*arguments):
        seen.append(arguments)
        return decode(*arguments)

    service.decoders.decode = counted
    asked = Asked(SearchOptions(), image=query.read_bytes(), name="query.png")

    async def ask_all():
        gone = [service.search(asked, has_gone) for _ in range(20)]
        return await asyncio.gather(*gone, service.search(asked, is_there), return_exceptions=True)

    *left, (placed, thumbnail) = in_a_loop(ask_all())
    assert {type(one) for one in left} == {ClientDisconnect}
    assert len(seen) == 1
    assert placed.reply.answer.neighbours
    assert thumbnail


@pytest.mark.parametrize("options", [{"k": FEW + 1}, {"where": (("label", "3"),)}, {"exclude_group": "P7"}])
def test_a_short_search_does_not_wait_for_a_long_one(service, options):
    gate, answer = threading.Event(), service.catalogue.answer
    (item,) = service.catalogue.edition().sample[:1]

    def slow(questions):
        asked = questions[0].options
        if any(getattr(asked, name) == value for name, value in options.items()):
            gate.wait(30)
        return answer(questions)

    service.answers.work = service.long_answers.work = slow

    async def ask_all():
        long = asyncio.create_task(
            service.search(Asked(SearchOptions(**options), item=item.item.id), is_there)
        )
        await asyncio.sleep(0.05)
        async with asyncio.timeout(20):
            short = await service.search(Asked(SearchOptions(), item=item.item.id), is_there)
        waited = not long.done()
        gate.set()
        return waited, short, await long

    waited, short, long = in_a_loop(ask_all())
    assert waited
    assert short[0].reply.answer.neighbours
    assert long[0].reply.answer.neighbours


def test_the_last_predictive_answers_while_a_lesson_is_opened(indexed, tmp_path, monkeypatch):
    run = shutil.copytree(indexed, tmp_path / "run")
    teacher = Teacher.open(run)
    live = lives.LivePredictive(teacher.run, teacher.encoder.fingerprint)
    before, open_again = live.get(), lives.open_predictive
    began = threading.Event()

    def slow(*arguments):
        began.set()
        time.sleep(1)
        return open_again(*arguments)

    vector = np.zeros((1, teacher.encoder.dim), np.float32)
    teacher.teach(vector, ["new"])
    monkeypatch.setattr(lives, "open_predictive", slow)
    opening = threading.Thread(target=live.latest)
    opening.start()
    assert began.wait(10)
    assert live.get() is before
    assert live.last is before
    opening.join()
    wait_until(lambda: "new" in live.get().classes, 10)
    assert "new" in live.latest().classes
