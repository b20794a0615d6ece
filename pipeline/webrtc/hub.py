"""The media of a session, encoded once and handed to every viewer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kernels.errors import LiveAnchorError
from kernels.nv12.colour import ColourName
from pipeline.clock import rate_of
from pipeline.config import EncoderSettings
from pipeline.live.contracts import LiveEvent, VideoTick, VoiceTick
from pipeline.live.settings import RtcSettings
from pipeline.media.encoder import VideoFormat
from pipeline.media.encoder_select import EncoderSelector, default_selector
from pipeline.media.h264_level import h264_level
from pipeline.types import Nv12Canvas
from pipeline.webrtc.bitrate import BitrateControl
from pipeline.webrtc.encoder_thread import EncoderThread
from pipeline.webrtc.live_video import LiveVideo
from pipeline.webrtc.packets import EncodedUnit, MediaKind, PacketQueue
from pipeline.webrtc.voice_encoder import FRAME_S, FRAME_SAMPLES, VoiceEncoder

QUEUE_LIMIT: dict[MediaKind, int] = {"video": 8, "audio": 50}
"""Units that may wait for one viewer: 320 ms of pictures at 25 frames/s, 1 s of voice."""
NTP_UNIX_OFFSET_S = 2_208_988_800
"""Seconds from 1900, where NTP begins, to 1970."""
JOIN_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class HubStats:
    """What a session's encoder did so far.

    Attributes:
        encoder: FFmpeg's name; empty before the first picture.
        frames_encoded: Pictures encoded.
        frames_dropped: Pictures dropped because the encoder was late.
        frames_repeated: Ticks that brought no new picture.
        frames_left_out: How many of these were not sent, because the viewer has the picture already.
        key_frames: Key frames made.
        encoder_reopened: Times that a large change of the rate took a new encoder.
        bitrate_kbps: Rate in force.
        bytes_encoded: Bytes of all pictures.
        encode_p50_ms: Median time of painting and encoding one picture.
        encode_p95_ms: 95th percentile of it.
        queue_depth: Pictures that wait for the encoder.
        viewers: Viewers that take pictures now.
        voice_dropped: Voice ticks dropped because the encoder stood for a second.
        encoder_cpu_s: Processor time of the encoder's thread, its helper threads left out.
    """

    encoder: str
    frames_encoded: int
    frames_dropped: int
    frames_repeated: int
    frames_left_out: int
    key_frames: int
    encoder_reopened: int
    bitrate_kbps: int
    bytes_encoded: int
    encode_p50_ms: float | None
    encode_p95_ms: float | None
    queue_depth: int
    viewers: int
    voice_dropped: int
    encoder_cpu_s: float


class LiveHub:
    """Takes what a session makes (`pipeline.live.contracts.LiveSink`), encodes it once, hands it to any number of peers.

    All methods belong to the event loop that runs at construction. `video` and `voice` never block: a thread of the hub's
    own paints and encodes (`EncoderThread`), and what comes too late for it is dropped and counted. Ticks without a rectangle
    are the first to be dropped, and of a row of them one in 100 ms is sent. While there is no viewer, nothing is encoded.

    Args:
        canvas: The picture under the rectangles; copied.
        fps: Frames per second of the ticks; 59.94 stands for 60000/1001.
        encoder: Presets and preference; the bit rate comes from `rtc`.
        rtc: Bit rates.
        colour: What the rectangles were made with.
        echo: Whether the voice is sent.
        session_id: For the thread's name.
        clock: Monotonic seconds.
        wall_clock: Unix seconds, for the sender reports.
        selector: Opens encoders.
        on_failure: Called on the loop when encoding failed for good.

    Raises:
        InvalidInputError: Sizes or rates that H.264 does not allow.
    """

    def __init__(
        self,
        canvas: Nv12Canvas,
        fps: float,
        encoder: EncoderSettings,
        rtc: RtcSettings,
        colour: ColourName = "bt709",
        echo: bool = True,
        *,
        session_id: str = "",
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        selector: EncoderSelector | None = None,
        on_failure: Callable[[LiveAnchorError], None] | None = None,
    ) -> None:
        self.format = VideoFormat(canvas.width, canvas.height, rate_of(fps), colour)
        self.level = h264_level(self.format, rtc.max_kbps)
        self.echo = echo
        self.clock = clock
        self.failure: LiveAnchorError | None = None
        self._rtc = rtc
        self._loop = asyncio.get_running_loop()
        self._wall_clock = wall_clock
        self._on_failure = on_failure
        self._epoch_ntp: int | None = None
        self._epoch_told = False
        self._queues: dict[MediaKind, list[PacketQueue]] = {"video": [], "audio": []}
        self._listeners: list[Callable[[LiveEvent], None]] = []
        self._rate = BitrateControl(rtc.min_kbps, rtc.max_kbps, rtc.start_kbps, clock)
        self._target_kbps = rtc.start_kbps
        self._video = LiveVideo(self.format, encoder, rtc.max_kbps, selector or default_selector(), clock)
        self._rest: VoiceTick | None = None
        self._rest_timer: asyncio.TimerHandle | None = None
        self._closed = False
        self._thread_ended = asyncio.Event()
        self._thread = EncoderThread(
            f"live-encoder-{session_id[:8]}",
            Nv12Canvas(np.array(canvas.y_plane), np.array(canvas.uv_plane)),
            self._video,
            VoiceEncoder if echo else None,
            lambda: self._target_kbps,
            self._publish,
            self._failed,
            lambda: self._on_loop(self._thread_ended.set),
            clock,
        )

    def epoch_ntp(self) -> int | None:
        """Media time 0 as a 64-bit NTP time (RFC 5905, section 6), the same for picture and voice; None before a tick.

        Until it is first asked for, that is until the first sender report, the tick that was least late decides; then it stays.
        """
        self._epoch_told = self._epoch_ntp is not None
        return self._epoch_ntp

    def video(self, tick: VideoTick) -> None:
        """Implement `LiveSink.video`."""
        self._place(tick.pts_s)
        self._target_kbps = self._rate.target_kbps()
        self._thread.show(tick)

    def voice(self, tick: VoiceTick) -> None:
        """Implement `LiveSink.voice`. The rest of a tick longer than 20 ms follows 20 ms later.

        Packets that come in pairs look like jitter to a receiver: it would hold voice and, to keep lip sync, picture longer.
        """
        self._say_rest()
        if not self._queues["audio"]:
            return
        if len(tick.pcm) > FRAME_SAMPLES:
            rest = tick.pts_samples + FRAME_SAMPLES
            self._rest = VoiceTick(tick.pcm[FRAME_SAMPLES:], rest, tick.speech)
            self._rest_timer = self._loop.call_later(FRAME_S, self._say_rest)
            tick = VoiceTick(tick.pcm[:FRAME_SAMPLES], tick.pts_samples, tick.speech)
        self._thread.say(tick)

    def event(self, event: LiveEvent) -> None:
        """Implement `LiveSink.event`."""
        for listener in list(self._listeners):
            listener(event)

    def listen(self, listener: Callable[[LiveEvent], None]) -> Callable[[], None]:
        """Have every event handed to `listener`; the answer ends that."""
        self._listeners.append(listener)

        def stop() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return stop

    def subscribe(self, kind: MediaKind) -> PacketQueue:
        """A queue that gets everything from now on; for pictures, a key frame is asked for."""
        queue = PacketQueue(kind, QUEUE_LIMIT[kind], self.request_key)
        if self._closed:
            queue.close()
            return queue
        self._queues[kind].append(queue)
        if kind == "video":
            self._thread.encode_pictures = True
            self.request_key()
        return queue

    def unsubscribe(self, queue: PacketQueue) -> None:
        """End a subscription; harmless when repeated."""
        queue.close()
        queues = self._queues[queue.kind]
        if queue in queues:
            queues.remove(queue)
        if queue.kind == "video":
            self._thread.encode_pictures = bool(queues)

    def request_key(self) -> None:
        """Make the next picture a key frame; requests are coalesced and at least 250 ms apart."""
        self._video.request_key()

    def send_single_nals(self) -> None:
        """From the next picture on, each packet holds one whole NAL unit (RFC 6184, packetization mode 0), for every viewer."""
        self._video.single_nals = True

    def on_estimate(self, viewer: object, bits_per_second: int) -> None:
        """A viewer's receiver says what its network carries (REMB)."""
        self._rate.on_estimate(viewer, bits_per_second)

    def on_loss(self, viewer: object, fraction: float) -> None:
        """A viewer's receiver says what share of packets it lost, 0..1."""
        self._rate.on_loss(viewer, fraction)

    def forget(self, viewer: object) -> None:
        """The viewer's network no longer counts."""
        self._rate.remove(viewer)

    def stats(self) -> HubStats:
        """Counters and percentiles so far."""
        counts = self._thread.counts
        times = list(counts.encode_ms)
        return HubStats(
            encoder=self._video.codec_name,
            frames_encoded=counts.encoded,
            frames_dropped=counts.dropped,
            frames_repeated=counts.repeated,
            frames_left_out=counts.left_out,
            key_frames=self._video.key_frames,
            encoder_reopened=self._video.reopened,
            bitrate_kbps=self._video.kbps or self._target_kbps,
            bytes_encoded=counts.bytes_out,
            encode_p50_ms=float(np.percentile(times, 50)) if times else None,
            encode_p95_ms=float(np.percentile(times, 95)) if times else None,
            queue_depth=self._thread.pending,
            viewers=len(self._queues["video"]),
            voice_dropped=counts.voice_dropped,
            encoder_cpu_s=counts.thread_cpu_s,
        )

    async def close(self) -> None:
        """End the thread and every subscription; harmless when repeated."""
        self._closed = True
        self._rest = None
        self._say_rest()
        for queue in [*self._queues["video"], *self._queues["audio"]]:
            self.unsubscribe(queue)
        self._listeners.clear()
        self._thread.stop()
        if self._thread.started:
            async with asyncio.timeout(JOIN_TIMEOUT_S):
                await self._thread_ended.wait()

    def _say_rest(self) -> None:
        rest, self._rest = self._rest, None
        if rest is not None:
            self._thread.say(rest)
        if self._rest_timer is not None:
            self._rest_timer.cancel()
            self._rest_timer = None

    def _place(self, pts_s: float) -> None:
        if not self._epoch_told:
            epoch = int((self._wall_clock() - pts_s + NTP_UNIX_OFFSET_S) * 2**32)
            self._epoch_ntp = epoch if self._epoch_ntp is None else min(self._epoch_ntp, epoch)

    def _publish(self, kind: MediaKind, units: list[EncodedUnit]) -> None:
        self._on_loop(lambda: self._deliver(kind, units))

    def _deliver(self, kind: MediaKind, units: list[EncodedUnit]) -> None:
        for queue in self._queues[kind]:
            for unit in units:
                queue.put(unit)

    def _failed(self, error: LiveAnchorError) -> None:
        self.failure = error
        if self._on_failure is not None:
            callback = self._on_failure
            self._on_loop(lambda: callback(error))

    def _on_loop(self, call: Callable[[], None]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call)
