"""Viewers that only watch: one encode for all, limits, and nothing left after hundreds of visits."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from pathlib import Path

import pytest

from kernels.errors import InvalidInputError
from pipeline.live.contracts import EndReason
from pipeline.live.settings import RtcSettings
from pipeline.webrtc.errors import NoCommonCodecError, TooManyViewersError, UnknownViewerError
from pipeline.webrtc.peer import LivePeer
from pipeline.webrtc.sdp import TrickledCandidate
from pipeline.webrtc.viewers import Viewers
from tests.support.rtc import RTC, Client, KeyFrames, down_to, number_of, resident_bytes, running_hub, until, usage


def test_three_viewers_watch_one_encode() -> None:
    async def body() -> None:
        async with running_hub() as (hub, ticker):
            viewers = Viewers(hub, RTC)
            clients = [Client() for _ in range(3)]
            ids = []
            for client in clients:
                viewer_id, answer = await viewers.add_viewer(await client.offer())
                await client.accept(answer)
                ids.append(viewer_id)
            seen: list[set[int]] = [set() for _ in clients]

            def together() -> int:
                for numbers, client in zip(seen, clients, strict=True):
                    numbers |= {number_of(frame.to_ndarray()[:128]) for frame in client.pictures}
                return len(seen[0] & seen[1] & seen[2])

            await until(lambda: together() > 10)
            assert hub.stats().viewers == 3 and len(viewers) == 3 and len(set(ids)) == 3
            assert hub.stats().frames_encoded <= ticker.index, "encoded once, not per viewer"
            assert await viewers.remove(ids[0]) and not await viewers.remove(ids[0])
            await clients[1].close()
            await until(lambda: len(viewers) == 1)
            assert set(viewers.stats()) == {ids[2]} and viewers.stats()[ids[2]].state == "connected"
            await viewers.close()
            assert hub.stats().viewers == 0
            for client in clients:
                await client.close()

    asyncio.run(body())


def test_a_viewer_that_comes_late_begins_with_a_key_frame_at_once() -> None:
    async def body() -> None:
        async with running_hub() as (hub, _):
            watch, viewers = KeyFrames(hub), Viewers(hub, RTC)
            first, second = Client(), Client()
            await first.accept((await viewers.add_viewer(await first.offer()))[1])
            await until(lambda: len(first.pictures) > 30)
            watch.asked_at.clear()
            await second.accept((await viewers.add_viewer(await second.offer()))[1])
            assert await watch.late() <= 4, "the next one would come after 50"
            await until(lambda: len(second.pictures) > 0)
            await viewers.close()
            await first.close()
            await second.close()

    asyncio.run(body())


def test_a_full_house_refuses_and_has_room_again_when_one_leaves() -> None:
    async def body() -> None:
        async with running_hub() as (hub, _):
            viewers = Viewers(hub, RtcSettings(max_viewers=1))
            client, late = Client(), Client()
            viewer_id, _ = await viewers.add_viewer(await client.offer())
            with pytest.raises(TooManyViewersError):
                await viewers.add_viewer(await late.offer())
            await viewers.remove(viewer_id)
            assert (await viewers.add_viewer(await late.offer()))[1].startswith("v=0")
            await viewers.close()
            await client.close()
            await late.close()

    asyncio.run(body())


def test_twenty_at_the_same_time_never_exceed_the_limit() -> None:
    async def body() -> None:
        async with running_hub() as (hub, _):
            viewers = Viewers(hub, RtcSettings(max_viewers=3))
            client = Client()
            offer = await client.offer()
            answers = await asyncio.gather(*(viewers.add_viewer(offer) for _ in range(20)), return_exceptions=True)
            assert sum(isinstance(one, TooManyViewersError) for one in answers) == 17 and len(viewers) == 3
            await viewers.close()
            await client.close()

    asyncio.run(body())


def test_bad_offers_and_unknown_viewers_leave_nothing() -> None:
    async def body() -> None:
        async with running_hub() as (hub, _):
            viewers = Viewers(hub, RTC)
            client = Client()
            offer = await client.offer()
            for text, error in (("nonsense", InvalidInputError), (offer.replace("H264", "VP9"), NoCommonCodecError)):
                with pytest.raises(error):
                    await viewers.add_viewer(text)
            assert len(viewers) == 0
            with pytest.raises(UnknownViewerError):
                await viewers.add_candidates("none", [None])
            with pytest.raises(UnknownViewerError):
                viewers.offer_of("none")
            viewer_id, _ = await viewers.add_viewer(offer)
            assert viewers.offer_of(viewer_id) == offer
            with pytest.raises(InvalidInputError):
                await viewers.add_candidates(
                    viewer_id, [TrickledCandidate("candidate:1 1 udp x 192.0.2.1 1 typ host", "0")]
                )
            await viewers.close()
            await client.close()

    asyncio.run(body())


async def visits(count: int, leave: Callable[[int], str]) -> list[tuple[tuple[int, int, int], int]]:
    """Peers one after the other, each with a hub of its own; what is in use after every tenth."""
    seen = []
    for index in range(count):
        async with running_hub() as (hub, _):
            ended: list[EndReason] = []
            peer = LivePeer(hub, RTC, on_microphone=lambda samples, place, age_s: 0, on_ended=ended.append)
            client = Client(audio="sendrecv")
            client.channel()
            answer = await peer.answer(await client.offer())
            how = leave(index)
            if how != "unanswered":
                await client.accept(answer)
                await until(lambda c=client: len(c.pictures) > 0)  # type: ignore[misc]
            if how == "client":
                await client.close()
                await until(lambda e=ended: bool(e))  # type: ignore[misc]
            await peer.close()
            await client.close()
        if index % 10 == 9:
            gc.collect()
            await asyncio.sleep(0)
            seen.append((usage(), resident_bytes()))
    return seen


WAYS = ("server", "client", "unanswered")


@pytest.mark.parametrize("count", [50])
def test_peers_that_end_leave_threads_files_tasks_and_memory_flat(count: int) -> None:
    async def body() -> None:
        unhandled: list[dict[str, object]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
        seen = await visits(count, lambda index: WAYS[index % 3] if index % 2 else "server")
        first, last = seen[1], seen[-1]
        await down_to(first[0])
        assert last[1] - first[1] < 12 * 2**20, "memory grew"
        assert unhandled == [], "errors that nobody was told of"

    asyncio.run(body())


def test_nothing_touches_the_disk() -> None:
    def written() -> int:
        lines = Path("/proc/self/io").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("write_bytes"))

    async def body() -> None:
        async with running_hub() as (hub, _):
            client = Client(audio="sendrecv")
            peer = LivePeer(hub, RTC, on_microphone=lambda samples, place, age_s: 0)
            await client.accept(await peer.answer(await client.offer()))
            await until(lambda: len(client.pictures) > 0)
            for _ in range(5):  # whatever else runs in this process may write to its log meanwhile
                before, seen = written(), len(client.pictures)
                await until(lambda seen=seen: len(client.pictures) > seen + 40)  # type: ignore[misc]
                if written() == before:
                    break
            else:
                raise AssertionError("every second of a session causes bytes to be written")
            await peer.close()
            await client.close()

    asyncio.run(body())
