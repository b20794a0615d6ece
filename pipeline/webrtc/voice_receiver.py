"""A client's voice: Opus packets of a network in, samples and their places on the client's clock out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kernels.arrays import F32
from pipeline.webrtc.jitter_buffer import VoiceJitterBuffer, VoicePacket
from pipeline.webrtc.packets import AUDIO_CLOCK_HZ

ABSENT_S = 0.2
"""After this long without sound, its place stays silent as time goes by."""
AHEAD_S = 0.5
"""A timestamp further in the future is a clock that was set anew, not a hole."""
STALLED_S = 0.1
"""When time was looked at less often than this, it was we who stood still: what came meanwhile has not been read yet."""
MAX_PPM = 2000.0
"""No sound card's clock is so fast."""
LONGEST_LEAD_S = 1.0
"""No sound card runs so far ahead of time: a client that sends faster than it can speak loses the surplus."""
STALE_S = 0.5
"""When nothing but the past has come for so long, the sender's clock stood still meanwhile."""
WINDOW_S = 2.0
FULL_SCALE = 32768.0


@dataclass(frozen=True)
class VoiceReceiverStats:
    """Counts since the first packet.

    Attributes:
        packets: Packets that came.
        lost: Packets given up.
        late: Packets that came too late or twice.
        early: Packets that came faster than anybody speaks.
        broken: Packets that could not be decoded.
        silence_s: Silence in the place of sound that was missing.
        delivered_s: Time that was handed over, silence included.
    """

    packets: int
    lost: int
    late: int
    early: int
    broken: int
    silence_s: float
    delivered_s: float


class VoiceReceiver:
    """Decodes, and says where the sound belongs. What it hands over never goes back and never runs ahead of time.

    * Opus is decoded to one channel by libopus itself, which takes the mean of two: levels stay what they were.
    * A hole in the timestamps is one in the places. After 200 ms without any packet the place moves on as time goes by, so that a
      stalled network never leaves a backlog behind: what comes too late after that is dropped.
    * Whoever lays the sound down corrects the clock of the client's sound card.

    Args:
        deliver: Gets float32 (n,), mono, 48 kHz, and the place of its first sample since the start, which is never before the end
            of what came last; no samples where nothing was heard up to that place.
        clock: Monotonic seconds.
    """

    def __init__(self, deliver: Callable[[F32, int], None], clock: Callable[[], float]) -> None:
        self._deliver = deliver
        self._clock = clock
        self._jitter_buffer = VoiceJitterBuffer()
        self._decode = OpusDecoder()
        self._began = 0.0
        self._lead = 0.0
        self._window_lead = float("-inf")
        self._window_ends = 0.0
        self._place = 0
        self._shift = 0
        self._last_timestamp: int | None = None
        self._unwrapped = 0
        self._heard_at = 0.0
        self._passed_at = 0.0
        self._stale_since: float | None = None
        self._silence = 0
        self._packets = 0
        self._late = 0
        self._early = 0
        self._broken = 0

    @property
    def stats(self) -> VoiceReceiverStats:
        """Counts so far."""
        return VoiceReceiverStats(
            packets=self._packets,
            lost=self._jitter_buffer.lost,
            late=self._jitter_buffer.late + self._late,
            early=self._early,
            broken=self._broken,
            silence_s=self._silence / AUDIO_CLOCK_HZ,
            delivered_s=self._place / AUDIO_CLOCK_HZ,
        )

    def packet(self, sequence: int, timestamp: int, payload: bytes) -> None:
        """An RTP packet came: its 16-bit number, its 32-bit time at 48 kHz, one Opus packet."""
        self._packets += 1
        for packet in self._jitter_buffer.add(VoicePacket(sequence, timestamp, payload)):
            self._hear(packet)

    def passes(self) -> None:
        """Time goes by: to be called every 20 to 50 ms."""
        now = self._clock()
        if now - self._passed_at > STALLED_S:
            self._heard_at = max(self._heard_at, now - STALLED_S)
        self._passed_at = now
        if self._last_timestamp is not None and now - self._heard_at > ABSENT_S:
            self._hand_over(np.zeros(0, np.float32), round(self._due(now)))

    def _hear(self, packet: VoicePacket) -> None:
        now = self._clock()
        samples = self._decode(packet.payload)
        if samples is None:
            self._broken += 1
            return
        place = self._placed(packet.timestamp, now)
        furthest = self._furthest(now) - len(samples)
        if place > furthest:  # a clock that was set anew, or samples that cannot have been spoken yet
            self._shift += self._place - place
            place = self._place
            if place > furthest:
                self._early += 1
                return
        self._follow(place, now)
        if place + len(samples) <= self._place:
            if not self._stood_still(now):
                self._late += 1
                return
            self._shift += self._place - place
            place = self._place
        self._stale_since = None
        self._heard_at = now
        self._hand_over(samples[max(self._place - place, 0) :], max(place, self._place))

    def _placed(self, timestamp: int, now: float) -> int:
        """Position of a timestamp since the start, at 48 kHz."""
        if self._last_timestamp is None:
            self._last_timestamp, self._began, self._heard_at = timestamp, now, now
            self._window_ends = now + WINDOW_S
        ahead = (timestamp - self._last_timestamp) & 0xFFFFFFFF
        self._unwrapped += ahead if ahead < 2**31 else ahead - 2**32
        self._last_timestamp = timestamp
        place = self._unwrapped + self._shift
        due = max(self._due(now), self._place)
        if place - due > AHEAD_S * AUDIO_CLOCK_HZ:
            self._shift += round(due) - place
            place = round(due)
        return place

    def _due(self, now: float) -> float:
        """Where a packet would begin that came now without any delay."""
        return (now - self._began) * AUDIO_CLOCK_HZ + self._lead

    def _furthest(self, now: float) -> float:
        """Where the sound of a client ends at most."""
        return ((now - self._began) * (1 + 1e-6 * MAX_PPM) + LONGEST_LEAD_S) * AUDIO_CLOCK_HZ

    def _follow(self, place: int, now: float) -> None:
        """The packet that was delayed least in the last window says how the two clocks lie; this moves with their drift."""
        lead = place - (now - self._began) * AUDIO_CLOCK_HZ
        self._lead = max(self._lead, lead)
        self._window_lead = max(self._window_lead, lead)
        if now >= self._window_ends:
            self._lead, self._window_lead = self._window_lead, float("-inf")
            self._window_ends = now + WINDOW_S

    def _stood_still(self, now: float) -> bool:
        if self._stale_since is None:
            self._stale_since = now
        return now - self._stale_since >= STALE_S

    def _hand_over(self, samples: F32, place: int) -> None:
        if place + len(samples) > self._place:
            self._silence += place - self._place
            self._place = place + len(samples)
            self._deliver(samples, place)


class OpusDecoder:
    """libopus to one channel at 48 kHz."""

    def __init__(self) -> None:
        import av

        self._av = av
        self._context = av.CodecContext.create("libopus", "r")
        self._context.layout = "mono"
        self._context.sample_rate = AUDIO_CLOCK_HZ
        self._context.format = "s16"

    def __call__(self, payload: bytes) -> F32 | None:
        """float32 (n,), -1..1; None where it is no Opus packet."""
        if not payload:
            return None  # FFmpeg takes an empty packet for the end of the stream
        try:
            frames = self._context.decode(self._av.Packet(payload))
        except self._av.error.FFmpegError:
            return None
        if not frames:
            return None
        pcm = [np.frombuffer(memoryview(frame.planes[0]), np.int16, frame.samples) for frame in frames]
        return (pcm[0] if len(pcm) == 1 else np.concatenate(pcm)).astype(np.float32) / np.float32(FULL_SCALE)
