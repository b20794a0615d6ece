"""What one speaking session costs a set of stages, and how many such sessions a set can serve in time.

A *set* is one replica of every stage on one GPU. Two bounds hold: the renderer's own thread draws one batch at a time, and the
stages share the GPU. For a session at 25 frames/s with `h` motion windows a second,

    c = max(25 r, 25 g + h (m + a))    ms of a set per second of speech,

r = time of one frame through the renderer's thread, g = GPU time of one frame, m and a = GPU times of one motion and one audio
window at the batch sizes that load gives. A set has `floor(0.85 * 1000 / c)` tokens; one token is one speaking session at 25
frames/s.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from kernels.errors import InvalidInputError
from pipeline.types import MOTION_FPS

USABLE: Final = 0.85
"""Share of a set's time that admission gives away; the rest absorbs sessions that ask in the same moment."""
SMOOTHING: Final = 0.2
"""Weight of a new measurement."""
MOST_FALL_PER_MINUTE: Final = 0.02
"""A cost may rise at once and falls slowly: a quiet minute must not let in what a busy one cannot serve."""


@dataclass(frozen=True)
class SessionCost:
    """Times in milliseconds that one speaking session takes of a set.

    Attributes:
        frame_ms: One frame through the renderer's thread.
        frame_gpu_ms: GPU time of one frame; at most `frame_ms`.
        motion_ms: GPU time of one motion window; 0 for families without that stage.
        audio_ms: GPU time of one window of audio features.
        hop_frames: Frames of 40 ms per motion window.
        rife_ms: GPU time of one interpolated frame; 0 where frames above 25 per second are drawn.
    """

    frame_ms: float
    frame_gpu_ms: float
    motion_ms: float
    audio_ms: float
    hop_frames: int
    rife_ms: float = 0.0

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            InvalidInputError: A time is negative or no number, or the hop is below one frame.
        """
        for name in ("frame_ms", "frame_gpu_ms", "motion_ms", "audio_ms", "rife_ms"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise InvalidInputError(name, repr(value), "0 or more milliseconds")
        if self.hop_frames < 1:
            raise InvalidInputError("hop_frames", repr(self.hop_frames), "1 or more frames")

    @property
    def ms_per_second(self) -> float:
        """Milliseconds of a set that one second of speech at 25 frames/s takes."""
        windows = MOTION_FPS / self.hop_frames
        return max(
            MOTION_FPS * self.frame_ms, MOTION_FPS * self.frame_gpu_ms + windows * (self.motion_ms + self.audio_ms)
        )

    @property
    def tokens(self) -> int:
        """Sessions at 25 frames/s that a set serves in time while all of them speak; at least one."""
        return max(1, math.floor(USABLE * 1000.0 / self.ms_per_second)) if self.ms_per_second > 0 else 1

    def weight(self, fps: float, interpolated: bool) -> float:
        """Tokens that one session takes.

        Args:
            fps: Frames per second that its viewers get, 25 or more.
            interpolated: Whether the frames above 25 per second are made by `rife` and not by the renderer.
        """
        more = max(0.0, fps / MOTION_FPS - 1.0)
        if not interpolated:
            return 1.0 + more
        return 1.0 + more * MOTION_FPS * self.rife_ms / self.ms_per_second if self.ms_per_second > 0 else 1.0 + more


class MeasuredCost:
    """A cost in milliseconds that measurements refine: it rises at once and falls by at most 2 % a minute.

    Args:
        first: What was measured before the first session came.
    """

    def __init__(self, first: float) -> None:
        self.value = first

    def measured(self, value: float, elapsed_s: float) -> float:
        """Take a measurement in.

        Args:
            value: Mean of the last stretch in milliseconds.
            elapsed_s: Length of that stretch in seconds.

        Returns:
            The cost from now on.
        """
        wanted = self.value + SMOOTHING * (value - self.value)
        if value > self.value:
            wanted = value
        least = self.value * (1.0 - MOST_FALL_PER_MINUTE) ** (elapsed_s / 60.0)
        self.value = max(wanted, least)
        return self.value


def slots(tokens: int, speaking_share: float, risk: float = 0.01) -> int:
    """Sessions that may be let in on `tokens` tokens when each speaks only part of the time.

    Speakers are taken as independent: the number that speaks at once is binomial, and more than `tokens` may speak at once with a
    probability below `risk`.

    Args:
        tokens: Sessions that can speak at once.
        speaking_share: Share of its time in which a session speaks, above 0 and at most 1.
        risk: Largest probability that more speak than can be served.

    Raises:
        InvalidInputError: The share is outside its range.
    """
    if not 0.0 < speaking_share <= 1.0:
        raise InvalidInputError("speaking_share", repr(speaking_share), "above 0 and at most 1")
    if speaking_share == 1.0 or tokens < 1:
        return max(0, tokens)
    count = tokens
    while _more_than(tokens, count + 1, speaking_share) < risk:
        count += 1
    return count


def _more_than(tokens: int, sessions: int, share: float) -> float:
    """Probability that more than `tokens` of `sessions` speak."""
    return 1.0 - sum(
        math.comb(sessions, k) * share**k * (1.0 - share) ** (sessions - k) for k in range(min(tokens, sessions) + 1)
    )
