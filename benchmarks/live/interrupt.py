"""How long speech goes on after an interruption, seen by a client in a process of its own; prints one JSON object.

The time is taken from just before `POST .../interrupt` is sent until the last voice packet that holds speech arrives, so it is an
upper bound of what CASES defines (request received -> last packet sent). The speech has no pauses: there is something to stop.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Callable
from typing import Any, Final

import av
import httpx
import numpy as np
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from aiortc.mediastreams import MediaStreamError

from benchmarks.graph.run import speech, wav_16
from benchmarks.live.rig import without_pauses
from kernels.arrays import F32
from pipeline.types import SAMPLE_RATE_HZ
from pipeline.webrtc.rtc_patches import apply_patches

SPEECH_S: Final = 6.0
LISTEN_S: Final = 0.6
LEVEL: Final = 0.005
"""Full scale is 1; what Opus makes of digital silence stays far below."""


class VoicePackets:
    """Arrival times of voice packets and whether they hold speech; decoded as they come, no jitter buffer.

    Args:
        receiver: Receiver of the voice, before it starts.
        is_loud: Decides on a packet's samples, float32, -1..1.
    """

    def __init__(self, receiver: Any, is_loud: Callable[[F32], bool] = lambda samples: _peak(samples) > LEVEL) -> None:
        self.heard: list[tuple[float, bool]] = []
        self._is_loud = is_loud
        self._decoder = av.CodecContext.create("libopus", "r")
        self._stock = receiver._handle_rtp_packet
        receiver._handle_rtp_packet = self._handle

    async def _handle(self, packet: Any, arrival_time_ms: int) -> None:
        now = time.monotonic()
        if packet.payload:
            frames = self._decoder.decode(av.Packet(packet.payload))
            loud = any(self._is_loud(_samples(frame)) for frame in frames)
            self.heard.append((now, loud))
        await self._stock(packet, arrival_time_ms=arrival_time_ms)


def _samples(frame: av.AudioFrame) -> F32:
    """The samples of a frame as float32, -1..1."""
    samples = frame.to_ndarray()
    scale = 32768.0 if samples.dtype.kind == "i" else 1.0
    return samples.astype(np.float32) / np.float32(scale)


def _peak(samples: F32) -> float:
    return float(np.abs(samples).max())


async def measure(url: str, count: int, avatar_id: str) -> dict[str, Any]:
    """Interrupt `count` utterances."""
    apply_patches()
    pc = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    pc.addTransceiver("video", direction="recvonly")
    voice = VoicePackets(pc.addTransceiver("audio", direction="recvonly").receiver)
    drains: list[asyncio.Task[None]] = []
    pc.on("track", lambda track: drains.append(asyncio.ensure_future(_drain(track))))
    await pc.setLocalDescription(await pc.createOffer())
    audio = wav_16(np.resize(without_pauses(speech(SPEECH_S)), round(SPEECH_S * SAMPLE_RATE_HZ)))
    async with httpx.AsyncClient(base_url=url, timeout=30) as http:
        body = {"sdp": pc.localDescription.sdp, "drive": "push"} | ({"avatar_id": avatar_id} if avatar_id else {})
        answer = (await http.post("/stream/webrtc/offer", json=body)).raise_for_status().json()
        await pc.setRemoteDescription(RTCSessionDescription(answer["sdp"], answer["type"]))
        path = f"/stream/webrtc/{answer['session_id']}"
        found = [await _once(http, path, audio, voice, number) for number in range(count)]
        await http.delete(path)
    await pc.close()
    await asyncio.gather(*drains, return_exceptions=True)
    return {"interrupt_ms": found}


async def _once(http: httpx.AsyncClient, path: str, audio: bytes, voice: VoicePackets, number: int) -> float:
    before = len(voice.heard)
    (await http.post(f"{path}/speak", files={"audio": audio})).raise_for_status()
    async with asyncio.timeout(20):
        while sum(loud for _, loud in voice.heard[before:]) < 20 + 7 * (number % 5):  # noqa: ASYNC110  # packets are counted elsewhere
            await asyncio.sleep(0.005)
    began = time.monotonic()
    (await http.post(f"{path}/interrupt")).raise_for_status()
    await asyncio.sleep(LISTEN_S)
    return max(1000 * (max(at for at, loud in voice.heard if loud) - began), 0.0)


async def _drain(track: Any) -> None:
    try:
        while True:
            await track.recv()
    except MediaStreamError:
        return


def main(arguments: list[str] | None = None) -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--avatar-id", default="")
    options = parser.parse_args(arguments)
    print(json.dumps(asyncio.run(measure(options.url, options.count, options.avatar_id))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
