"""Many viewers in one process: they speak and count the pictures that arrive, by RTP alone; nothing is decoded.

    python -m benchmarks.graph.light_clients --url http://127.0.0.1:8000 --count 6 --seconds 30 --speech speech.wav

prints one JSON object: `viewers`, each with `session_id`, when its pictures were complete (monotonic seconds of this machine)
and when it connected, and `refused`, what became of offers that were not taken. A decoder costs more than everything else that a
client does; `benchmarks.live.client` is the one that looks at the pictures.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any, cast

import httpx
from aiortc import RTCConfiguration, RTCPeerConnection, RTCRtpReceiver, RTCSessionDescription
from aiortc.rtcrtpparameters import RTCRtpCapabilities
from aiortc.rtcrtpreceiver import StreamStatistics

from benchmarks.live.client_rtc import RTP_HZ, SpeechTrack
from kernels.arrays import F32
from pipeline.media.audio_in import decode_audio
from pipeline.webrtc.rtc_patches import apply_patches

CONNECT_S = 30.0
GAP_S = 0.2
"""Seconds without a packet of the voice that count as a gap; packets hold 20 ms."""


class PictureCounter:
    """Takes a receiver's packets in place of its decoder: reports go back as ever, pictures are counted.

    Args:
        receiver: Receiver of the video, before it starts.
    """

    def __init__(self, receiver: RTCRtpReceiver) -> None:
        self.complete_at: list[float] = []
        self._last: int | None = None
        self._streams: dict[int, StreamStatistics] = cast(Any, receiver)._RTCRtpReceiver__remote_streams
        cast(Any, receiver)._handle_rtp_packet = self._packet

    async def _packet(self, packet: Any, arrival_time_ms: int) -> None:
        if packet.ssrc not in self._streams:
            self._streams[packet.ssrc] = StreamStatistics(RTP_HZ["video"])
        self._streams[packet.ssrc].add(packet)
        if packet.marker and packet.payload and packet.timestamp != self._last:  # the last packet of a picture
            self._last = packet.timestamp
            self.complete_at.append(time.monotonic())


class VoiceGaps:
    """Takes the packets of the voice in place of a receiver's decoder, and notes where none came for `GAP_S`.

    Args:
        receiver: Receiver of the voice, before it starts.
        last_at: When the same listener heard the last packet of a connection before; 0 where there was none.

    Attributes:
        found: Moments of the last packet before a gap (monotonic seconds), and the gaps' lengths in seconds.
        last_at: Moment of the last packet; 0 before the first one.
    """

    def __init__(self, receiver: RTCRtpReceiver, last_at: float = 0.0) -> None:
        self.found: list[tuple[float, float]] = []
        self.last_at = last_at
        cast(Any, receiver)._handle_rtp_packet = self._packet

    async def _packet(self, packet: Any, arrival_time_ms: int) -> None:
        now = time.monotonic()
        if self.last_at and now - self.last_at >= GAP_S:
            self.found.append((self.last_at, now - self.last_at))
        self.last_at = now


class LightViewer:
    """A client whose session speaks all the time.

    Args:
        speech: Microphone, float32 (n,), 16 kHz.
        fields: Further fields of the offer.
        loops: Whether the speech goes on at once and begins again when it is over; else half a second of silence comes first.
        heard_at: When the last packet of the voice came over a connection before this one; 0 where there was none.
    """

    def __init__(self, speech: F32, fields: dict[str, Any], loops: bool = False, heard_at: float = 0.0) -> None:
        self._fields = fields
        self._pc = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self._track = SpeechTrack(speech, 0.0 if loops else 0.5, 0.0, loops)
        self._heard_at = heard_at
        self._counter: PictureCounter | None = None
        self._voice: VoiceGaps | None = None
        self._connected = asyncio.Event()
        self.session_id = ""
        self.asked_at = self.connected_at = 0.0

    async def connect(self, http: httpx.AsyncClient) -> int:
        """Offer; the status of the answer.

        Raises:
            TimeoutError: The answer was taken, and no connection came about.
        """
        video = self._pc.addTransceiver("video", direction="recvonly")
        codecs = cast(RTCRtpCapabilities, RTCRtpReceiver.getCapabilities("video")).codecs
        video.setCodecPreferences([one for one in codecs if one.mimeType in ("video/H264", "video/rtx")])
        self._counter = PictureCounter(video.receiver)
        self._pc.addTrack(self._track)
        audio = next(one.receiver for one in self._pc.getTransceivers() if one.kind == "audio")
        self._voice = VoiceGaps(audio, self._heard_at)
        self._pc.on("connectionstatechange", self._changed)
        await self._pc.setLocalDescription(await self._pc.createOffer())
        body = {"sdp": self._pc.localDescription.sdp, "type": "offer", **self._fields}
        self.asked_at = time.monotonic()
        response = await http.post("/stream/webrtc/offer", json=body)
        if response.is_error:
            return response.status_code
        answer = response.json()
        self.session_id = str(answer["session_id"])
        await self._pc.setRemoteDescription(RTCSessionDescription(answer["sdp"], answer["type"]))
        async with asyncio.timeout(CONNECT_S):
            await self._connected.wait()
        return response.status_code

    async def leave(self, http: httpx.AsyncClient) -> dict[str, Any]:
        """End the session; what was seen of it."""
        try:
            if self.session_id:
                await http.delete(f"/stream/webrtc/{self.session_id}")
        finally:
            await self.close()
        return self.seen()

    async def close(self) -> None:
        """Hang up without a word."""
        await self._pc.close()

    @property
    def last_picture_at(self) -> float:
        """When the last picture was complete, monotonic seconds; 0 before the first one."""
        return self._counter.complete_at[-1] if self._counter and self._counter.complete_at else 0.0

    @property
    def heard_at(self) -> float:
        """When the last packet of the voice came, monotonic seconds, over this connection or the one before it."""
        return self._voice.last_at if self._voice else self._heard_at

    @property
    def voice_gaps(self) -> list[tuple[float, float]]:
        """Where the voice was away: when its last packet came (monotonic seconds), and for how many seconds."""
        return self._voice.found if self._voice else []

    def seen(self) -> dict[str, Any]:
        """When it asked, connected and got its pictures, monotonic seconds."""
        return {
            "session_id": self.session_id,
            "asked_at": self.asked_at,
            "connected_at": self.connected_at,
            "pictures_at": self._counter.complete_at if self._counter else [],
        }

    def _changed(self) -> None:
        if self._pc.connectionState == "connected":
            self.connected_at = time.monotonic()
            self._connected.set()


async def watch(url: str, count: int, seconds: float, speech: F32, fields: dict[str, Any]) -> dict[str, Any]:
    """All viewers of this process at once, for so many seconds after the last one connected."""
    apply_patches()
    viewers = [LightViewer(speech, fields) for _ in range(count)]
    async with httpx.AsyncClient(base_url=url, timeout=60) as http:
        statuses = await asyncio.gather(*(one.connect(http) for one in viewers), return_exceptions=True)
        await asyncio.sleep(seconds)
        seen = await asyncio.gather(*(one.leave(http) for one in viewers))
    taken = [status for status in statuses if isinstance(status, int) and status < 400]
    refused = [
        status if isinstance(status, int) else type(status).__name__ for status in statuses if status not in taken
    ]
    return {"viewers": [one for one in seen if one["pictures_at"]], "refused": refused}


def main(arguments: list[str] | None = None) -> int:
    """Run some viewers and print what they saw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--speech", type=Path, required=True)
    parser.add_argument("--fps", type=int, default=25)
    chosen = parser.parse_args(arguments)
    speech = decode_audio(chosen.speech).pcm
    found = asyncio.run(watch(chosen.url, chosen.count, chosen.seconds, speech, {"fps": chosen.fps}))
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
