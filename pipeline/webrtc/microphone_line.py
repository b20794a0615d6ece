"""A client's microphone between the event loop, which gets its packets, and the thread that decodes them."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from kernels.arrays import F32
from kernels.errors import LiveAnchorError
from pipeline.webrtc.packets import AUDIO_CLOCK_HZ
from pipeline.webrtc.voice_receiver import VoiceReceiver, VoiceReceiverStats
from pipeline.webrtc.voice_thread import VoiceThread

MAX_WAITING: Final = 100
"""Packets that may wait for the thread, 2 s; the oldest ones are left out, and count as lost."""
QUIET_S: Final = 0.03
"""When the thread was asked for nothing for so long, it is asked now: time passes for a microphone that sends nothing, too."""
TICKS_PER_SAMPLE: Final = 3
"""Of the client's 48 kHz, in a sample of the session's 16 kHz."""
_SILK_MS: Final = (10, 20, 40, 60)
_HYBRID_MS: Final = (10, 20)
_CELT_MS: Final = (2.5, 5, 10, 20)

OnVoice = Callable[[F32, int, float], int]
"""Gets float32 (n,), mono, 48 kHz, the place of the first of them (see `VoiceReceiver`), and the seconds for which they have been
here; says after how many more samples at 16 kHz it wants the next ones."""


@dataclass(frozen=True)
class _Packet:
    at: float
    sequence: int
    timestamp: int
    payload: bytes


@dataclass
class _Block:
    """Samples that follow on each other.

    Attributes:
        parts: float32 (n,) each.
        place: Place of the first sample.
        length: Number of samples.
        since: When the first one was here at the latest: a packet whose network delayed it less says more about the ones before it.
    """

    parts: list[F32]
    place: int
    length: int
    since: float


class MicrophoneLine:
    """Takes packets, has them decoded in a thread, and hands the voice over on the event loop: in order, a few packets at a time.

    What comes is not handed over packet by packet: a session makes pictures of 40 ms, and says when the next samples complete one.
    Belongs to the event loop that runs at construction; nothing is handed over after `close`.

    Args:
        deliver: Gets the voice.
        on_failed: Called once, on the loop, when decoding broke for good.
        thread: Decodes.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        deliver: OnVoice,
        on_failed: Callable[[BaseException], None],
        thread: VoiceThread,
        clock: Callable[[], float],
    ) -> None:
        self._deliver, self._on_failed = deliver, on_failed
        self._thread, self._clock = thread, clock
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._waiting: deque[_Packet] = deque(maxlen=MAX_WAITING)
        self._due = self._gathered = 0
        self._asked_at = float("-inf")
        self._passed_at = 0.0
        self._open = False
        self._closed = False
        self._at = 0.0
        self._blocks: list[_Block] = []
        self._receiver = VoiceReceiver(self._keep, lambda: self._at)

    @property
    def stats(self) -> VoiceReceiverStats:
        """Counts of what was decoded so far."""
        return self._receiver.stats

    def packet(self, sequence: int, timestamp: int, payload: bytes) -> None:
        """An RTP packet came, as `VoiceReceiver.packet` says."""
        if self._closed:
            return
        if not self._open:
            self._open = True
            self._thread.open()
        with self._lock:
            self._waiting.append(_Packet(self._clock(), sequence, timestamp, payload))
        self._gathered += packet_samples(payload)
        if self._gathered >= self._due:
            self._ask()

    def passes(self) -> None:
        """Time goes by: to be called every 20 to 50 ms."""
        if self._open and not self._closed and self._clock() - self._asked_at >= QUIET_S:
            self._ask()

    def close(self) -> None:
        """Nothing is handed over any more; harmless when repeated."""
        if self._open and not self._closed:
            self._thread.close()
        self._closed = True

    def work(self) -> None:
        """Decode what waits; in the thread."""
        try:
            with self._lock:
                packets, passed_at = list(self._waiting), self._passed_at
                self._waiting.clear()
            for packet in packets:
                self._at = packet.at
                self._receiver.packet(packet.sequence, packet.timestamp, packet.payload)
            self._at = max(passed_at, self._at)
            self._receiver.passes()
            blocks, self._blocks = self._blocks, []
            if blocks:
                self._on_loop(lambda: self._take(blocks))
        except (
            ArithmeticError,
            LookupError,
            MemoryError,
            OSError,
            RuntimeError,
            TypeError,
            ValueError,
            LiveAnchorError,
        ) as error:
            # What nobody foresaw must not end the microphones of other sessions, nor leave this one deaf without a word.
            broken: BaseException = error
            self._on_loop(lambda: self._fail(broken))

    def _ask(self) -> None:
        now = self._clock()
        self._gathered, self._asked_at = 0, now
        with self._lock:
            self._passed_at = now
        self._thread.ask(self)

    def _keep(self, samples: F32, place: int) -> None:
        """What the receiver hands over; in the thread."""
        last = self._blocks[-1] if self._blocks else None
        if last is None or not len(samples) or not last.length or last.place + last.length != place:
            self._blocks.append(_Block([samples], place, len(samples), self._at))
            return
        last.since = min(last.since, self._at - last.length / AUDIO_CLOCK_HZ)
        last.parts.append(samples)
        last.length += len(samples)

    def _take(self, blocks: list[_Block]) -> None:
        if self._closed:
            return
        for block in blocks:
            samples = block.parts[0] if len(block.parts) == 1 else np.concatenate(block.parts)
            self._due = TICKS_PER_SAMPLE * self._deliver(samples, block.place, max(self._clock() - block.since, 0.0))

    def _fail(self, error: BaseException) -> None:
        if not self._closed:
            self.close()
            self._on_failed(error)

    def _on_loop(self, call: Callable[[], None]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call)


def packet_samples(payload: bytes) -> int:
    """How long an Opus packet lasts in samples of 48 kHz, by its first byte or two (RFC 6716, section 3.1); 0 for an empty one."""
    if not payload:
        return 0
    kind, code = payload[0] >> 3, payload[0] & 3
    if kind < 12:
        length = _SILK_MS[kind & 3] * 48
    elif kind < 16:
        length = _HYBRID_MS[kind & 1] * 48
    else:
        length = int(_CELT_MS[kind & 3] * 48)
    if code == 3:
        return length * (payload[1] & 63) if len(payload) > 1 else 0
    return length * (1 if code == 0 else 2)
