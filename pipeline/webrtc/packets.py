"""What leaves the encoders and how it waits for a viewer: RTP payloads, made once and shared by every viewer."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

MediaKind = Literal["video", "audio"]

VIDEO_CLOCK_HZ = 90_000
"""RTP clock of H.264 (RFC 6184)."""
AUDIO_CLOCK_HZ = 48_000
"""RTP clock of Opus, whatever it carries (RFC 7587)."""
CLOCK_HZ: dict[MediaKind, int] = {"video": VIDEO_CLOCK_HZ, "audio": AUDIO_CLOCK_HZ}


@dataclass(frozen=True)
class EncodedUnit:
    """A coded picture or an Opus frame, cut into RTP payloads.

    Attributes:
        payloads: In sending order, each fits one RTP packet.
        timestamp: On the media clock, 0 with the session's first frame: 1/90000 s for pictures, 1/48000 s for the voice.
            May be slightly negative, because an Opus decoder plays each frame a little late.
        key: A decoder can begin here; always true for the voice.
    """

    payloads: tuple[bytes, ...]
    timestamp: int
    key: bool

    @property
    def size(self) -> int:
        """Bytes of all payloads."""
        return sum(map(len, self.payloads))


class QueueClosed(Exception):
    """The viewer is gone."""


class PacketQueue:
    """The units that one viewer has not sent yet. Belongs to one event loop.

    Pictures wait behind a gate until a key frame comes. When the queue is full, its content is thrown away, the gate
    closes and a key frame is asked for: a slow viewer sees a jump, never a growing delay. The voice has no gate and
    loses its oldest frame instead.

    Args:
        kind: "video" or "audio".
        limit: Units that may wait, at least 1.
        request_key: Called when the gate closes; "video" only.
    """

    def __init__(self, kind: MediaKind, limit: int, request_key: Callable[[], None]) -> None:
        self.kind = kind
        self.overflows = 0
        self.dropped = 0
        self._limit = limit
        self._request_key = request_key
        self._units: deque[EncodedUnit] = deque()
        self._gated = kind == "video"
        self._closed = False
        self._ready = asyncio.Event()

    def __len__(self) -> int:
        """Units waiting."""
        return len(self._units)

    @property
    def gated(self) -> bool:
        """Whether a key frame is awaited."""
        return self._gated

    def put(self, unit: EncodedUnit) -> None:
        """Add a unit or drop it by the rules above; never waits."""
        if self._closed:
            return
        if self._gated and not unit.key:
            self.dropped += 1
            return
        self._gated = False
        if len(self._units) >= self._limit:
            self.overflows += 1
            if self.kind == "audio":
                self._units.popleft()
                self.dropped += 1
            else:
                self._flush(unit)
                return
        self._units.append(unit)
        self._ready.set()

    async def get(self) -> EncodedUnit:
        """The next unit.

        Raises:
            QueueClosed: It was closed, now or while waiting.
        """
        while not self._units:
            if self._closed:
                raise QueueClosed
            self._ready.clear()
            await self._ready.wait()
        return self._units.popleft()

    def close(self) -> None:
        """Drop everything and wake the reader; harmless when repeated."""
        self._closed = True
        self._units.clear()
        self._ready.set()

    def _flush(self, unit: EncodedUnit) -> None:
        self.dropped += len(self._units)
        self._units.clear()
        if unit.key:
            self._units.append(unit)
            self._ready.set()
            return
        self.dropped += 1
        self._gated = True
        self._request_key()
