"""Clients that send more than anybody needs: what is let through, and that pictures flow on."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

from aiortc import RTCConfiguration, RTCPeerConnection
from aiortc.rtcsctptransport import DataChunk
from aiortc.rtp import RtcpRtpfbPacket, RtpPacket

from pipeline.webrtc import rtc_patches
from pipeline.webrtc.flood_gate import FloodGate
from pipeline.webrtc.hub import LiveHub
from tests.support.manual_clock import ManualClock
from tests.support.rtc import Client, Ticker, connected, session, until

WHOLE_UNORDERED = 7
"""Flags of a chunk that is a message of its own, in no order."""


def test_a_gate_lets_a_burst_through_and_then_its_rate() -> None:
    clock = ManualClock(10.0)
    gate = FloodGate(10.0, 20.0, clock)
    assert gate.lets(15) and not gate.lets(6) and gate.lets(5) and not gate.lets() and gate.refused == 7
    clock.now += 0.55
    assert [gate.lets() for _ in range(7)] == [True] * 5 + [False] * 2
    clock.now += 1000.0
    assert not gate.lets(21) and gate.lets(20)


def test_a_microphone_of_many_sources_or_too_many_packets_is_cut() -> None:
    async def body() -> None:
        connection, clock, passed = RTCPeerConnection(RTCConfiguration(iceServers=[])), ManualClock(1.0), []
        receiver = connection.addTransceiver("audio").receiver

        async def stock(packet: RtpPacket, arrival_time_ms: int) -> None:
            passed.append(packet.ssrc)

        receiver._handle_rtp_packet = stock
        gate = rtc_patches.hook_microphone(receiver, lambda *_: None, clock)
        for ssrc in range(100):
            await receiver._handle_rtp_packet(RtpPacket(ssrc=ssrc), arrival_time_ms=0)
        assert passed == list(range(rtc_patches.MICROPHONE_SOURCES))
        for _ in range(3000):
            await receiver._handle_rtp_packet(RtpPacket(ssrc=0), arrival_time_ms=0)
        assert len(passed) == 1000 and gate.refused == 92 + 2008
        await connection.close()

    asyncio.run(body())


def test_channels_and_messages_without_end_are_bounded() -> None:
    async def body(hub: LiveHub, ticker: Ticker, client: Client) -> None:
        channels = [client.channel(f"c{number}") for number in range(40)]
        peer = await connected(hub, client)
        await until(lambda: channels[0].readyState == "open")
        server = peer._pc.sctp
        assert server is not None
        await until(lambda: not client.pc.sctp._sent_queue)
        assert len(server._data_channels) == 16, "those that are too many are acknowledged and left out"
        whole = server._advertised_rwnd
        await client.pc.sctp._send(channels[0].id, 51, bytes(1_000_000))
        await until(lambda: whole - server._advertised_rwnd > 200_000)
        seen = len(client.pictures)
        await until(lambda: len(client.pictures) > seen + 10)
        assert whole - server._advertised_rwnd < 256 * 1024 + 2000, "an endless message is not kept"
        assert len(server._data_channels) == 16
        await peer.close()

    session(body)


def test_chunks_that_wait_for_a_missing_one_are_bounded() -> None:
    async def body(hub: LiveHub, ticker: Ticker, client: Client) -> None:
        channel = client.channel()
        peer = await connected(hub, client)
        await until(lambda: channel.readyState == "open" and not client.pc.sctp._sent_queue)
        server: Any = peer._pc.sctp
        assert not server._sack_misordered
        first = server._last_received_tsn + 1

        def chunk(number: int) -> DataChunk:
            made = DataChunk(flags=WHOLE_UNORDERED)
            made.tsn, made.stream_id, made.protocol, made.user_data = (first + number) % 2**32, channel.id, 51, b"x"
            return made

        for number in range(1, 2000):
            await server._receive_data_chunk(chunk(number))
        assert len(server._sack_misordered) == rtc_patches.MAX_MISORDERED
        await server._receive_data_chunk(chunk(0))
        assert not server._sack_misordered
        assert server._last_received_tsn == (first + rtc_patches.MAX_MISORDERED) % 2**32
        await server._receive_data_chunk(chunk(rtc_patches.MAX_MISORDERED + 1))
        assert server._last_received_tsn == (first + rtc_patches.MAX_MISORDERED + 1) % 2**32
        await peer.close()

    session(body)


def test_messages_without_pause_are_slowed_down_and_none_is_lost() -> None:
    async def body(hub: LiveHub, ticker: Ticker, client: Client) -> None:
        said: list[dict[str, Any]] = []
        channel = client.channel()
        peer = await connected(hub, client, on_message=said.append)
        await until(lambda: channel.readyState == "open" and not client.pc.sctp._sent_queue)
        rate, burst = rtc_patches.CHANNEL_CHUNKS
        seen, began, count = len(client.pictures), time.monotonic(), round(burst + rate)
        for number in range(count):
            channel.send(json.dumps({"n": number}))
        await until(lambda: len(said) == count)
        assert time.monotonic() - began > 0.9 and said == [{"n": number} for number in range(count)]
        await until(lambda: len(client.pictures) > seen + 10)
        await peer.close()

    session(body)


def test_a_client_that_does_not_slow_down_gets_no_more_through() -> None:
    async def body() -> None:
        connection, clock, passed = RTCPeerConnection(RTCConfiguration(iceServers=[])), ManualClock(1.0), []
        connection.createDataChannel("events")
        transport: Any = connection.sctp

        async def stock(chunk: DataChunk) -> None:
            passed.append(chunk)

        transport._receive_data_chunk = stock
        gate = rtc_patches.bound_channels(transport, clock)
        for _ in range(5000):
            await transport._receive_data_chunk(DataChunk())
        assert (len(passed), gate.refused) == (400, 4600)
        clock.now += 1.0
        for _ in range(5000):
            await transport._receive_data_chunk(DataChunk())
        assert len(passed) == 600
        await connection.close()

    asyncio.run(body())


def test_a_storm_of_retransmission_requests_is_answered_up_to_a_limit() -> None:
    async def body(hub: LiveHub, ticker: Ticker, client: Client) -> None:
        peer = await connected(hub, client)
        await until(lambda: len(client.pictures) > 3)
        sender = next(one.sender for one in peer._pc.getTransceivers() if one.kind == "video")
        asked: list[int] = []

        async def retransmit(sequence: int) -> None:
            asked.append(sequence)

        sender._retransmit = retransmit
        peer._sender.hooks["video"]._resent = FloodGate(*rtc_patches.RESENT_PACKETS, ManualClock(10.0))
        storm = RtcpRtpfbPacket(fmt=1, ssrc=1, media_ssrc=sender._ssrc, lost=list(range(100)))
        for _ in range(200):
            await sender._handle_rtcp_packet(storm)
        assert len(asked) == rtc_patches.RESENT_PACKETS[1] and peer.stats().nacked_packets == 20_000
        seen = len(client.pictures)
        await until(lambda: len(client.pictures) > seen + 3)
        await peer.close()

    session(body)
