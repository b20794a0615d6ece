"""The two clients of a service, called in the same way, so that one test holds for both."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from liveanchor.client import AsyncClient, Client


class Called:
    """An object of coroutines whose methods are waited for; everything else of it as it is.

    Args:
        target: The object.
        runner: Its loop.
    """

    def __init__(self, target: Any, runner: asyncio.Runner) -> None:
        self._target = target
        self._runner = runner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if not callable(found):
            return found if isinstance(found, str) else Called(found, self._runner)

        def call(*args: Any, **kwargs: Any) -> Any:
            value = found(*args, **kwargs)
            return self._runner.run(value) if inspect.isawaitable(value) else value

        return call


@contextmanager
def client_of_kind(
    kind: str,
    url: str,
    api_key: str = "",
    pause: Callable[[float], None] | None = None,
    answers: Callable[[httpx.Request], httpx.Response] | None = None,
) -> Iterator[Any]:
    """A client, `sync` or `async`, that waits by `pause`, else not at all; `answers` stands for the service."""
    wait = pause or (lambda seconds: None)
    transport = httpx.MockTransport(answers) if answers else None
    if kind == "sync":
        scripted = httpx.Client(transport=transport) if transport else None
        with Client(url, api_key, http=scripted, pause=wait) as client:
            yield client
        return

    async def async_wait(seconds: float) -> None:
        await asyncio.sleep(0)
        wait(seconds)

    with asyncio.Runner() as runner:
        plain = AsyncClient(
            url, api_key, http=httpx.AsyncClient(transport=transport) if transport else None, pause=async_wait
        )
        try:
            yield Called(plain, runner)
        finally:
            runner.run(plain.close())
