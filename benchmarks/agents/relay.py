"""How long a viewer takes to connect whom nothing but a TURN relay reaches: `turn_relay_connect_ms`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import httpx
from aiortc import RTCConfiguration, RTCIceServer, RTCPeerConnection
from aiortc.rtcconfiguration import RTCIceTransportPolicy

from benchmarks.agents.coturn import coturn
from benchmarks.agents.fan_out import session
from benchmarks.agents.subscribers import Subscriber, from_service
from benchmarks.core.record import BenchmarkRecord
from kernels.errors import LiveAnchorError

if TYPE_CHECKING:
    from benchmarks.agents.run import Rig

VISITS: Final = 20
CONNECT_S: Final = 30.0


def relay(rig: Rig) -> Iterator[BenchmarkRecord]:
    """`turn_relay_connect_ms`: from asking for TURN credentials to a connection that stands, for a viewer of a session (WHEP).

    The client lets no address but that of the relay be known, and pays for its own gathering. The baseline, which is the bound as
    well, is the same client without that rule, same run.
    """
    with coturn(rig.turn_port), session(rig) as session_id:
        relayed, direct = asyncio.run(_visits(rig.url, session_id))
    baseline = median(direct)
    yield rig.record(
        "turn_relay_connect_ms", "ms", relayed, floor_value=baseline,
        baseline="the same viewer by its own addresses, same run", baseline_value=baseline,
    )  # fmt: skip


async def _visits(url: str, session_id: str) -> tuple[list[float], list[float]]:
    """Milliseconds through the relay and without it, alternating; the first of each is left out."""
    found: dict[bool, list[float]] = {True: [], False: []}
    async with httpx.AsyncClient(base_url=url, timeout=60) as http:
        for _ in range(VISITS + 1):
            for relayed, times in found.items():
                times.append(await _connect_ms(http, session_id, relayed))
    return found[True][1:], found[False][1:]


async def _connect_ms(http: httpx.AsyncClient, session_id: str, relayed: bool) -> float:
    began = time.monotonic()
    servers = (await http.get("/stream/webrtc/ice-servers")).raise_for_status().json()["ice_servers"]
    viewer = Subscriber(connection(servers, relayed))
    try:
        await from_service(http, f"/stream/whep/{session_id}", viewer)
        async with asyncio.timeout(CONNECT_S):
            while viewer.state != "connected":  # noqa: ASYNC110  # aiortc's events come too late to be asked for
                if viewer.state in ("failed", "closed"):
                    raise LiveAnchorError("a viewer was not connected")
                await asyncio.sleep(0.001)
        return 1000 * (time.monotonic() - began)
    finally:
        await viewer.close()


def connection(servers: Sequence[dict[str, Any]], relayed: bool) -> RTCPeerConnection:
    """A client that relays alone, or one that needs no server."""
    if not relayed:
        return RTCPeerConnection(RTCConfiguration(iceServers=[]))
    given = [RTCIceServer(one["urls"], one["username"], one["credential"]) for one in servers]
    return RTCPeerConnection(RTCConfiguration(iceServers=given, iceTransportPolicy=RTCIceTransportPolicy.RELAY))
