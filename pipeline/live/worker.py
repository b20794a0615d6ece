"""The task that works ahead of a session's clock: woken when there may be work, thrown away and begun anew at an interruption."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable


class Worker:
    """Runs one step after the other, and waits to be woken where there is none.

    Args:
        begin: Called and awaited once before the first step, and again after work is begun anew.
        step: Does the next piece of work; its answer is False when there is none now.
    """

    def __init__(self, begin: Callable[[], Awaitable[None]], step: Callable[[], Awaitable[bool]]) -> None:
        self._begin = begin
        self._step = step
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._over: set[asyncio.Task[None]] = set()

    @property
    def fault(self) -> BaseException | None:
        """The error that ended the work; None while it goes on."""
        task = self._task
        return task.exception() if task is not None and task.done() and not task.cancelled() else None

    def start(self) -> None:
        """Begin to work."""
        self._task = asyncio.create_task(self._work())

    def wake(self) -> None:
        """Look for work again: there may be some now."""
        self._woken.set()

    def begin_anew(self, given_up: Iterable[asyncio.Task[None]]) -> None:
        """Throw away the step in work and go on with a new one.

        Args:
            given_up: Other tasks that were cancelled; their end is waited for in `close`.
        """
        tasks = list(given_up)
        if self._task is not None:
            self._task.cancel()
            tasks.append(self._task)
            self.start()
        for task in tasks:
            self._over.add(task)
            task.add_done_callback(self._over.discard)

    async def close(self, given_up: Iterable[asyncio.Task[None]]) -> None:
        """Give up all work and wait for its end; `given_up` are other tasks that were cancelled."""
        tasks = [*given_up, *self._over]
        if self._task is not None:
            self._task.cancel()
            tasks.append(self._task)
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _work(self) -> None:
        await self._begin()
        while True:
            self._woken.clear()
            if not await self._step():
                await self._woken.wait()
