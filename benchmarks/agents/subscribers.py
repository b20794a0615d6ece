"""Subscribers that count RTP packets and decode nothing, in a process of their own; prints one JSON object.

They take a session from a Janus, or with `--whep` from the service itself. Once all of them get pictures, packets are counted for a
while: `fps` has the pictures per second that each subscriber got, by the marker bit that ends a picture; packets stay encrypted.
`cores` is the processor time that the processes of `--pids` took meanwhile.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

import httpx
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription

from benchmarks.agents.janus import JanusClient, janus_client
from benchmarks.live.rig import cpu_seconds
from kernels.errors import LiveAnchorError
from pipeline.webrtc.rtc_patches import apply_patches

CONNECT_S: Final = 60.0
SETTLE_S: Final = 2.0
AT_ONCE: Final = 5
"""Subscribers that connect at the same time."""
_MARKER: Final = 0x80


class Subscriber:
    """One WebRTC connection whose packets are counted and dropped.

    Args:
        pc: The connection; one that needs no server where None.

    Attributes:
        pictures: Pictures whose last packet came.
        packets: Packets that came.
    """

    def __init__(self, pc: RTCPeerConnection | None = None) -> None:
        apply_patches()
        self.pictures = 0
        self.packets = 0
        self._video: set[int] = set()
        self._pc = pc or RTCPeerConnection(RTCConfiguration(iceServers=[]))

    @property
    def state(self) -> str:
        """State of the connection."""
        return str(self._pc.connectionState)

    async def answer(self, offer: str) -> str:
        """Answer an offer."""
        await self._pc.setRemoteDescription(RTCSessionDescription(offer, "offer"))
        await self._pc.setLocalDescription(await self._pc.createAnswer())
        self._count(offer)
        return str(self._pc.localDescription.sdp)

    async def offer(self) -> str:
        """Offer to receive picture and voice."""
        for kind in ("video", "audio"):
            self._pc.addTransceiver(kind, direction="recvonly")
        await self._pc.setLocalDescription(await self._pc.createOffer())
        return str(self._pc.localDescription.sdp)

    async def accept(self, answer: str) -> None:
        """Take the answer to `offer`."""
        await self._pc.setRemoteDescription(RTCSessionDescription(answer, "answer"))
        self._count(answer)

    async def close(self) -> None:
        """Leave."""
        await self._pc.close()

    def _count(self, sdp: str) -> None:
        line = next(line for line in sdp.splitlines() if line.startswith("m=video"))
        self._video = {int(number) for number in line.split()[3:]}
        for receiver in self._pc.getReceivers():
            transport: Any = receiver.transport
            transport._handle_rtp_data = self._take

    async def _take(self, data: bytes, arrival_time_ms: int) -> None:
        self.packets += 1
        if data[1] & _MARKER and data[1] & 0x7F in self._video:
            self.pictures += 1


async def from_janus(janus: JanusClient, subscriber: Subscriber) -> None:
    """Subscribe at a Janus."""
    handle = await janus.attach()
    await janus.start(handle, await subscriber.answer(await janus.subscribe(handle)))


async def from_service(http: httpx.AsyncClient, url: str, subscriber: Subscriber) -> None:
    """Watch by WHEP."""
    headers = {"Content-Type": "application/sdp"}
    answer = await http.post(url, content=await subscriber.offer(), headers=headers)
    if answer.is_error:
        raise LiveAnchorError(f"{answer.status_code}: {answer.text[:200]}")
    await subscriber.accept(answer.text)


async def counted(
    join: Callable[[Subscriber], Awaitable[None]], count: int, seconds: float, pids: list[int]
) -> dict[str, Any]:
    """Let so many subscribers join, and count what comes for a while."""
    subscribers = [Subscriber() for _ in range(count)]
    gate = asyncio.Semaphore(AT_ONCE)

    async def joined(one: Subscriber) -> None:
        async with gate:
            await join(one)

    try:
        await asyncio.gather(*map(joined, subscribers))
        async with asyncio.timeout(CONNECT_S):
            while not all(one.pictures for one in subscribers):  # noqa: ASYNC110  # counted elsewhere
                await asyncio.sleep(0.05)
        await asyncio.sleep(SETTLE_S)
        before = [one.pictures for one in subscribers]
        cpu_s, began = sum(map(cpu_seconds, pids)), time.monotonic()
        await asyncio.sleep(seconds)
        took_s = time.monotonic() - began
        cores = (sum(map(cpu_seconds, pids)) - cpu_s) / took_s
        fps = [(one.pictures - first) / took_s for one, first in zip(subscribers, before, strict=True)]
        return {"fps": fps, "cores": cores, "packets": sum(one.packets for one in subscribers)}
    finally:
        await asyncio.gather(*(one.close() for one in subscribers))


async def measure(url: str, whep: bool, count: int, seconds: float, pids: list[int]) -> dict[str, Any]:
    """Count at a Janus, whose WebSocket `url` is, or with `whep` at a session's address for viewers."""
    if whep:
        async with httpx.AsyncClient(timeout=60) as http:
            return await counted(lambda one: from_service(http, url, one), count, seconds, pids)
    async with janus_client(url) as janus:
        return await counted(lambda one: from_janus(janus, one), count, seconds, pids)


def main(arguments: list[str] | None = None) -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True, help="WebSocket of a Janus, or a session's WHEP address")
    parser.add_argument("--whep", action="store_true", help="the address is for WHEP")
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--pids", type=int, nargs="*", default=[], help="processes whose processor time is taken")
    options = parser.parse_args(arguments)
    found = asyncio.run(measure(options.url, options.whep, options.count, options.seconds, options.pids))
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
