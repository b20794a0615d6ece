"""The thread in which a session's pictures are painted and encoded and its voice becomes Opus."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from kernels.errors import LiveAnchorError
from pipeline.live.contracts import VideoTick, VoiceTick
from pipeline.media.encoder import EncoderError
from pipeline.session.canvas import paste
from pipeline.types import Nv12Canvas, Nv12Rect
from pipeline.webrtc.live_video import LiveVideo
from pipeline.webrtc.packets import EncodedUnit, MediaKind
from pipeline.webrtc.voice_encoder import VoiceEncoder

PENDING_PICTURES = 2
PENDING_VOICE = 50
STILL_AFTER_S = 0.4
"""Seconds without a change after which a picture is still and its repeats are thinned out. Before that every repeat is sent, so
that a picture that comes late now and then leaves no gap in the rhythm."""
STILL_S = 0.1
"""Seconds between two repeats of a still picture. Encoding one costs as much as a new picture, and receivers hold what they
have; they begin to speak of a freeze at three frame times."""
REMEMBERED = 500
"""Encode times kept for percentiles."""


@dataclass
class EncoderCounts:
    """Counts what a session's encoder did. Its thread writes, any thread may read."""

    encoded: int = 0
    dropped: int = 0
    repeated: int = 0
    left_out: int = 0
    voice_dropped: int = 0
    bytes_out: int = 0
    encode_ms: deque[float] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    thread_cpu_s: float = 0.0


class EncoderThread:
    """Paints and encodes behind a bounded queue: what comes too late is dropped, never queued.

    At most two pictures wait. A third one pushes out a waiting repeat, else the oldest; the rectangle of a dropped picture
    is still painted where a later one does not cover it. Of a picture that has been still for 0.4 s, one repeat in 100 ms is
    encoded. The voice waits in a queue of its own (1 s) and goes first.

    Args:
        name: Name of the thread.
        canvas: Painted in place; belongs to the thread from now on.
        video: Encoder of pictures.
        voice: Encoder of the voice, None where it is not heard.
        rate: Gives the wanted kbit/s before each picture.
        publish: Called on the thread with what is ready.
        fail: Called once on the thread with the error that ended it.
        ended: Called on the thread as the last thing that it does.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        name: str,
        canvas: Nv12Canvas,
        video: LiveVideo,
        voice: Callable[[], VoiceEncoder] | None,
        rate: Callable[[], int],
        publish: Callable[[MediaKind, list[EncodedUnit]], None],
        fail: Callable[[LiveAnchorError], None],
        ended: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        self.counts = EncoderCounts()
        self.encode_pictures = False
        """False while there is no viewer: pictures are painted, not encoded."""
        self._canvas = canvas
        self._video = video
        self._make_voice = voice
        self._rate = rate
        self._publish = publish
        self._fail = fail
        self._ended = ended
        self._clock = clock
        self._wake = threading.Condition()
        self._pictures: deque[VideoTick] = deque()
        self._uncovered: dict[tuple[int, int, int, int], Nv12Rect] = {}
        self._voice: deque[VoiceTick] = deque()
        self._stop = False
        self._encoded_pts_s = float("-inf")
        self._changed_pts_s = float("-inf")
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._started = False

    @property
    def pending(self) -> int:
        """Pictures that wait."""
        return len(self._pictures)

    def show(self, tick: VideoTick) -> None:
        """Paint and encode a picture soon, or drop one."""
        with self._wake:
            if self._stop:
                return
            self._start()
            self.counts.repeated += tick.rect is None
            self._pictures.append(tick)
            if len(self._pictures) > PENDING_PICTURES:
                self._drop_one()
            self._wake.notify()

    def say(self, tick: VoiceTick) -> None:
        """Encode the voice soon."""
        with self._wake:
            if self._stop or self._make_voice is None:
                return
            self._start()
            if len(self._voice) >= PENDING_VOICE:
                self._voice.popleft()
                self.counts.voice_dropped += 1
            self._voice.append(tick)
            self._wake.notify()

    def stop(self) -> None:
        """End the thread after the picture that it is at; does not wait."""
        with self._wake:
            self._stop = True
            self._pictures.clear()
            self._voice.clear()
            self._uncovered.clear()
            self._wake.notify()

    @property
    def started(self) -> bool:
        """Whether it ever ran; it starts with the first tick."""
        return self._started

    def _start(self) -> None:
        if not self._started:
            self._started = True
            self._thread.start()

    def _drop_one(self) -> None:
        self.counts.dropped += 1
        for position, tick in enumerate(self._pictures):
            if tick.rect is None:
                del self._pictures[position]
                return
        rect = self._pictures.popleft().rect
        if rect is not None:
            self._uncovered[rect.x, rect.y, rect.w, rect.h] = rect

    def _run(self) -> None:
        try:
            voice = self._make_voice() if self._make_voice is not None else None
            while True:
                with self._wake:
                    while not (self._stop or self._voice or self._pictures):
                        self._wake.wait()
                    if self._stop:
                        return
                    spoken = list(self._voice)
                    self._voice.clear()
                    tick = self._pictures.popleft() if self._pictures else None
                    uncovered = list(self._uncovered.values())
                    self._uncovered.clear()
                if voice is not None:
                    self._speak(voice, spoken)
                if tick is not None:
                    self._picture(tick, uncovered)
                self.counts.thread_cpu_s = time.thread_time()
        except LiveAnchorError as error:
            self._fail(error)
        except (ArithmeticError, LookupError, MemoryError, OSError, RuntimeError, TypeError, ValueError) as error:
            # A thread that dies of something unforeseen must not leave a session without pictures and without an end.
            self._fail(EncoderError(f"the live encoder broke: {error!r}"))
        finally:
            self._video.close()
            self._ended()

    def _speak(self, voice: VoiceEncoder, ticks: list[VoiceTick]) -> None:
        for tick in ticks:
            units = voice.encode(tick.pcm, tick.pts_samples)
            if units:
                self._publish("audio", units)

    def _picture(self, tick: VideoTick, uncovered: list[Nv12Rect]) -> None:
        for rect in uncovered:
            paste(self._canvas, rect)
        if tick.rect is not None:
            paste(self._canvas, tick.rect)
            self._changed_pts_s = tick.pts_s
        if not self.encode_pictures:
            return
        still = tick.rect is None and tick.pts_s - self._changed_pts_s > STILL_AFTER_S + 1e-6
        if still and tick.pts_s - self._encoded_pts_s < STILL_S and not self._video.key_due:
            self.counts.left_out += 1
            return
        self._encoded_pts_s = tick.pts_s
        began = self._clock()
        units = self._video.encode(self._canvas, tick.index, self._rate())
        self.counts.encode_ms.append((self._clock() - began) * 1000)
        self.counts.encoded += 1
        self.counts.bytes_out += sum(unit.size for unit in units)
        if units:
            self._publish("video", units)
