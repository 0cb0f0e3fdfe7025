"""Requests that are answered together: those that arrive while others are worked on."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Generic, TypeVar

Given = TypeVar("Given")
Made = TypeVar("Made")


class Batcher(Generic[Given, Made]):
    """Calls ``work`` in a pool, one batch at a time.

    Nobody is made to wait for company: what comes alone is worked on alone, and what comes
    meanwhile forms the next batch, of at most ``most``. ``work`` returns a result or an error
    for each, so that one bad request does not spoil the others.
    """

    def __init__(
        self, work: Callable[[Sequence[Given]], Sequence[Made | Exception]], pool: Executor, most: int
    ) -> None:
        self.work, self.pool, self.most = work, pool, most
        self._waiting: list[tuple[Given, asyncio.Future[Made]]] = []
        self._working: asyncio.Task[None] | None = None

    async def ask(self, given: Given) -> Made:
        """Return what comes of one request."""
        future: asyncio.Future[Made] = asyncio.get_running_loop().create_future()
        self._waiting.append((given, future))
        if self._working is None:
            self._working = asyncio.create_task(self._run())
        return await future

    async def _run(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[: self.most], self._waiting[self.most :]
            wanted = [(given, future) for given, future in batch if not future.done()]
            if wanted:
                await self._answer(wanted)
        self._working = None

    async def _answer(self, batch: list[tuple[Given, asyncio.Future[Made]]]) -> None:
        results: Sequence[Made | Exception]
        try:
            given = [one for one, _ in batch]
            results = await asyncio.get_running_loop().run_in_executor(self.pool, self.work, given)
        except Exception as error:
            results = [error] * len(batch)
        for (_, future), result in zip(batch, results, strict=True):
            if future.done():  # whoever asked has gone
                continue
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)
