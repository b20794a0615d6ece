"""An iteration that is one item ahead of who reads it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TypeVar

Item = TypeVar("Item")


async def one_ahead(items: AsyncIterator[Item]) -> AsyncGenerator[Item, None]:
    """Yield what an iterator yields; while the reader is busy with an item, the next one is being made.

    Closing it cancels the item that is being made; the iterator itself is the caller's to close.
    """
    coming = asyncio.ensure_future(_next_of(items))
    try:
        while (found := await coming) is not None:
            coming = asyncio.ensure_future(_next_of(items))
            yield found[0]
    finally:
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)


async def _next_of(items: AsyncIterator[Item]) -> tuple[Item] | None:
    """The next item, in a tuple; None at the end, which a task cannot raise."""
    try:
        return (await anext(items),)
    except StopAsyncIteration:
        return None
