"""How a session's transport ends: by its client, by the network, by us."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aioice import ice

from pipeline.live.contracts import EndReason, LiveEvent
from pipeline.webrtc import rtc_patches
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


def test_a_client_that_vanishes_is_given_up_after_a_few_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """aiortc alone asks six times, every 5 s; we ask five times, every second or so, however long that is on a busy machine."""
    asked: list[object] = []
    request = ice.StunProtocol.request

    def counted(protocol: Any, *given: Any, **named: Any) -> Any:
        asked.append(protocol)
        return request(protocol, *given, **named)

    assert rtc_patches.CONSENT_FAILURES * 2 * rtc_patches.CONSENT_INTERVAL_S < 10

    async def body(hub: LiveHub, ticker: Ticker, client: Client) -> None:
        ended: list[EndReason] = []
        peer = await connected(hub, client, on_ended=ended.append)
        await until(lambda: len(client.pictures) > 2)
        ours = {
            protocol
            for transceiver in peer._pc.getTransceivers()
            for protocol in transceiver.receiver.transport.transport._connection._protocols
        }
        monkeypatch.setattr(ice.StunProtocol, "request", counted)
        for transceiver in client.pc.getTransceivers():  # as when it is killed: not a packet more
            for protocol in transceiver.receiver.transport.transport._connection._protocols:
                protocol.transport.abort()
        await until(lambda: bool(ended))
        assert ended == [EndReason.PEER_LOST]
        assert 1 <= sum(one in ours for one in asked) <= rtc_patches.CONSENT_FAILURES + 1

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
