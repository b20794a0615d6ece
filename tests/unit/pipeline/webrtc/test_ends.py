"""How a session's transport ends: by its client, by the network, by us."""

from __future__ import annotations

import asyncio

import pytest

from pipeline.live.contracts import EndReason, LiveEvent
from pipeline.webrtc.errors import PeerClosedError
from pipeline.webrtc.hub import LiveHub
from pipeline.webrtc.peer import LivePeer
from tests.support.rtc import RTC, Client, Ticker, connected, session, until


def test_a_client_that_hangs_up_is_noticed_at_once() -> None:
    async def body(hub: LiveHub, ticker: Ticker, client: Client) -> None:
        ended: list[EndReason] = []
        peer = await connected(hub, client, on_ended=ended.append)
        await until(lambda: len(client.pictures) > 2)
        await client.close()
        await until(lambda: bool(ended))
        assert ended == [EndReason.PEER_CLOSED], "PEER_LOST is what is said of one that was given up"
        assert peer.state == "closed"
        assert hub.stats().viewers == 0
        await peer.close()
        assert len(ended) == 1

    session(body)


def test_a_client_that_vanishes_is_given_up_long_before_half_a_minute() -> None:
    """aiortc alone takes 30 s; ours takes some five, on a busy machine more."""

    async def body(hub: LiveHub, ticker: Ticker, client: Client) -> None:
        ended: list[EndReason] = []
        await connected(hub, client, on_ended=ended.append)
        await until(lambda: len(client.pictures) > 2)
        loop = asyncio.get_running_loop()
        began = loop.time()
        for transceiver in client.pc.getTransceivers():  # as when it is killed: not a packet more
            for protocol in transceiver.receiver.transport.transport._connection._protocols:
                protocol.transport.abort()
        await until(lambda: bool(ended))
        assert ended == [EndReason.PEER_LOST]
        assert loop.time() - began < 15

    session(body)


def test_a_client_that_never_connects_is_given_up() -> None:
    async def body(hub: LiveHub, ticker: Ticker, client: Client) -> None:
        ended: list[EndReason] = []
        peer = LivePeer(hub, RTC, connect_timeout_s=0.3, on_ended=ended.append)
        await peer.answer(await client.offer())
        await until(lambda: bool(ended))
        assert ended == [EndReason.CONNECT_TIMEOUT] and peer.state == "closed"

    session(body)


def test_closing_is_harmless_at_any_time() -> None:
    async def body(hub: LiveHub, ticker: Ticker, client: Client) -> None:
        ended: list[EndReason] = []
        fresh = LivePeer(hub, RTC, on_ended=ended.append)
        await fresh.close()
        await fresh.close()
        peer = LivePeer(hub, RTC, on_ended=ended.append)
        answer = await peer.answer(await client.offer())
        await asyncio.gather(peer.close(), peer.close(), peer.close())
        with pytest.raises(PeerClosedError):
            await peer.add_candidates([None])
        await client.accept(answer)
        await asyncio.sleep(0.05)
        assert not ended and hub.stats().viewers == 0

    session(body)


def test_a_hub_that_closes_ends_its_tracks_and_ignores_what_comes_after() -> None:
    async def body(hub: LiveHub, ticker: Ticker, client: Client) -> None:
        peer = await connected(hub, client)
        await until(lambda: len(client.pictures) > 2)
        await hub.close()
        await hub.close()
        ticker.hub.event(LiveEvent("ended", "s", 0, 0.0))
        assert hub.subscribe("video").gated
        await peer.close()

    session(body)
