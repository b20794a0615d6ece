"""The private names of aiortc and aioice that we lean on, and what the patches do."""

from __future__ import annotations

import asyncio
import socket
from importlib.metadata import version

import aioice.ice
import aiortc.rtcrtpsender
import pytest
from aiortc import RTCConfiguration, RTCPeerConnection

from pipeline.webrtc import gathering, rtc_patches


def test_the_releases_are_those_that_the_patches_were_written_for() -> None:
    assert version("aiortc").startswith("1.16."), "read pipeline/webrtc/rtc_patches.py against the new release"
    assert version("aioice").startswith("0.13."), "read pipeline/webrtc/rtc_patches.py against the new release"


@pytest.mark.parametrize(("owner", "name"), rtc_patches.PRIVATE_NAMES, ids=lambda value: str(value)[-40:])
def test_private_names_exist(owner: object, name: str) -> None:
    assert hasattr(owner, name)


def test_private_fields_exist() -> None:
    async def body() -> None:
        connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        transceiver = connection.addTransceiver("audio")
        assert all(hasattr(transceiver.sender, name) for name in rtc_patches.SENDER_FIELDS)
        assert all(hasattr(transceiver.receiver, name) for name in rtc_patches.RECEIVER_FIELDS)
        assert hasattr(transceiver, "_codecs")
        connection.createDataChannel("events")
        assert all(hasattr(connection.sctp, name) for name in rtc_patches.CHANNEL_FIELDS)
        await connection.close()

    asyncio.run(body())


def test_patches_apply_once() -> None:
    rtc_patches.apply_patches()
    hosts, seen = aioice.ice.get_host_addresses, aioice.ice.asyncio  # type: ignore[attr-defined]
    rtc_patches.apply_patches()
    assert aioice.ice.get_host_addresses is hosts and aioice.ice.asyncio is seen  # type: ignore[attr-defined]
    assert aioice.ice.CONSENT_FAILURES == 5 and aioice.ice.CONSENT_INTERVAL == 0.5
    assert aiortc.rtcrtpsender.RTP_HISTORY_SIZE == 1024
    assert asyncio.get_event_loop_policy() is not None and seen.Queue is asyncio.Queue


def test_a_machine_without_a_network_uses_the_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    rtc_patches.apply_patches()
    monkeypatch.setattr(aioice.ice.ifaddr, "get_adapters", lambda: [])
    assert aioice.ice.get_host_addresses(use_ipv4=True, use_ipv6=True) == ["127.0.0.1"]
    assert aioice.ice.get_host_addresses(use_ipv4=False, use_ipv6=True) == []


async def gathered(first: int, last: int) -> list[int]:
    connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    connection.addTransceiver("video")
    with gathering.port_range(first, last):
        await connection.setLocalDescription(await connection.createOffer())
    ports = [
        int(line.split()[5])
        for line in connection.localDescription.sdp.splitlines()
        if line.startswith("a=candidate:") and ":" not in line.split()[4]
    ]
    await connection.close()
    return ports


def free_ports(count: int) -> int:
    """The first of `count` UDP ports that are free now, below those that the kernel gives to others."""
    for first in range(20_000, 32_000, count):
        sockets = []
        try:
            for port in range(first, first + count):
                sockets.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
                sockets[-1].bind(("0.0.0.0", port))  # noqa: S104
            return first
        except OSError:
            continue
        finally:
            for one in sockets:
                one.close()
    raise AssertionError("no free ports")


def test_ports_come_from_the_range() -> None:
    rtc_patches.apply_patches()
    first = free_ports(4)
    ports = asyncio.run(gathered(first, first + 3))
    assert ports and all(first <= port <= first + 3 for port in ports)


def test_a_range_that_is_used_up_gives_no_candidate_and_no_other_port() -> None:
    rtc_patches.apply_patches()
    first = free_ports(2)
    held = []
    for address in aioice.ice.get_host_addresses(use_ipv4=True, use_ipv6=False):
        for port in (first, first + 1):
            held.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            held[-1].bind((address, port))
    try:
        assert asyncio.run(gathered(first, first + 1)) == []
    finally:
        for one in held:
            one.close()


def test_without_a_range_any_port_is_taken() -> None:
    rtc_patches.apply_patches()
    assert len(asyncio.run(gathered(0, 0))) >= 1
