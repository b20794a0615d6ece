"""A session and clients for tests of the transport: ticks in real time, aiortc as the client, one process."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from aiortc import MediaStreamTrack, RTCConfiguration, RTCPeerConnection, RTCRtpReceiver, RTCSessionDescription
from aiortc.mediastreams import MediaStreamError
from aiortc.rtp import RtcpSrPacket

from pipeline.config import EncoderSettings
from pipeline.live.contracts import VideoTick, VoiceTick
from pipeline.live.settings import RtcSettings
from pipeline.types import Nv12Canvas, Nv12Rect
from pipeline.webrtc.hub import LiveHub
from pipeline.webrtc.packets import QueueClosed
from pipeline.webrtc.peer import LivePeer
from pipeline.webrtc.rtc_patches import apply_patches

SIDE = 128
BLOCK = 16
ENCODER = EncoderSettings(prefer="x264", threads=1)
RTC = RtcSettings(max_kbps=6000)


def grey_canvas(side: int = SIDE) -> Nv12Canvas:
    return Nv12Canvas(np.full((side, side), 126, np.uint8), np.full((side // 2, side), 128, np.uint8))


def numbered_rect(index: int, side: int = SIDE) -> Nv12Rect:
    """A rectangle whose 8 x 2 blocks spell `index` in black and white."""
    y = np.zeros((2 * BLOCK, side), np.uint8)
    for bit in range(16):
        row, column = divmod(bit, side // BLOCK)
        y[row * BLOCK : (row + 1) * BLOCK, column * BLOCK : (column + 1) * BLOCK] = 235 if index >> bit & 1 else 16
    return Nv12Rect(0, 32, side, 2 * BLOCK, y, np.full((BLOCK, side), 128, np.uint8))


def number_of(luma: np.ndarray) -> int:
    """What a decoded picture spells."""
    value = 0
    for bit in range(16):
        row, column = divmod(bit, luma.shape[1] // BLOCK)
        block = luma[32 + row * BLOCK + 4 : 32 + row * BLOCK + 12, column * BLOCK + 4 : column * BLOCK + 12]
        value |= int(block.mean() > 125) << bit
    return value


class Ticker:
    """Drives a hub as a session does: one tick per frame, in real time."""

    def __init__(self, hub: LiveHub, fps: int, voice: Callable[[int], np.ndarray] | None = None) -> None:
        self.hub = hub
        self.fps = fps
        self.index = 0
        self.repeats = False
        self._voice = voice or (lambda start: np.zeros(16_000 // fps, np.float32))
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        began = time.monotonic()
        while True:
            rect = None if self.repeats else numbered_rect(self.index)
            self.hub.video(VideoTick(self.index, self.index / self.fps, rect))
            samples = 16_000 // self.fps
            self.hub.voice(VoiceTick(self._voice(self.index * samples), self.index * samples, False))
            self.index += 1
            await asyncio.sleep(max(0.0, began + self.index / self.fps - time.monotonic()))

    async def stop(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task


@asynccontextmanager
async def running_hub(fps: int = 25, **more: Any) -> AsyncIterator[tuple[LiveHub, Ticker]]:
    voice = more.pop("voice", None)
    hub = LiveHub(grey_canvas(), fps, more.pop("encoder", ENCODER), more.pop("rtc", RTC), **more)
    ticker = Ticker(hub, fps, voice)
    try:
        yield hub, ticker
    finally:
        await ticker.stop()
        await hub.close()


class KeyFrames:
    """Which of the pictures that a hub hands out are key frames, and how many there had been when one was asked for.

    Made before the peers, whose senders keep the hub's method.
    """

    def __init__(self, hub: LiveHub) -> None:
        self.keys: list[bool] = []
        self.asked_at: list[int] = []
        self._stock = hub.request_key
        hub.request_key = self._asked  # type: ignore[method-assign]
        self._queue = hub.subscribe("video")
        self._task = asyncio.get_running_loop().create_task(self._take())

    async def late(self) -> int:
        """Pictures between the first request and the key frame that answers it: what was encoded or waited at that moment."""
        await until(lambda: bool(self.asked_at) and any(self.keys[self.asked_at[0] :]))
        return self.keys[self.asked_at[0] :].index(True)

    def _asked(self) -> None:
        self.asked_at.append(len(self.keys))
        self._stock()

    async def _take(self) -> None:
        with suppress(QueueClosed):
            while True:
                self.keys.append((await self._queue.get()).key)


class Tone(MediaStreamTrack):
    """A microphone: a steady tone, optionally in two channels, paced by the clock."""

    kind = "audio"

    def __init__(self, hz: float = 440.0, level: float = 0.5, layout: str = "mono") -> None:
        super().__init__()
        self._hz, self._level, self._layout = hz, level, layout
        self._count = 0
        self._began: float | None = None

    async def recv(self) -> av.AudioFrame:
        if self._began is None:
            self._began = time.monotonic()
        await asyncio.sleep(max(0.0, self._began + self._count * 0.02 - time.monotonic()))
        places = np.arange(self._count * 960, (self._count + 1) * 960)
        wave = np.rint(self._level * 32767 * np.sin(2 * np.pi * self._hz * places / 48_000)).astype(np.int16)
        data = wave[None] if self._layout == "mono" else np.repeat(wave, 2)[None]
        frame = av.AudioFrame.from_ndarray(data, format="s16", layout=self._layout)
        frame.sample_rate, frame.pts, frame.time_base = 48_000, self._count * 960, Fraction(1, 48_000)
        self._count += 1
        return frame


class Client:
    """An aiortc peer that offers, receives and remembers.

    Attributes:
        forgets: From when it is set, pictures are counted in `times` alone: 25 a second of 720 x 1280 are 35 MB.
    """

    def __init__(
        self,
        *,
        audio: str | None = "recvonly",
        video: str = "recvonly",
        microphone: MediaStreamTrack | None = None,
        audio_first: bool = False,
        data_first: bool = False,
        pc: RTCPeerConnection | None = None,
    ) -> None:
        apply_patches()
        own = RTCConfiguration(iceServers=[], alwaysNegotiateDataChannels=data_first)
        self.pc = pc or RTCPeerConnection(own)
        self.pictures: list[av.VideoFrame] = []
        self.sound: list[av.AudioFrame] = []
        self.times: list[float] = []
        self.forgets = False
        self.reports: dict[str, list[tuple[int, int]]] = {"video": [], "audio": []}
        self.messages: list[str] = []
        self._tasks: list[asyncio.Task[None]] = []
        if audio_first:
            self._offer_audio(audio, microphone)
        transceiver = self.pc.addTransceiver("video", direction=video)
        capabilities = RTCRtpReceiver.getCapabilities("video").codecs
        transceiver.setCodecPreferences([one for one in capabilities if one.mimeType in ("video/H264", "video/rtx")])
        if not audio_first:
            self._offer_audio(audio, microphone)
        self.pc.on("track", self._track)

    def _offer_audio(self, audio: str | None, microphone: MediaStreamTrack | None) -> None:
        if microphone is not None:
            self.pc.addTrack(microphone)
        elif audio is not None:
            self.pc.addTransceiver("audio", direction=audio)

    def channel(self, label: str = "events") -> Any:
        channel = self.pc.createDataChannel(label)
        channel.on("message", self.messages.append)
        return channel

    def _track(self, track: MediaStreamTrack) -> None:
        self._tasks.append(asyncio.get_running_loop().create_task(self._drain(track)))

    async def _drain(self, track: MediaStreamTrack) -> None:
        with suppress(MediaStreamError):
            while True:
                frame: Any = await track.recv()
                if track.kind == "video":
                    self.times.append(time.monotonic())
                    if not self.forgets:
                        self.pictures.append(frame)
                else:
                    self.sound.append(frame)

    async def offer(self) -> str:
        await self.pc.setLocalDescription(await self.pc.createOffer())
        return str(self.pc.localDescription.sdp)

    async def accept(self, answer: str) -> None:
        await self.pc.setRemoteDescription(RTCSessionDescription(answer, "answer"))
        for receiver in self.pc.getReceivers():
            self._watch_reports(receiver)

    def _watch_reports(self, receiver: Any) -> None:
        stock = receiver._handle_rtcp_packet
        kind = receiver._RTCRtpReceiver__kind

        async def handle(packet: Any) -> None:
            if isinstance(packet, RtcpSrPacket):
                self.reports[kind].append((packet.sender_info.ntp_timestamp, packet.sender_info.rtp_timestamp))
            await stock(packet)

        receiver._handle_rtcp_packet = handle

    @property
    def video_receiver(self) -> Any:
        return next(one for one in self.pc.getReceivers() if one._RTCRtpReceiver__kind == "video")

    async def close(self) -> None:
        await self.pc.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def until(condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
    """Wait for something that another task brings about; a busy machine may take its time."""
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110  # the libraries under test offer nothing to wait for
            await asyncio.sleep(0.005)


def resident_bytes() -> int:
    """Memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def threads() -> int:
    """Of this process, less those of loops' own pools: they grow to their bound as it happens, and stay."""
    return sum(not thread.name.startswith("asyncio_") for thread in threading.enumerate())


def usage() -> tuple[int, int, int]:
    """Threads, open files and tasks."""
    return threads(), len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks())


async def down_to(before: tuple[int, int, int], spare: int = 3) -> None:
    """No part of the usage stays above `before` by more than `spare`.

    A thread or a task that has said that it ends may still be ending, and whatever else runs in this process, as Ray does after its
    tests, opens and closes files of its own; what every tenth session left behind would be more.
    """
    try:
        await until(lambda: all(now <= then + spare for now, then in zip(usage(), before, strict=True)))
    except TimeoutError as error:
        raise AssertionError(f"(threads, files, tasks): {usage()}, before {before}") from error


async def connected(hub: LiveHub, client: Client, rtc: RtcSettings = RTC, **more: Any) -> LivePeer:
    """A peer of the hub, once its client has come."""
    peer = LivePeer(hub, rtc, **more)
    await client.accept(await peer.answer(await client.offer()))
    await until(lambda: peer.state == "connected")
    return peer


def session(
    body: Callable[[LiveHub, Ticker, Client], Any], fps: int = 25, client: Callable[[], Client] = Client, **more: Any
) -> Any:
    """Run `body` with a ticking hub and a client, and leave nothing behind."""

    async def run() -> Any:
        async with running_hub(fps, **more) as (hub, ticker):
            one = client()
            try:
                return await body(hub, ticker, one)
            finally:
                await one.close()

    return asyncio.run(run())
