"""Media time: integer counts that follow from the number of audio samples, the master clock of a session.

A video frame j of a stream at `rate` frames/s shows the time j / rate, that is the position j * 25 / rate between frames of motion.
Rates are fractions, so no position and no count is ever rounded.
"""

from __future__ import annotations

from fractions import Fraction
from math import floor

from kernels.errors import InvalidInputError
from pipeline.types import MOTION_FPS, SAMPLE_RATE_HZ

FPS_NTSC = 59.94
"""What people call 60000/1001 frames/s."""
SUPPORTED_FPS: tuple[float, ...] = (25, 50, FPS_NTSC)
_EXACT = {FPS_NTSC: Fraction(60_000, 1001)}


def check_fps(fps: float) -> float:
    """The frame rate itself, if streams can have it.

    Raises:
        InvalidInputError: They cannot.
    """
    if fps not in SUPPORTED_FPS:
        raise InvalidInputError("fps", f"{fps:g}", ", ".join(f"{one:g}" for one in SUPPORTED_FPS))
    return next(one for one in SUPPORTED_FPS if one == fps)


def rate_of(fps: float) -> Fraction:
    """Frames per second as the fraction that is meant: 59.94 stands for 60000/1001."""
    return _EXACT.get(fps) or Fraction(fps)


def frame_count(samples: int, fps: float) -> int:
    """Video frames of a clip: ceil(samples * fps / 16000)."""
    rate = rate_of(fps)
    return -(-samples * rate.numerator // (SAMPLE_RATE_HZ * rate.denominator))


def motion_frame_count(samples: int) -> int:
    """Frames of motion (25 per second) of a clip."""
    return frame_count(samples, MOTION_FPS)


def motion_position(frame: int, fps: float) -> Fraction:
    """Where between frames of motion a video frame lies: 1.5 is half-way from frame 1 to frame 2."""
    return frame * MOTION_FPS / rate_of(fps)


def frames_until(position: Fraction | int, fps: float) -> int:
    """Video frames that lie at or before a position between frames of motion (none where it is negative)."""
    return max(0, floor(position * rate_of(fps) / MOTION_FPS) + 1)


def frames_before(position: Fraction | int, fps: float) -> int:
    """Video frames that lie before a position between frames of motion."""
    exact = position * rate_of(fps) / MOTION_FPS
    return max(0, -floor(-exact))
