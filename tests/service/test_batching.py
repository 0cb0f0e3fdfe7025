import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from bayestriplet.service.batching import Batcher


def run(coroutine):
    return asyncio.run(coroutine)


def test_what_comes_alone_is_worked_on_alone_and_the_rest_together():
    seen, gate = [], threading.Event()

    def work(batch):
        seen.append(list(batch))
        gate.wait(10)
        return [2 * one for one in batch]

    async def ask():
        with ThreadPoolExecutor(1) as pool:
            batcher = Batcher(work, pool, 3)
            first = asyncio.create_task(batcher.ask(0))
            while not seen:
                await asyncio.sleep(0.001)
            others = [asyncio.create_task(batcher.ask(i)) for i in range(1, 6)]
            await asyncio.sleep(0.01)
            gate.set()
            return await asyncio.gather(first, *others), await batcher.ask(7)

    assert run(ask()) == ([0, 2, 4, 6, 8, 10], 14)
    assert seen == [[0], [1, 2, 3], [4, 5], [7]]


def test_an_error_is_only_for_the_one_who_asked():
    def work(batch):
        return [ValueError("odd") if one % 2 else one for one in batch]

    async def ask():
        with ThreadPoolExecutor(1) as pool:
            batcher = Batcher(work, pool, 10)
            return await asyncio.gather(*(batcher.ask(i) for i in range(4)), return_exceptions=True)

    found = run(ask())
    assert found[::2] == [0, 2]
    assert all(isinstance(one, ValueError) for one in found[1::2])


def test_a_failing_batch_fails_each_and_the_next_one_works():
    calls = []

    def work(batch):
        calls.append(batch)
        if len(calls) == 1:
            raise RuntimeError("broken")
        return batch

    async def ask():
        with ThreadPoolExecutor(1) as pool:
            batcher = Batcher(work, pool, 10)
            with pytest.raises(RuntimeError, match="broken"):
                await batcher.ask(1)
            return await batcher.ask(2)

    assert run(ask()) == 2


def test_whoever_has_gone_is_left_out():
    seen, gate = [], threading.Event()

    def work(batch):
        seen.append(list(batch))
        gate.wait(10)
        return batch

    async def ask():
        with ThreadPoolExecutor(1) as pool:
            batcher = Batcher(work, pool, 10)
            first = asyncio.create_task(batcher.ask(1))
            while not seen:
                await asyncio.sleep(0.001)
            gone, stays = asyncio.create_task(batcher.ask(2)), asyncio.create_task(batcher.ask(3))
            await asyncio.sleep(0.01)
            gone.cancel()
            await asyncio.sleep(0.01)
            gate.set()
            return await first, await stays

    assert run(ask()) == (1, 3)
    assert seen == [[1], [3]]
