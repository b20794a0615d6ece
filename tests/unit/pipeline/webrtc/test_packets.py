"""What waits for a viewer: the gate, the bound, the flush."""

from __future__ import annotations

import asyncio

import pytest

from pipeline.webrtc.packets import EncodedUnit, PacketQueue, QueueClosed


def unit(timestamp: int, key: bool = False) -> EncodedUnit:
    return EncodedUnit((b"x" * 10, b"y"), timestamp, key)


class Asked:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


async def taken(queue: PacketQueue) -> list[int]:
    return [(await queue.get()).timestamp for _ in range(len(queue))]


def test_pictures_wait_for_a_key_frame() -> None:
    async def body() -> None:
        queue = PacketQueue("video", 8, Asked())
        queue.put(unit(0))
        queue.put(unit(1))
        assert len(queue) == 0 and queue.gated and queue.dropped == 2
        queue.put(unit(2, key=True))
        queue.put(unit(3))
        assert await taken(queue) == [2, 3]

    asyncio.run(body())


def test_a_full_queue_is_flushed_asks_for_a_key_and_reopens_with_it() -> None:
    async def body() -> None:
        asked = Asked()
        queue = PacketQueue("video", 3, asked)
        for index in range(4):
            queue.put(unit(index, key=index == 0))
        assert len(queue) == 0 and queue.overflows == 1 and asked.count == 1 and queue.dropped == 4
        queue.put(unit(4))
        assert len(queue) == 0 and asked.count == 1
        queue.put(unit(5, key=True))
        queue.put(unit(6))
        assert await taken(queue) == [5, 6]

    asyncio.run(body())


def test_a_key_frame_that_meets_a_full_queue_takes_its_place() -> None:
    async def body() -> None:
        asked = Asked()
        queue = PacketQueue("video", 2, asked)
        for index in range(2):
            queue.put(unit(index, key=index == 0))
        queue.put(unit(2, key=True))
        assert await taken(queue) == [2] and asked.count == 0 and not queue.gated

    asyncio.run(body())


def test_the_voice_has_no_gate_and_loses_its_oldest() -> None:
    async def body() -> None:
        asked = Asked()
        queue = PacketQueue("audio", 2, asked)
        for index in range(4):
            queue.put(unit(index, key=True))
        assert await taken(queue) == [2, 3] and queue.dropped == 2 and asked.count == 0

    asyncio.run(body())


def test_closing_wakes_the_reader_and_drops_what_comes_after() -> None:
    async def body() -> None:
        queue = PacketQueue("video", 2, Asked())
        reader = asyncio.create_task(queue.get())
        await asyncio.sleep(0)
        queue.close()
        with pytest.raises(QueueClosed):
            await reader
        queue.put(unit(0, key=True))
        assert len(queue) == 0
        queue.close()

    asyncio.run(body())


def test_size_counts_all_payloads() -> None:
    assert unit(0).size == 11
