"""A client of a live session in a process of its own, measuring what a viewer gets.

    python -m benchmarks.live.client --url http://127.0.0.1:8000 --seconds 20 --speech speech.wav --field drive=mic

connects by `POST /stream/webrtc/offer`, sends a microphone (a file, optionally with a clock error and packet loss), decodes
picture and voice as they come, and prints one JSON object. Times are of this machine's clocks, so client and server must share
one. What is reported is described at `report`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import av
import httpx
import numpy as np
from aiortc import MediaStreamTrack, RTCConfiguration, RTCPeerConnection, RTCRtpReceiver, RTCSessionDescription
from aiortc.mediastreams import MediaStreamError
from aiortc.rtcrtpparameters import RTCRtpCapabilities

from benchmarks.live.client_rtc import ReportClock, SpeechTrack, ask_again, lose_packets
from benchmarks.live.mouth import mesh_apertures, openings
from benchmarks.live.stamped_scene import clicks, is_flash, read_stamp
from kernels.arrays import F32, U8
from pipeline.media.audio_container import AudioLimits
from pipeline.media.audio_in import decode_audio
from pipeline.types import SAMPLE_RATE_HZ
from pipeline.webrtc.rtc_patches import apply_patches

FLASHES_APART = 45_000
"""Half a second on the video clock."""
FURTHEST_S = 0.4
"""A click further from a flash than this belongs to another."""
STAMP_MASK = (1 << 48) - 1
OWN_FILE_S = 7200.0
"""Longest file that the microphone plays."""


@dataclass(frozen=True)
class ClientOptions:
    """Says how one client behaves.

    Attributes:
        url: Address of the server, without a path.
        seconds: Seconds from the first picture to the end.
        warm_s: Seconds after the first picture that are left out of intervals and latencies.
        fields: Further fields of the offer: avatar_id, fps, drive, echo.
        headers: Headers of the offer, such as an authorization.
        speech: Microphone, float32 (n,), 16 kHz; silence afterwards; None sends no microphone.
        speech_after_s: Seconds of silence before the speech.
        ppm: Parts per million by which the microphone's clock is fast.
        loss: Share of packets dropped each way.
        stamp_at: Left top of a stamped face in the picture; None where pictures carry no stamp. A stamped server's own word counts.
        mouths: Whether to keep pictures around each onset of speech and measure when the mouth opened.
        weights: Folder of the face mesh, for `mouths`.
        delete: Whether to DELETE the session at the end (else the connection is closed).
    """

    url: str
    seconds: float = 10.0
    warm_s: float = 2.0
    fields: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    speech: F32 | None = None
    speech_after_s: float = 3.0
    ppm: float = 0.0
    loss: float = 0.0
    stamp_at: tuple[int, int] | None = None
    mouths: bool = False
    weights: Path | None = None
    delete: bool = True


@dataclass
class _Seen:
    """What came, in order."""

    offer_answer_s: float = 0.0
    connected_s: float | None = None
    size: tuple[int, int] = (0, 0)
    pictures_at: list[float] = field(default_factory=list)
    pictures_pts: list[int] = field(default_factory=list)
    wall_at: list[float] = field(default_factory=list)
    stamp_ms: list[float] = field(default_factory=list)
    flashes: list[tuple[int, float]] = field(default_factory=list)  # pts; seconds from its begin to the click
    sound: list[tuple[int, F32]] = field(default_factory=list)
    kept: list[tuple[float, U8]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)


class LiveClient:
    """Makes one connection; `run` does everything and gives the report.

    Args:
        options: What to do.
        on_picture: Also told of every decoded picture: monotonic seconds, frame.
    """

    def __init__(
        self, options: ClientOptions, on_picture: Callable[[float, av.VideoFrame], None] | None = None
    ) -> None:
        apply_patches()
        self.options = options
        self._on_picture = on_picture
        self._seen = _Seen()
        self._stamp_at = options.stamp_at
        self._stamps_click = False
        self._clocks: dict[str, ReportClock] = {}
        self._speech = (
            SpeechTrack(options.speech, options.speech_after_s, options.ppm) if options.speech is not None else None
        )
        self._tasks: list[asyncio.Task[None]] = []
        self._first = asyncio.Event()
        self._answered_at = 0.0
        self._connected_at = 0.0
        self._pc = RTCPeerConnection(RTCConfiguration(iceServers=[]))

    async def run(self) -> dict[str, Any]:
        """Connect, watch, leave.

        Raises:
            TimeoutError: No picture within 20 s.
            httpx.HTTPStatusError: The server refused.
        """
        used = _cpu_s()
        async with httpx.AsyncClient(base_url=self.options.url, headers=self.options.headers, timeout=30) as http:
            session_id = await self._connect(http)
            try:
                async with asyncio.timeout(20):
                    await self._first.wait()
                await asyncio.sleep(self.options.seconds)
                lost = await self._packets_lost()
                if self.options.delete and session_id:
                    await http.delete(f"/stream/webrtc/{session_id}")
            finally:
                await self._leave()
        return self.report() | {"session_id": session_id, "packets_lost": lost, "client_cpu_s": _cpu_s() - used}

    def report(self) -> dict[str, Any]:
        """What was seen.

        * `offer_answer_ms`, `connected_ms` (from the answer), `first_frame_ms` (from connected to the first decoded picture);
        * `fps`, `interval_ms` (p50, p95, p99, max) and `pictures`, after the warm-up;
        * `stamp_ms` (p50, p95): time written into a picture to time decoded; null without stamps;
        * `clock_ms` (p50, p95): the picture's instant by RTCP sender reports to time decoded, valid where the server's
          media clock is tied to the wall clock when a picture is made;
        * `av_offset_ms` (median, p95_abs, max_abs, n, drift_10min): flash against click, both placed by sender reports, positive
          where the voice is late;
        * `mouth`: per onset of speech, milliseconds from sending its first sample to the decoded picture with an open mouth.
        """
        seen = self._seen
        since = (seen.pictures_at[0] if seen.pictures_at else 0.0) + self.options.warm_s
        late = [index for index, at in enumerate(seen.pictures_at) if at >= since]
        times = np.array([seen.pictures_at[index] for index in late])
        clock = self._clocks.get("video")
        made = [clock.instant(seen.pictures_pts[index]) if clock else None for index in late]
        by_clock = [(seen.wall_at[index] - at) * 1000 for index, at in zip(late, made, strict=True) if at is not None]
        return {
            "offer_answer_ms": seen.offer_answer_s * 1000,
            "connected_ms": None if seen.connected_s is None else seen.connected_s * 1000,
            "first_frame_ms": (seen.pictures_at[0] - self._connected_at) * 1000 if seen.pictures_at else None,
            "size": seen.size,
            "pictures": len(late),
            "fps": (len(times) - 1) / (times[-1] - times[0]) if len(times) > 1 else None,
            "interval_ms": _spread(np.diff(times) * 1000, (50, 95, 99, 100)),
            "stamp_ms": _spread(seen.stamp_ms, (5, 50, 95)),
            "clock_ms": _spread(by_clock, (5, 50, 95)),
            "av_offset_ms": self._av_offset(),
            "mouth": self._mouths(),
            "events": seen.events,
        }

    async def _connect(self, http: httpx.AsyncClient) -> str:
        pc = self._pc
        video = pc.addTransceiver("video", direction="recvonly")
        codecs = cast(RTCRtpCapabilities, RTCRtpReceiver.getCapabilities("video")).codecs
        video.setCodecPreferences([one for one in codecs if one.mimeType in ("video/H264", "video/rtx")])
        if self._speech is not None:
            pc.addTrack(self._speech)
        else:
            pc.addTransceiver("audio", direction="recvonly")
        pc.createDataChannel("events").on("message", lambda text: self._seen.events.append(json.loads(text)))
        pc.on("track", lambda track: self._tasks.append(asyncio.ensure_future(self._drain(track))))
        pc.on("connectionstatechange", self._state_changed)
        await pc.setLocalDescription(await pc.createOffer())
        await http.get("/stream/webrtc/ice-servers")  # as the web page does; the connection is open then
        began = time.monotonic()
        body = {"sdp": pc.localDescription.sdp, "type": "offer", **self.options.fields}
        response = await http.post("/stream/webrtc/offer", json=body)
        response.raise_for_status()
        self._answered_at = time.monotonic()
        self._seen.offer_answer_s = self._answered_at - began
        answer = response.json()
        if "stamp_at" in answer:
            self._stamp_at = (answer["stamp_at"][0], answer["stamp_at"][1])
        self._stamps_click = answer.get("stamp_holds") == "click"
        await pc.setRemoteDescription(RTCSessionDescription(answer["sdp"], answer["type"]))
        self._tasks.append(asyncio.create_task(ask_again(video.receiver)))
        for receiver in pc.getReceivers():
            self._clocks[receiver.track.kind if receiver.track else ""] = ReportClock(receiver)
        if self.options.loss:
            lose_packets(pc, self.options.loss)
        return str(answer.get("session_id", ""))

    async def _leave(self) -> None:
        await self._pc.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _state_changed(self) -> None:
        if self._pc.connectionState == "connected" and self._seen.connected_s is None:
            self._connected_at = time.monotonic()
            self._seen.connected_s = self._connected_at - self._answered_at

    async def _drain(self, track: MediaStreamTrack) -> None:
        with suppress(MediaStreamError):
            while True:
                frame: Any = await track.recv()
                if track.kind == "video":
                    self._saw(frame)
                else:
                    self._seen.sound.append((frame.pts, frame.to_ndarray()[0, ::2].astype(np.float32) / 32768))

    def _saw(self, frame: av.VideoFrame) -> None:
        seen, now, wall = self._seen, time.monotonic(), time.time()
        seen.size = (frame.width, frame.height)
        seen.pictures_at.append(now)
        seen.pictures_pts.append(frame.pts or 0)
        seen.wall_at.append(wall)
        self._first.set()
        if self._stamp_at is not None:
            plane = frame.planes[0]
            luma = np.frombuffer(memoryview(plane), np.uint8).reshape(frame.height, plane.line_size)
            stamp = read_stamp(luma, *self._stamp_at)
            if now - seen.pictures_at[0] >= self.options.warm_s and not self._stamps_click:
                seen.stamp_ms.append(((int(wall * 1e6) - stamp) & STAMP_MASK) / 1000)
            # A lost picture may leave a flash standing: only its first picture counts.
            last = seen.flashes[-1][0] if seen.flashes else -FLASHES_APART
            if is_flash(luma, *self._stamp_at) and (frame.pts or 0) - last >= FLASHES_APART:
                seen.flashes.append((frame.pts or 0, stamp / SAMPLE_RATE_HZ if self._stamps_click else 0.0))
        if self.options.mouths and self._speech is not None and self._speech.near_onset(now):
            seen.kept.append((now, np.asarray(frame.to_ndarray(), np.uint8)))
        if self._on_picture is not None:
            self._on_picture(now, frame)

    def _av_offset(self) -> dict[str, float] | None:
        video, audio = self._clocks.get("video"), self._clocks.get("audio")
        if video is None or audio is None or not self._seen.flashes or not self._seen.sound:
            return None
        origin = self._seen.sound[0][0]
        whole = np.zeros(self._seen.sound[-1][0] - origin + 4800, np.float32)
        for pts, block in self._seen.sound:
            whole[pts - origin : pts - origin + len(block)] = block
        heard = np.array([at for at in (audio.instant(origin + place) for place in clicks(whole)) if at is not None])
        placed = [(video.instant(pts), into_s) for pts, into_s in self._seen.flashes]
        seen = [at + into_s for at, into_s in placed if at is not None]
        pairs = [(at, heard[np.argmin(np.abs(heard - at))] - at) for at in seen if len(heard)]
        pairs = [(at, offset) for at, offset in pairs if abs(offset) < FURTHEST_S]
        if not pairs:
            return None
        instants, offsets = (np.array(values) for values in zip(*pairs, strict=True))
        slope = float(np.polyfit(instants - instants[0], offsets, 1)[0]) if len(pairs) > 2 else 0.0
        return {
            "median": float(np.median(offsets)) * 1000,
            "p95_abs": float(np.percentile(np.abs(offsets), 95)) * 1000,
            "max_abs": float(np.max(np.abs(offsets))) * 1000,
            "n": float(len(pairs)),
            "drift_10min": slope * 600 * 1000,
        }

    def _mouths(self) -> list[float | None]:
        if not self.options.mouths or self._speech is None or self.options.weights is None:
            return []
        return openings(self._seen.kept, self._speech.onsets_at, mesh_apertures(self.options.weights))

    async def _packets_lost(self) -> int:
        report = await self._pc.getStats()
        return sum(int(one.packetsLost) for one in report.values() if one.type == "inbound-rtp")


def _spread(values: Any, percents: tuple[int, ...]) -> dict[str, float] | None:
    if not len(values):
        return None
    return {"max" if one == 100 else f"p{one}": float(np.percentile(values, one)) for one in percents}


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main(arguments: list[str] | None = None) -> int:
    """Run one client and print its report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--speech", type=Path)
    parser.add_argument("--ppm", type=float, default=0.0)
    parser.add_argument("--loss", type=float, default=0.0)
    parser.add_argument("--stamp-at", help="x,y of a stamped face")
    parser.add_argument("--mouths", type=Path, metavar="WEIGHTS", help="folder with the face mesh")
    parser.add_argument("--field", action="append", default=[], metavar="NAME=VALUE", help="further field of the offer")
    parser.add_argument("--token", default="", help="bearer token")
    options = parser.parse_args(arguments)
    pairs = (one.split("=", 1) for one in options.field)
    client_options = ClientOptions(
        url=options.url,
        seconds=options.seconds,
        fields={name: _value(text) for name, text in pairs},
        headers={"Authorization": f"Bearer {options.token}"} if options.token else {},
        speech=decode_audio(options.speech, AudioLimits(max_seconds=OWN_FILE_S)).pcm if options.speech else None,
        ppm=options.ppm,
        loss=options.loss,
        stamp_at=_place(options.stamp_at),
        mouths=options.mouths is not None,
        weights=options.mouths,
    )

    async def once() -> dict[str, Any]:
        return await LiveClient(client_options).run()

    print(json.dumps(asyncio.run(once())))
    return 0


def _place(text: str | None) -> tuple[int, int] | None:
    if not text:
        return None
    x, y = (int(one) for one in text.split(","))
    return x, y


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


if __name__ == "__main__":
    sys.exit(main())
