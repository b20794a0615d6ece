"""A session's pictures and voice as LiveKit's sources take them."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Final

import numpy as np

from pipeline.live.contracts import VideoTick, VoiceTick
from pipeline.session.canvas import paste
from pipeline.types import SAMPLE_RATE_HZ, Nv12Canvas

STILL_EVERY: Final = 3
"""One in three pictures that repeat the one before is sent, so that whoever joins later sees one."""
QUEUE_MS: Final = 1000
FULL_SCALE: Final = 32767


class RoomPictures:
    """Hands pictures over in the layout in which the session draws them, NV12.

    Args:
        rtc: The module `livekit.rtc`.
        canvas: The picture under the rectangles; copied.
    """

    def __init__(self, rtc: Any, canvas: Nv12Canvas) -> None:
        self._rtc = rtc
        self._width, self._height = canvas.width, canvas.height
        self._bytes = np.concatenate([canvas.y_plane.ravel(), canvas.uv_plane.ravel()])
        rows = self._bytes.reshape(-1, self._width)
        self._canvas = Nv12Canvas(rows[: self._height], rows[self._height :])
        self._repeats = 0
        self.source = rtc.VideoSource(self._width, self._height)
        self.count = 0

    def show(self, tick: VideoTick) -> bool:
        """Show a frame now; answers whether it was sent."""
        if tick.rect is not None:
            paste(self._canvas, tick.rect)
        self._repeats = 0 if tick.rect is not None else self._repeats + 1
        if self._repeats % STILL_EVERY:
            return False
        layout = self._rtc.VideoBufferType.NV12
        frame = self._rtc.VideoFrame(self._width, self._height, layout, self._bytes.data)
        self.source.capture_frame(frame, timestamp_us=round(tick.pts_s * 1_000_000))
        self.count += 1
        return True


class RoomVoice:
    """Hands the voice over in its order, and knows how much of it was not heard yet.

    Args:
        rtc: The module `livekit.rtc`.

    Attributes:
        said_s: Seconds that the session has sent, speech and silence.
    """

    def __init__(self, rtc: Any) -> None:
        self._rtc = rtc
        self._waiting: deque[bytes] = deque()
        self._come = asyncio.Event()
        self.said_s = 0.0
        self.source = rtc.AudioSource(SAMPLE_RATE_HZ, 1, QUEUE_MS)

    @property
    def unheard_s(self) -> float:
        """Seconds that were said and wait in LiveKit's queue, or here for a place in it."""
        return sum(map(len, self._waiting)) / 2 / SAMPLE_RATE_HZ + float(self.source.queued_duration)

    def say(self, tick: VoiceTick) -> None:
        """Play the voice of one frame next."""
        self._waiting.append(np.rint(np.clip(tick.pcm, -1, 1) * FULL_SCALE).astype("<i2").tobytes())
        self.said_s += len(tick.pcm) / SAMPLE_RATE_HZ
        self._come.set()

    def cut(self) -> float:
        """Drop what was not heard yet; answers how many seconds that were."""
        unheard_s = self.unheard_s
        self._waiting.clear()
        self.source.clear_queue()
        return unheard_s

    async def run(self) -> None:
        """Hand over until cancelled."""
        while True:
            await self._come.wait()
            self._come.clear()
            while self._waiting:
                pcm = self._waiting.popleft()
                await self.source.capture_frame(self._rtc.AudioFrame(pcm, SAMPLE_RATE_HZ, 1, len(pcm) // 2))
