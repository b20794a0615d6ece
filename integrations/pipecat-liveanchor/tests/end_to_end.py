"""A Pipecat pipeline from text to a viewer, in Pipecat's own environment; prints one JSON object.

Fake text-to-speech -> `LiveAnchorVideoService` -> SmallWebRTC -> an aiortc viewer, in this process, against the address of
`benchmarks.agents.click_service`. The old speech clicks in every picture, each time at another sample, so that every picture of it
can be told from all others. Times are taken at the viewer, whose sound is decoded as packets come.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import AsyncGenerator
from typing import Any, Final

import av
import numpy as np
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from aiortc.mediastreams import MediaStreamError
from loguru import logger
from pipecat.frames.frames import EndFrame, Frame, InterruptionFrame, TTSAudioRawFrame, TTSSpeakFrame, TTSStoppedFrame
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineWorker
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.tts_service import TTSService
from pipecat.transports.base_transport import TransportParams
from pipecat.transports.smallwebrtc.connection import SmallWebRTCConnection
from pipecat.transports.smallwebrtc.transport import SmallWebRTCTransport
from pipecat.workers.runner import WorkerRunner

from benchmarks.live.stamped_scene import CLICK_LEVEL, CLICK_SAMPLES, FACE_SIDE, clicks, is_flash, read_stamp
from kernels.arrays import F32
from pipecat_liveanchor.rtp_clock import RtpClock
from pipecat_liveanchor.smallwebrtc import smallwebrtc_params
from pipecat_liveanchor.video import LiveAnchorVideoService

RATE_HZ: Final = 16_000
FRAME: Final = RATE_HZ // 25
TONE_LEVEL: Final = 0.03
LOUD: Final = 0.005
OLD, NEW = "old", "new"
OLD_S, NEW_S, APART_S = 6.0, 2.6, 0.52
CUT_AFTER_S: Final = 1.0
LISTEN_S: Final = 1.2
WAIT_S: Final = 30.0
PIECE_S: Final = 0.1


def speech(text: str) -> F32:
    """float32 (n,), 16 kHz: a soft tone with clicks, one in every picture of `OLD`, one in 0.52 s of `NEW`."""
    seconds, apart = (OLD_S, FRAME) if text.startswith(OLD) else (NEW_S, round(APART_S * RATE_HZ))
    places = np.arange(round(seconds * RATE_HZ))
    voice: F32 = (TONE_LEVEL * np.sin(2 * np.pi * 200 / RATE_HZ * places)).astype(np.float32)
    for number, start in enumerate(range(0, len(voice) - FRAME, apart)):
        place = start + 20 + number * 37 % 560
        voice[place : place + CLICK_SAMPLES] = CLICK_LEVEL
    return voice


class FakeTTS(TTSService):
    """Speaks `speech` as fast as it can."""

    def __init__(self) -> None:
        super().__init__(sample_rate=RATE_HZ, push_start_frame=True, push_stop_frames=True, stop_frame_timeout_s=0.3)

    async def run_tts(self, text: str, context_id: str) -> AsyncGenerator[Frame | None, None]:
        """Yield the speech in pieces of 0.1 s."""
        pcm = (speech(text) * 32767).astype("<i2")
        step = round(PIECE_S * RATE_HZ)
        for start in range(0, len(pcm), step):
            piece = pcm[start : start + step].tobytes()
            yield TTSAudioRawFrame(audio=piece, sample_rate=RATE_HZ, num_channels=1, context_id=context_id)


class Watch(FrameProcessor):
    """Notes when the end of a speech passes."""

    def __init__(self) -> None:
        super().__init__()
        self.stopped_at: list[float] = []

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Pass everything on."""
        await super().process_frame(frame, direction)
        if isinstance(frame, TTSStoppedFrame):
            self.stopped_at.append(time.monotonic())
        await self.push_frame(frame, direction)


class Viewer:
    """Receives what the pipeline sends.

    Attributes:
        loud_at: Monotonic seconds at which packets came that hold sound.
        shown: Pictures: when decoded, place on the sender's clock, and the stamp; None where it does not flash.
        sound: Decoded voice: place on the sender's clock, and float32 samples, 48 kHz.
    """

    def __init__(self) -> None:
        self.loud_at: list[float] = []
        self.shown: list[tuple[float, float | None, int | None]] = []
        self.sound: list[tuple[float | None, F32]] = []
        self._drains: list[asyncio.Task[None]] = []
        self._pc = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self._pc.createDataChannel("chat")
        audio = self._pc.addTransceiver("audio", direction="recvonly").receiver
        video = self._pc.addTransceiver("video", direction="recvonly").receiver
        self._clocks = {"audio": RtpClock(audio, "audio"), "video": RtpClock(video, "video")}
        self._hear_packets(audio)
        self._pc.on("track", lambda track: self._drains.append(asyncio.ensure_future(self._drain(track))))

    async def connect(self, connection: SmallWebRTCConnection) -> None:
        """Offer to the transport's side and take its answer."""
        await self._pc.setLocalDescription(await self._pc.createOffer())
        await connection.initialize(self._pc.localDescription.sdp, "offer")
        answer = connection.get_answer()
        await self._pc.setRemoteDescription(RTCSessionDescription(answer["sdp"], answer["type"]))

    async def close(self) -> None:
        """End the connection."""
        await self._pc.close()
        await asyncio.gather(*self._drains, return_exceptions=True)

    def offsets_ms(self, since: float) -> list[float]:
        """Picture minus voice of every click whose picture was decoded after `since`, milliseconds of media time."""
        pictures = [
            place + stamp / RATE_HZ
            for at, place, stamp in self.shown
            if at > since and place is not None and stamp is not None
        ]
        voice = [place + one / 48_000 for place, one in self._clicks(since)]
        return [1000 * (picture - min(voice, key=lambda one: abs(one - picture))) for picture in pictures if voice]

    def _clicks(self, since: float) -> list[tuple[float, int]]:
        found: list[tuple[float, int]] = []
        run: list[F32] = []
        begins, expected = 0.0, None
        for place, samples in [*self.sound, (None, np.zeros(0, np.float32))]:
            if run and (place is None or expected is None or abs(place - expected) > 0.005):
                found += [(begins, one) for one in clicks(np.concatenate(run))]
                run = []
            if place is not None:
                begins = begins if run else place
                run.append(samples)
                expected = place + len(samples) / 48_000
        return found

    def _hear_packets(self, receiver: Any) -> None:
        decoder, stock = av.CodecContext.create("libopus", "r"), receiver._handle_rtp_packet

        async def handle(packet: Any, arrival_time_ms: int) -> None:
            if packet.payload and packet.payload_type in (96, 111):
                for frame in decoder.decode(av.Packet(packet.payload)):
                    if np.abs(_float(frame)).max() > LOUD:
                        self.loud_at.append(time.monotonic())
            await stock(packet, arrival_time_ms=arrival_time_ms)

        receiver._handle_rtp_packet = handle

    async def _drain(self, track: Any) -> None:
        clock = self._clocks[track.kind]
        try:
            while True:
                frame = await track.recv()
                place = clock.place_s(frame.pts)
                if track.kind == "audio":
                    self.sound.append((place, _float(frame).reshape(-1, len(frame.layout.channels))[:, 0]))
                else:
                    luma = frame.to_ndarray(format="gray")
                    stamp = read_stamp(luma, 0, 0) if is_flash(luma, 0, 0) else None
                    self.shown.append((time.monotonic(), place, stamp))
        except MediaStreamError:
            return


def _float(frame: av.AudioFrame) -> F32:
    samples = frame.to_ndarray()
    scale = 32768.0 if samples.dtype.kind == "i" else 1.0
    return samples.astype(np.float32) / np.float32(scale)


async def _until(condition: Any) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():  # noqa: ASYNC110  # counted in other tasks
            await asyncio.sleep(0.005)


async def _cut(worker: PipelineWorker, viewer: Viewer) -> tuple[float, float]:
    """Interrupt old speech: milliseconds until its last sound and its last new picture came."""
    await worker.queue_frame(TTSSpeakFrame(OLD))
    before, began = len(viewer.loud_at), time.monotonic()
    await _until(lambda: len(viewer.loud_at) > before)
    await asyncio.sleep(max(0.0, viewer.loud_at[before] + CUT_AFTER_S - time.monotonic()))
    at = time.monotonic()
    await worker.queue_frame(InterruptionFrame())
    await asyncio.sleep(LISTEN_S)
    seen: dict[int, float] = {}
    for when, _, stamp in viewer.shown:
        if when > began and stamp is not None:
            seen.setdefault(stamp, when)
    if not seen:
        raise RuntimeError("no picture of the old speech was seen")
    return 1000 * max(viewer.loud_at[-1] - at, 0.0), 1000 * max(max(seen.values()) - at, 0.0)


async def _say(worker: PipelineWorker, viewer: Viewer, watch: Watch) -> list[float]:
    """Speak the next sentence to its end: how far its pictures are from its clicks, in milliseconds."""
    began, ends = time.monotonic(), len(watch.stopped_at)
    await worker.queue_frame(TTSSpeakFrame(NEW))
    await _until(lambda: len(watch.stopped_at) > ends)
    await asyncio.sleep(0.5)
    return viewer.offsets_ms(began)


def stock_params() -> TransportParams:
    """Parameters as Pipecat's own examples for presenters have them."""
    return TransportParams(
        audio_out_enabled=True,
        video_out_enabled=True,
        video_out_is_live=True,
        video_out_width=FACE_SIDE,
        video_out_height=FACE_SIDE,
        video_out_framerate=25,
    )


async def measure(url: str, count: int, stock: bool = False) -> dict[str, Any]:
    """Interrupt `count` times, and speak a sentence after each; `stock` leaves the transport as it comes."""
    connection, viewer, watch = SmallWebRTCConnection(), Viewer(), Watch()
    await viewer.connect(connection)
    transport = SmallWebRTCTransport(connection, stock_params() if stock else smallwebrtc_params(FACE_SIDE, FACE_SIDE))
    service = LiveAnchorVideoService(base_url=url)
    pipeline = Pipeline([FakeTTS(), service, watch, transport.output()])
    worker = PipelineWorker(pipeline, cancel_on_idle_timeout=False)
    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(worker)
    running = asyncio.create_task(runner.run())
    found: dict[str, list[float]] = {"sound_tail_ms": [], "picture_tail_ms": [], "offset_ms": []}
    try:
        await _speak_and_cut(worker, viewer, watch, count, found)
        await worker.queue_frame(EndFrame())
        async with asyncio.timeout(WAIT_S):
            await running
    finally:
        await runner.cancel()
        await viewer.close()
    return found | {"sentences": count, "stops": len(watch.stopped_at), "pictures": len(viewer.shown)}


async def _speak_and_cut(
    worker: PipelineWorker, viewer: Viewer, watch: Watch, count: int, found: dict[str, list[float]]
) -> None:
    await _until(lambda: len(viewer.shown) > 25)
    for number in range(count + 1):  # the first one is left out: encoders and decoders are made in it
        sound_ms, picture_ms = await _cut(worker, viewer)
        offsets = await _say(worker, viewer, watch)
        if number:
            found["sound_tail_ms"].append(sound_ms)
            found["picture_tail_ms"].append(picture_ms)
            found["offset_ms"] += offsets


def main(arguments: list[str] | None = None) -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True)
    parser.add_argument("--count", type=int, default=5)
    parser.add_argument("--stock", action="store_true", help="the transport as it comes: what lip sync is then")
    options = parser.parse_args(arguments)
    logger.remove()
    logger.add(sys.stderr, level="WARNING")
    print(json.dumps(asyncio.run(measure(options.url, options.count, options.stock))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
