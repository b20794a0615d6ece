"""The media clock of a live session: sample positions, ticks and frames of motion are integers of one another."""

from __future__ import annotations

from dataclasses import dataclass

from kernels.errors import InvalidInputError
from pipeline.types import MOTION_FPS, SAMPLE_RATE_HZ, SAMPLES_PER_FRAME

LIVE_FPS = (25, 50)
"""Frame rates whose ticks hold a whole number of samples and of 1/90000 s."""
_RTP_HZ = 90_000


@dataclass(frozen=True)
class MediaGrid:
    """Converts between ticks, samples and seconds of one session.

    Attributes:
        fps: Ticks, that is pictures, per second: 25 or 50.
    """

    fps: int

    def __post_init__(self) -> None:
        """Refuse every rate that is not one of `LIVE_FPS`."""
        if self.fps not in LIVE_FPS:
            raise InvalidInputError("fps", f"{self.fps:g}", ", ".join(map(str, LIVE_FPS)), "live sessions")

    @property
    def samples_per_tick(self) -> int:
        """Samples of voice that belong to one picture."""
        return SAMPLE_RATE_HZ // self.fps

    @property
    def ticks_per_frame(self) -> int:
        """Pictures per frame of motion."""
        return self.fps // MOTION_FPS

    def pts_s(self, tick: int) -> float:
        """Presentation time of a tick in seconds, an exact multiple of 1/90000 s."""
        return tick * (_RTP_HZ // self.fps) / _RTP_HZ


def frame_of(samples: int) -> int:
    """The frame of motion that lasts at a sample position."""
    return samples // SAMPLES_PER_FRAME


def frame_from(samples: int) -> int:
    """The first frame of motion that begins at or after a sample position."""
    return -(-samples // SAMPLES_PER_FRAME)


def samples_of_ms(milliseconds: float) -> int:
    """Number of samples at 16 kHz in so many milliseconds."""
    return round(milliseconds * SAMPLE_RATE_HZ / 1000)
