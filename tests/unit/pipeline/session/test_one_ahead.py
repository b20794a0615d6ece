"""An iteration that is one item ahead: everything comes, in order; the next item is made meanwhile; leaving cancels it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from kernels.errors import LiveAnchorError
from pipeline.session.one_ahead import one_ahead


async def numbers(count: int, made: list[int], fails_at: int = -1) -> AsyncGenerator[int, None]:
    try:
        for number in range(count):
            await asyncio.sleep(0)
            if number == fails_at:
                raise LiveAnchorError("no more")
            made.append(number)
            yield number
    finally:
        made.append(-1)


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_everything_comes_in_order_and_one_is_made_meanwhile() -> None:
    async def go() -> None:
        made: list[int] = []
        seen = []
        async for number in one_ahead(numbers(4, made)):
            await settle()
            assert [one for one in made if one >= 0] == list(range(min(number + 2, 4)))
            seen.append(number)
        assert seen == [0, 1, 2, 3] and made[-1] == -1

    asyncio.run(go())


def test_an_error_comes_at_its_turn() -> None:
    async def go() -> None:
        seen = []
        with pytest.raises(LiveAnchorError, match="no more"):
            async for number in one_ahead(numbers(4, [], fails_at=2)):
                await settle()
                seen.append(number)
        assert seen == [0, 1]

    asyncio.run(go())


def test_leaving_ends_what_is_being_made() -> None:
    async def go() -> None:
        made: list[int] = []
        async with aclosing(numbers(9, made)) as source, aclosing(one_ahead(source)) as ahead:
            async for _ in ahead:
                break
        assert made[-1] == -1 and len(made) <= 3 and len(asyncio.all_tasks()) == 1

    asyncio.run(go())
