"""Publishing by RTMP, for ingests without WHIP: the coded pictures as they are, the voice as AAC, from a process of its own."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import structlog
from aiortc.codecs.h264 import h264_depayload

from pipeline.fetch.fetcher import Fetcher, UrlUnreachableError
from pipeline.publish import rtmp_pusher
from pipeline.publish.errors import IngestRefusedError, IngestUnreachableError
from pipeline.publish.rtmp_place import RtmpPlace, read_place
from pipeline.publish.settings import PublishSettings
from pipeline.publish.target import PublishTarget
from pipeline.webrtc.hub import LiveHub
from pipeline.webrtc.packets import PacketQueue, QueueClosed
from pipeline.webrtc.peer_stats import PeerStats, SendRate

OPEN_S: Final = 15.0
"""Longest wait until the server has taken the stream."""
STALL_S: Final = 10.0
"""A server that takes nothing for so long is gone."""
CLOSE_S: Final = 2.0


class RtmpConnection:
    """Implements `pipeline.publish.connection.Connection` by RTMP. RTMP has no reports: the bit rate follows other viewers alone.

    Args:
        hub: What is sent.
        fetcher: Looks the host up, and refuses addresses that may not be reached.
        target: The server.
        settings: What is allowed.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        hub: LiveHub,
        fetcher: Fetcher,
        target: PublishTarget,
        settings: PublishSettings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._hub = hub
        self._fetcher = fetcher
        self._target = target
        self._settings = settings
        self._sent = SendRate(clock)
        self._process: subprocess.Popen[bytes] | None = None
        self._queues: list[PacketQueue] = []
        self._pumps: list[asyncio.Task[None]] = []
        self._down = asyncio.Event()
        self._live = False
        self._writer = ThreadPoolExecutor(1, "rtmp-writer")  # a pipe blocks, whatever the loop is
        self._watcher = ThreadPoolExecutor(1, "rtmp-watcher")

    async def open(self) -> None:
        """Begin to send, and wait until the server has taken the stream.

        Raises:
            UrlRefusedError: The host may not be reached.
            IngestRefusedError: It has no address.
            IngestUnreachableError: The server does not answer, or refuses the stream: RTMP does not tell one from the other.
        """
        place = read_place(self._target.url, "url", self._settings.ports)
        try:
            address = await self._fetcher.address_of(place.host, "url")
        except UrlUnreachableError as error:
            raise IngestRefusedError("url", "a host without an address", "the address of an RTMP server") from error
        process = self._process = self._start(place, address)
        kinds: tuple[Any, ...] = ("video", "audio") if self._hub.echo else ("video",)
        self._queues = [self._hub.subscribe(kind) for kind in kinds]
        self._pumps = [asyncio.create_task(self._pump(queue), name="rtmp-pump") for queue in self._queues]
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(OPEN_S):
                told = await loop.run_in_executor(self._watcher, _first_line, process)
        except TimeoutError as error:
            raise IngestUnreachableError(f"{self._target.shown} did not answer within {OPEN_S:g} s") from error
        if told != rtmp_pusher.LIVE:
            raise IngestUnreachableError(f"{self._target.shown} does not take the stream")
        self._live = True
        loop.run_in_executor(self._watcher, process.wait).add_done_callback(lambda _: self._down.set())

    async def over(self) -> None:
        """Wait until the server is gone or takes nothing any more."""
        await self._down.wait()

    async def close(self) -> None:
        """End the stream, or kill what does not end."""
        self._live = False
        for task in self._pumps:
            task.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)
        for queue in self._queues:
            self._hub.unsubscribe(queue)
        if (process := self._process) is not None:
            self._process = None
            try:
                async with asyncio.timeout(CLOSE_S):
                    await asyncio.get_running_loop().run_in_executor(self._writer, _finish, process)
            except TimeoutError:
                structlog.get_logger("liveanchor.publish").info("rtmp_stream_killed", target=self._target.shown)
            process.kill()
        for pool in (self._writer, self._watcher):
            pool.shutdown(wait=False)

    def stats(self) -> PeerStats:
        """What was sent so far; RTMP tells nothing of losses."""
        fps, kbps = self._sent.rates()
        video = next((one for one in self._queues if one.kind == "video"), None)
        return PeerStats(
            state="connected" if self._live else "connecting",
            fps_out=fps,
            bitrate_kbps=kbps,
            packets_lost=0,
            fraction_lost=0.0,
            jitter_ms=0.0,
            round_trip_ms=None,
            nacked_packets=0,
            key_requests=0,
            estimate_kbps=None,
            queue_depth=0 if video is None else len(video),
            queue_overflows=0 if video is None else video.overflows,
            units_dropped=0 if video is None else video.dropped,
            connected_after_s=None,
            first_picture_after_s=None,
            microphone=None,
            send_offset_ms=None,
        )

    def _start(self, place: RtmpPlace, address: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-P", rtmp_pusher.__file__]  # secrets go through the pipe: others see a command line
        process = subprocess.Popen(  # noqa: S603  # our own module
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        asked = {"url": place.target(address), "options": place.options, "voice": self._hub.echo}
        _write(process, json.dumps(asked).encode() + b"\n")
        return process

    async def _pump(self, queue: PacketQueue) -> None:
        is_video = queue.kind == "video"
        loop, process = asyncio.get_running_loop(), self._process
        if process is None:
            return
        try:
            while True:
                unit = await queue.get()
                data = b"".join(map(h264_depayload, unit.payloads)) if is_video else unit.payloads[0]
                entry = rtmp_pusher.record(is_video, unit.key, unit.timestamp, data)
                async with asyncio.timeout(STALL_S if self._live else OPEN_S):
                    await loop.run_in_executor(self._writer, _write, process, entry)
                if is_video and self._live:
                    self._sent.add(unit.size)
        except (QueueClosed, OSError, TimeoutError):
            self._down.set()


def _write(process: subprocess.Popen[bytes], data: bytes) -> None:
    if process.stdin is not None:
        process.stdin.write(data)
        process.stdin.flush()


def _first_line(process: subprocess.Popen[bytes]) -> bytes:
    return process.stdout.readline() if process.stdout is not None else b""


def _finish(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        try:
            process.stdin.close()
        except OSError:  # it is gone already
            return
    process.wait()
